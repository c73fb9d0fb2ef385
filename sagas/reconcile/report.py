"""Tells what comparisons found: a table for people, JSON and CSV for programs.

One rule: no reference, no digits and no name at the vendor leave here; who may read names reads them in the console.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TextIO

from devices.models import LockDevice
from sagas.models import Finding
from sagas.reconcile.compare import Difference, Kind
from sagas.reconcile.repair import RULES
from sagas.reconcile.run import Report

COLUMNS = (
    "id", "kind", "status", "door", "key", "keyKind", "foundFrom", "foundUntil", "wantedFrom", "wantedUntil", "danger",
    "detail",
    "guess", "firstSeen",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One finding as it is told. `id` is None in a dry run, which writes none."""

    id: int | None
    kind: str
    status: str
    door: str
    key: str
    keyKind: str  # noqa: N815 - the column's name
    foundFrom: str  # noqa: N815 - the column's name
    foundUntil: str  # noqa: N815 - the column's name
    wantedFrom: str  # noqa: N815 - the column's name
    wantedUntil: str  # noqa: N815 - the column's name
    danger: str
    detail: str
    guess: str
    firstSeen: str  # noqa: N815 - the column's name


def lines_of(tenant_id: str, installation_id: str, *, everything: bool = False) -> list[Line]:
    """Reads an installation's findings that are open, or known; with `everything` also those that are closed. Inside the
    tenant's block."""
    rows = Finding.objects.filter(tenant_id=tenant_id, installation_id=installation_id)
    rows = rows if everything else rows.exclude(status="resolved")
    labels = dict(LockDevice.objects.filter(tenant_id=tenant_id, installation_id=installation_id).values_list("id", "label"))
    return [_line(row, labels.get(row.device_id, row.device_id)) for row in rows.order_by("device_id", "id")]


def line_of(difference: Difference, door: str, guesses: Sequence[dict[str, Any]]) -> Line:
    """Tells a difference that was not written."""
    window = difference.seen.window if difference.seen is not None else None
    wanted = difference.expected.fits[0] if difference.expected is not None else None
    kind = difference.seen.kind if difference.seen is not None else difference.expected.kind if difference.expected else ""
    return Line(
        None, difference.kind.value, "open", door, difference.credential_id, kind,
        _at(window.valid_from if window else None), _at(window.valid_until if window else None),
        _at(wanted.valid_from if wanted else None), _at(wanted.valid_until if wanted else None),
        difference.danger.value, difference.detail, _guess(guesses), "",
    )  # fmt: skip


def as_text(report: Report, lines: Iterable[Line]) -> str:
    """Returns the summary and a table."""
    rows = list(lines)
    head = (
        f"{report.installation_id} ({report.vendor}): {report.outcome}" + (f", {report.detail}" if report.detail else "")
        + f"\n  {report.doors_done_count} of {report.doors_count} doors, {report.keys_count} keys on"
        f" {report.pages_count} pages, {report.calls_count} calls; {report.new_count} new, {report.resolved_count} closed,"
        f" {report.in_flight_count} on their way, {report.repairs_count} repairs started"
    )  # fmt: skip
    failed = [f"  door {door}: {code}" for door, code in sorted(report.doors_failed.items())]
    if not rows:
        return "\n".join([head, *failed, "  nothing differs" if report.outcome == "done" else "  no findings"])
    shown = [("id", "kind", "door", "key", "at the door", "guess", "what")]
    shown += [
        (
            str(row.id or ""), row.kind + ("!" if row.danger else ""), row.door, f"{row.keyKind} {row.key}".strip(),
            f"{row.foundFrom[:16]}..{row.foundUntil[:16]}" if row.foundFrom or row.foundUntil else "-", row.guess,
            row.detail if row.status == "open" else f"{row.detail} ({row.status})",
        )
        for row in rows
    ]  # fmt: skip
    widths = [max(len(row[index]) for row in shown) for index in range(len(shown[0]))]
    table = ["  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    return "\n".join([head, *failed, *table])


def as_json(entries: Iterable[tuple[Report, Sequence[Line]]]) -> str:
    """Returns one document with a summary and the findings of each installation."""
    return json.dumps([{**asdict(report), "findings": [asdict(line) for line in lines]} for report, lines in entries], indent=2)


def write_csv(entries: Iterable[tuple[Report, Sequence[Line]]], out: TextIO) -> None:
    """Writes the findings, one a line, with the installation in front. A cell that a spreadsheet could take for a formula is
    preceded by an apostrophe."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["installation", *COLUMNS])
    for report, lines in entries:
        for line in lines:
            cells = asdict(line)
            writer.writerow([report.installation_id, *(_cell(cells[name]) for name in COLUMNS)])


def rules() -> str:
    """Returns what `--repair` does about each kind."""
    width = max(len(kind.value) for kind in Kind)
    return "\n".join(f"  {kind.value.ljust(width)}  {RULES[kind]}" for kind in Kind)


def _line(row: Finding, door: str) -> Line:
    return Line(
        row.pk, row.kind, row.status, door, row.credential_id, row.key_kind, _at(row.found_from), _at(row.found_until),
        _at(row.wanted_from), _at(row.wanted_until), row.danger, row.detail, _guess(row.guesses), _at(row.first_seen_at),
    )  # fmt: skip


def _guess(guesses: Sequence[dict[str, Any]]) -> str:
    if not guesses:
        return ""
    best = guesses[0]
    whose = f"{best['who']} {best['reservationId']}" if best.get("reservationId") else str(best["who"])
    return f"{whose} {best['confidence']} %: {'; '.join(best['why'])}"


def _at(instant: datetime | None) -> str:
    return instant.isoformat() if instant is not None else ""


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
