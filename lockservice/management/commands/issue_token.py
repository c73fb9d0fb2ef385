"""`manage.py issue_token`: a bearer token for the demo and for trying the API by hand.

The one rule: it works in embedded mode only; elsewhere tokens come from the platform's identity service.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from lockservice.core.auth import MAX_TTL_S, issue_token
from lockservice.core.auth_permissions import ROLES


class Command(BaseCommand):
    help = "Prints a bearer token of this installation (embedded mode only)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, help="tenant the token is good for")
        parser.add_argument("--role", action="append", required=True, choices=sorted(ROLES), help="may be given again")
        parser.add_argument("--property", action="append", default=[], help="property the token reaches; all if not given")
        parser.add_argument("--subject", default="usr_demo", help="who acts")
        parser.add_argument("--ttl", type=int, default=3600, help=f"seconds it is good for, 1 to {MAX_TTL_S}")
        parser.add_argument("--second-factor", action="store_true", help="as if the user had shown a second factor")

    def handle(self, *_args: Any, **options: Any) -> None:
        if not settings.EMBEDDED:
            raise CommandError("tokens are issued in embedded mode only")
        amr = ("pwd", "otp") if options["second_factor"] else ("pwd",)
        try:
            token = issue_token(
                options["tenant"], options["subject"], options["role"], options["property"] or ("*",),
                ttl_s=options["ttl"], amr=amr,
            )  # fmt: skip
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(token)
