"""The parts of the documents that are made from code: diagram, tables of events, errors and vendors.

One rule: a table stands between its two markers and is never edited by hand; `python -m tests.architecture.generated_docs` writes
all of them anew, and a test holds them in step.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from credentials.lifecycle import MOVES, TERMINAL, State
from lockservice.core.figure_series import SERIES
from lockservice.core.http_problems import PROBLEMS
from sagas.events import registry
from sagas.events.event_spec import Direction, EventSpec
from sagas.events.subjects import Subject
from vendors import registry as vendors
from vendors.port.manifest import VendorManifest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
EVENTS_PAGE = ROOT / "docs" / "events.md"
OPERATIONS_PAGE = ROOT / "docs" / "operations.md"
VENDOR_PAGE = ROOT / "docs" / "runbooks" / "lock" / "vendor.md"
PREFIX = "melmastoon."
BLOCK = re.compile(r"<!-- made from code: (?P<name>[a-z-]+) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)

EMITTED = frozenset(
    {
        *(f"melmastoon.lock.credential.{move.event}.v1" for move in MOVES),
        Subject.CREDENTIAL_REQUESTED,
        Subject.CREDENTIAL_UPDATED,
        Subject.VENDOR_ERROR,
        Subject.VENDOR_ADAPTER_HEALTH_CHANGED,
        Subject.DEVICE_REGISTERED,
        Subject.DEVICE_HEALTH_ALERT,
        Subject.DEVICE_BATTERY_LOW,
        Subject.DEVICE_OFFLINE,
        Subject.DEVICE_ONLINE,
        Subject.AUDIT_ATTEMPT,
        Subject.VENDOR_WEBHOOK_RECEIVED,
        Subject.VENDOR_WEBHOOK_PROCESSED,
    }
)
"""What this release produces; the other subjects have their schema and their topic, and nothing that sends them yet."""

EFFECTS: dict[str, str] = {
    Subject.BOOKING_CONFIRMED: "issues a key for each installation the rooms are on; confirmed again after a cancellation: a new key",
    Subject.BOOKING_DATES_CHANGED: "changes window and rooms of the live keys, brings back what ended by time; a room on another installation gets a key there",
    Subject.BOOKING_CANCELLED: "revokes (`cancellation`); a key still on its way is abandoned and its doors are proven empty",
    Subject.BOOKING_CHECKED_OUT: "revokes (`checkout`)",
    Subject.BOOKING_EARLY_CHECKOUT: "revokes (`checkout`)",
    Subject.BOOKING_NO_SHOW: "after the policy's delay suspends (`no_show`), if nothing shows that the guest has come",
    Subject.BOOKING_FRAUD_FLAGGED: "suspends (`fraud_review`)",
    Subject.RESERVATION_CHECKED_IN: "shows that the guest has come: no no-show suspends her key",
    Subject.PAYMENT_CAPTURED: "resumes a key suspended for `overdue_payment`",
    Subject.USER_DEACTIVATED: "revokes every key the user holds (`security`); ends her console access, sessions and tokens",
    Subject.USER_DISABLED: "ends the user's console access, sessions and tokens; moves no key",
    Subject.PROPERTY_DEACTIVATED: "revokes every key of the property (`security`)",
    Subject.CONFIG_UPDATED: "drops cached policies and installations; a stay given as days follows its property's hours and zone",
}
"""What a consumed event does to keys. Every other consumed event is written to the inbox and ignored in this release."""


def lifecycle() -> str:
    """Draws the table of moves as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {State.REQUESTED}"]
    for move in MOVES:
        lines += [f"    {source} --> {move.target}: {move.name}" for source in State if source in move.sources]
    lines += [f"    {state} --> [*]" for state in State if state in TERMINAL]
    return "\n".join([*lines, "```"])


def consumed_events() -> str:
    """Lists the events that do something, with what they do."""
    rows = [(f"`{_short(subject)}`", effect) for subject, effect in EFFECTS.items()]
    return _table(("event", "effect on keys"), rows)


def api_errors() -> str:
    """Lists the error codes by status; those that may succeed when tried again are in bold."""
    kinds = sorted(PROBLEMS.items(), key=lambda item: item[1].status)
    rows = []
    for status, group in groupby(kinds, key=lambda item: item[1].status):
        codes = [f"**`{code}`**" if kind.retriable else f"`{code}`" for code, kind in group]
        rows.append((str(status), " ".join(codes)))
    return _table(("status", "`code`, after `MELMASTOON.LOCK.`"), rows)


def shipped() -> dict[str, VendorManifest]:
    """Returns the vendors whose adapter is there, by code."""
    found = vendors.manifests().items()
    return {code: manifest for code, manifest in sorted(found) if find_spec(manifest.adapter.partition(":")[0])}


def shipped_vendors() -> str:
    """Lists the vendors with an adapter."""
    rows = []
    for code, manifest in shipped().items():
        kinds = " ".join(f"`{kind}`" + (" (desk)" if kind in manifest.desk_kinds else "") for kind in manifest.kinds)
        folder = folder_of(manifest)
        how = "one call at a time per gateway" if manifest.lane == "gateway" else f"{manifest.lane_width} calls at once"
        rows.append((f"`{code}`", manifest.display_name, kinds, how, f"[vendors/{folder}](vendors/{folder}/README.md)"))
    return _table(("code", "vendor", "kinds of key", "pace", "facts"), rows)


def folder_of(manifest: VendorManifest) -> str:
    """Returns the name of the vendor's folder."""
    return manifest.adapter.split(".")[1]


def runbook_of(manifest: VendorManifest) -> Path:
    """Returns where the vendor's runbook is, or should be."""
    return ROOT / "vendors" / folder_of(manifest) / "runbook.md"


def error_tables(manifest: VendorManifest) -> dict[str, Mapping[Any, Any]]:
    """Returns the tables in the vendor's `errors.py` by name: each maps the vendor's code to a row with a `meaning`."""
    module = importlib.import_module(f"vendors.{folder_of(manifest)}.errors")
    found = {name: value for name, value in vars(module).items() if name.isupper() and isinstance(value, Mapping)}
    return {name: table for name, table in found.items() if table and all(hasattr(row, "meaning") for row in table.values())}


def error_codes(manifest: VendorManifest) -> str:
    """Lists every code of the vendor's tables with what it means and what it becomes."""
    tables = error_tables(manifest)
    parts = []
    for name, table in tables.items():
        rows = [
            (f"`{code}`", row.meaning, _kind_name(row.kind), str(row.reason), "yes" if row.retriable else "no")
            for code, row in table.items()
        ]
        head = "" if len(tables) == 1 else f"{name.capitalize() if len(name) > 3 else name}:\n\n"
        parts.append(head + _table(("code", "meaning", "becomes", "reason", "again"), rows))
    return "\n\n".join(parts)


def vendor_runbooks() -> str:
    """Lists the vendors' own runbooks."""
    rows = [
        (f"`{code}`", manifest.display_name, f"[runbook](../../../vendors/{folder_of(manifest)}/runbook.md)")
        for code, manifest in shipped().items()
    ]
    return _table(("code", "vendor", ""), rows)


def metrics() -> str:
    """Lists the series that a worker counts; those of single installations are marked."""
    rows = [
        (f"`{name}`", " ".join(f"`{label}`" for label in series.labels), series.help + (" *" if series.of_installation else ""))
        for name, series in SERIES.items()
    ]
    return _table(("series", "labels", ""), rows)


def _kind_name(kind: Any) -> str:
    return f"`{kind.__name__}`" if isinstance(kind, type) else _KINDS[kind.value if isinstance(kind, Enum) else str(kind)]


_KINDS = {
    "refused": "`KeyIssueFailed`, `KeyRevokeFailed`",
    "unreachable": "`VendorUnreachable`",
    "not_paired": "`DeviceNotPaired`",
    "encoder": "`CardEncoderOffline`",
}


def all_events() -> str:
    """Lists every registered subject."""
    parts = []
    for direction in Direction:
        specs = registry.REGISTRY.of_direction(direction)
        parts.append(f"## {direction.value.capitalize()}\n\n" + _table(_EVENT_HEAD, [_event_row(spec) for spec in specs]))
    return "\n\n".join(parts)


_EVENT_HEAD = ("subject, after `melmastoon.`", "in this release", "kept", "ordered by", "schema")

BLOCKS: dict[Path, dict[str, Callable[[], str]]] = {
    README: {
        "lifecycle": lifecycle,
        "consumed-events": consumed_events,
        "api-errors": api_errors,
        "shipped-vendors": shipped_vendors,
    },
    EVENTS_PAGE: {"all-events": all_events},
    OPERATIONS_PAGE: {"metrics": metrics},
    VENDOR_PAGE: {"vendor-runbooks": vendor_runbooks},
    **{
        runbook_of(manifest): {"error-codes": partial(error_codes, manifest)}
        for manifest in shipped().values()
        if error_tables(manifest) and runbook_of(manifest).is_file()
    },
}


def expected(page: Path, text: str) -> str:
    """Returns the page with every block as the code has it. Raises KeyError for a block nobody makes."""
    makers = BLOCKS[page]
    return BLOCK.sub(lambda found: f"<!-- made from code: {found['name']} -->\n{makers[found['name']]()}\n<!-- end -->", text)


def names_in(text: str) -> list[str]:
    """Returns the names of the blocks in a page, in order."""
    return [found["name"] for found in BLOCK.finditer(text)]


def _event_row(spec: EventSpec) -> tuple[str, ...]:
    kept = f"{spec.retention.class_name}, {spec.retention.days} days" + (
        ", to be anchored" if spec.retention.is_anchored else ""
    )
    link = f"[{spec.schema_file}](../sagas/events/schemas/{spec.schema_file})"
    return (f"`{_short(spec.subject)}`", _role(spec), kept, spec.ordering.label.replace("_", " "), link)


def _role(spec: EventSpec) -> str:
    if spec.direction is Direction.CONSUMED:
        return "acted upon" if spec.subject in EFFECTS else "taken and ignored"
    return "sent" if spec.subject in EMITTED else "schema only"


def _short(subject: str) -> str:
    return str(subject).removeprefix(PREFIX)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    """Writes all blocks anew."""
    for page in BLOCKS:
        page.write_text(expected(page, page.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
