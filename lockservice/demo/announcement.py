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

ROLE = "front_desk_supervisor"
AND_THEN = (
    ("clock", "advance 2h          the hotels' time moves on, and their locks' with it"),
    ("publish_event", "FILE        any event, checked and put on the bus"),
    ("simulate", "all status       how the locks' vendors stand; --help tells how to break and mend them"),
    ("replay_bookings", "FILE      a season of real bookings, held against the doors at the end"),
)


def announce(urls: Mapping[str, str]) -> str:
    """Returns the text, given the address of each process."""
    web = urls.get("web")
    start = datetime.now(UTC).replace(second=0, microsecond=0)
    # Another id at each start: a stay that ended days ago does not come back because it is booked again.
    reservation_id = f"rsv_first_{start:%Y%m%d_%H%M}"
    local = _short(settings.LOCAL_DIRECTORY.root)
    lines = ["", f"  {places.TENANT_NAME}: {' and '.join(house.name for house in places.HOUSES)}", ""]
    if web is not None:
        lines += [
            f"  console   {web}/console/   API  {web}/api/docs/",
            f"  logins    {', '.join(people.logins())}; passwords in {local}/secrets/{people.secret_name('NAME')}",
            "",
            "  1. a guest books a room (the key is in the console a second later)",
            "",
            *(f"     {line}" for line in first_curl(web, reservation_id, start)),
            "",
        ]
    lines += [
        "  2. she stands at the door",
        "",
        f"     {manage('try_door')} {_room().label} --reservation {reservation_id}",
        "",
        "  and then",
        "",
        *(f"     {manage(command)} {rest}" for command, rest in AND_THEN),
        "",
    ]
    return "\n".join(lines)


def first_curl(web: str, reservation_id: str, start: datetime) -> list[str]:
    """Returns the lines of the command that books a room from `start` on for two nights."""
    booking = {
        "reservationId": reservation_id,
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
