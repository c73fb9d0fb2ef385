"""`manage.py simulate`: the vendors it names are those that the demo runs."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from lockservice.management.commands.simulate import Command

RUNNING = ("ttlock", "salto")
NOWHERE = {vendor: {"address": "127.0.0.1:1", "control": "http://127.0.0.1:1"} for vendor in (*RUNNING, "mock")}


@override_settings(SIMULATORS=NOWHERE, DEMO_VENDOR_CODES=RUNNING)
def test_one_vendors_trouble_is_asked_of_a_vendor_that_runs() -> None:
    with pytest.raises(CommandError) as refused:
        call_command("simulate", "all", "dead")
    assert str(refused.value) == "dead is for one vendor: ttlock, salto"
    assert "  vendor " in (told := Command().create_parser("manage.py", "simulate").format_help())
    assert "ttlock, salto, or another that has a simulator" in " ".join(told.split())
