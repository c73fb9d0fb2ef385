"""A comparison that writes nothing: what a run would find, told and forgotten.

One rule: it reads the vendor and our books; the only row it touches is the count of calls, which is a bill and not a finding.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from devices import adapters, breaker, call_counts
from devices.selectors import DeviceFacts, installation, property_devices
from lockservice.core import clock, tenancy
from sagas.reconcile import judging, owners, vanishing
from sagas.reconcile.asking import UNKNOWN_VENDOR, AdapterBroken, DoorSilent, EndlessList, Inquiry, VendorSilent
from sagas.reconcile.compare import Kind
from sagas.reconcile.report import Line, line_of
from sagas.reconcile.run import ENDLESS, VANISHED, Report
from sagas.reconcile.sightings import sighted


def preview(tenant_id: str, installation_id: str, *, pause: Callable[[float], None] = time.sleep) -> tuple[Report, list[Line]]:
    """Compares an installation with its doors and returns what differs. No transaction may be open.

    Raises devices.selectors.UnknownDevice.
    """
    report = Report(tenant_id, installation_id)
    lines: list[Line] = []
    inquiry = Inquiry(None, None, pause)
    with tenancy.tenant(tenant_id):
        facts = installation(tenant_id, installation_id)
        report.vendor = facts.vendor
        adapters.vendor_clock().observe(clock.now())
        devices = sorted(
            (d for d in property_devices(tenant_id, facts.property_id) if d.installation_id == facts.id), key=lambda d: d.id
        )
        report.doors_count = len(devices)
        if not facts.active or facts.id in breaker.standing(tenant_id):
            report.outcome = "breaker" if facts.active else "inactive"
            return report, lines
        if not adapters.is_known(facts.vendor):
            report.outcome, report.detail = UNKNOWN_VENDOR, f"no vendor {facts.vendor} is known here"
            return report, lines
        try:
            inquiry.port = adapters.port_of(tenant_id, facts)
        except ValueError as error:
            report.outcome, report.detail = "settings", str(error)
            return report, lines
    with adapters.tally() as tally:
        try:
            if not inquiry.can_list:
                report.outcome = "cannot_list"
                return report, lines
            missing: Counter[str] = Counter()
            for device in devices:
                found = _door(inquiry, tenant_id, device, report)
                missing[device.id] = sum(line.kind == Kind.MISSING for line in found)
                lines += found
            _doubt(report, devices, +missing)
        except VendorSilent as silent:
            report.outcome, report.detail = silent.outcome, silent.detail
        except EndlessList as endless:
            report.outcome, report.detail = ENDLESS, str(endless)
        except AdapterBroken as broken:
            report.outcome, report.detail = "internal_error", str(broken)
    report.calls_count = tally.calls
    report.counts = dict(sorted(Counter(line.kind for line in lines).items()))
    with tenancy.tenant(tenant_id):
        call_counts.add(tenant_id, {facts.id: call_counts.Counted(calls=tally.calls)}, clock.now())
    return report, lines


def _doubt(report: Report, devices: list[DeviceFacts], missing: Counter[str]) -> None:
    """Says so where so many keys are missing at once that a run would give none of them again."""
    labels = {device.id: device.label for device in devices if device.label not in report.doors_failed}
    with tenancy.tenant(report.tenant_id):
        doubt = vanishing.doubt(report.tenant_id, labels, missing)
    if doubt:
        report.outcome, report.detail = VANISHED, doubt


def _door(inquiry: Inquiry, tenant_id: str, device: DeviceFacts, report: Report) -> list[Line]:
    try:
        before = inquiry.pages_count
        found = inquiry.every_page(device.door())
        report.pages_count += inquiry.pages_count - before  # of the list alone, as a run counts them, without second looks
        seen = [sighted(tenant_id, device.id, key) for key in found]
        suspicion = judging.suspect(inquiry, tenant_id, device, seen)
    except DoorSilent as silent:
        report.doors_failed[device.label] = silent.error.code.rsplit(".", 1)[-1]
        return []
    labels = {item.seen.fingerprint: item.label for item in seen}
    with tenancy.tenant(tenant_id):
        now = clock.now()
        differences, in_flight_count = judging.confirmed(tenant_id, device, suspicion)
        stays = owners.stays_at(tenant_id, device, now) if any(item.kind is Kind.STRANGER for item in differences) else []
    report.doors_done_count += 1
    report.keys_count += len(found)
    report.in_flight_count += in_flight_count
    lines = []
    for item in differences:
        label = labels.get(item.subject, "")
        window = item.seen.window if item.seen is not None else None
        guesses = owners.guess(label, window, stays, is_shared=device.shared, now=now) if item.kind is Kind.STRANGER else []
        lines.append(line_of(item, device.label, [found.as_json() for found in guesses]))
    return lines
