"""Gives a person access to a tenant's console, or takes it back: `console_access LOGIN TENANT ROLE` or `--withdraw`."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from lockservice.console.access import WrongPlace, grant, withdraw
from lockservice.console.roles import Role


class Command(BaseCommand):
    help = "Gives a person a role in a tenant's console. A new person's password is read from the terminal or standard input."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("login")
        parser.add_argument("tenant")
        parser.add_argument("role", nargs="?", choices=[role.value for role in Role])
        parser.add_argument("--withdraw", action="store_true", help="take the access back")

    def handle(self, *args: Any, **options: Any) -> None:
        login, tenant = options["login"], options["tenant"]
        if options["withdraw"]:
            if not withdraw(login, tenant):
                raise CommandError(f"{login} had no access to {tenant}")
            self.stdout.write(f"{login} has no access to {tenant} any more")
            return
        if not options["role"]:
            raise CommandError("name a role, or --withdraw")
        password = None if get_user_model().objects.filter(username=login).exists() else _password()
        try:
            row = grant(login, tenant, Role(options["role"]), password=password)
        except WrongPlace as error:
            raise CommandError(f"the role does not belong there: {error}") from error
        self.stdout.write(f"{login} is {row.role} in {tenant}, recorded as {row.actor_id}")


def _password() -> str:
    password = getpass.getpass("Password of the new person: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
    try:
        validate_password(password)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return password
