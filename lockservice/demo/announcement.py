"""What `up` says when the demo is ready: where to look, how to sign in, and the first thing to try.

One rule: every line that looks like a command can be copied and works; of passwords only the file is named.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings

from lockservice.demo import people, places

RESERVATION = "rsv_first"
ROLE = "front_desk_supervisor"


def announce(urls: Mapping[str, str]) -> str:
    """Returns the text, given the address of each process."""
    web = urls.get("web")
    local = _short(settings.LOCAL_DIRECTORY.root)
    lines = ["", f"  {places.TENANT_NAME}: {' and '.join(house.name for house in places.HOUSES)}", ""]
    if web is not None:
        lines += [
            f"  console   {web}/console/   API  {web}/api/docs/",
            f"  logins    {', '.join(people.logins())}; passwords in {local}/secrets/{people.secret_name('NAME')}",
            "",
            "  1. a guest books a room (the key is in the console a second later)",
            "",
            *(f"     {line}" for line in first_curl(web)),
            "",
        ]
    lines += [
        "  2. she stands at the door",
        "",
        f"     {manage('try_door')} {_room().label} --reservation {RESERVATION}",
        "",
        f"  the same in one go: make first-key      real bookings: {manage('replay_bookings')} FILE",
        f"  move the time: {manage('clock')} advance 2h      put any event on the bus: {manage('publish_event')} FILE",
        "",
    ]
    return "\n".join(lines)


def first_curl(web: str) -> list[str]:
    """Returns the lines of the command that books a room from now on for two nights."""
    start = datetime.now(UTC).replace(second=0, microsecond=0)
    booking = {
        "reservationId": RESERVATION,
        "propertyId": places.HOTEL_SILK.property_id,
        "rooms": [_room().room_id],
        "validFrom": _iso(start),
        "validUntil": _iso(start + timedelta(days=2)),
        "guest": {"displayName": "زهرا احمدی"},
    }
    token = f"$({manage('issue_token')} --tenant {places.TENANT_ID} --role {ROLE})"
    return [
        f"curl -sS {web}/demo/v1/bookings -H 'Content-Type: application/json' \\",
        f'  -H "Authorization: Bearer {token}" \\',
        f"  -d '{json.dumps(booking, ensure_ascii=False, separators=(',', ':'))}'",
    ]


def manage(command: str) -> str:
    """Returns how to call a command from where `up` was called, on the same local directory."""
    where = os.environ.get("MELMASTOON_LOCAL")
    prefix = f"MELMASTOON_LOCAL={where} " if where else ""
    return f"{prefix}{_short(Path(sys.executable))} manage.py {command}"


def _room() -> places.DemoDoor:
    return next(places.HOTEL_SILK.rooms())


def _short(path: Path) -> str:
    """Gives a path as seen from the present directory, where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _iso(instant: datetime) -> str:
    return instant.isoformat(timespec="seconds").replace("+00:00", "Z")
