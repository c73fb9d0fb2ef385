"""Companions' keys that died with a lost one: each answer that names some gets them issued again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from credentials import event_data
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from lockservice.core.tenancy import tenant
from sagas import acts
from sagas.flows import companions
from sagas.models import Saga
from sagas.outbox import Cause
from sagas.steps import StepContext, Work
from tests.support.hotel import Hotel, build_hotel
from vendors.port.ids import new_id
from vendors.port.types import CredentialKind, IssueResult, Window

CAUSE = Cause(correlation_id="test")


def active_keys(hotel: Hotel, batch: KeyBatch) -> list[KeyCredential]:
    """Makes the stay's keys active, as their desk would."""
    for key in batch.keys.values():
        batch.move(key, "hand_over", event_data.pending(key, 1, batch.now), CAUSE)
        batch.flush()
        batch.move(key, "activate", event_data.issued(key, None, batch.now), CAUSE)
        batch.flush()
    return sorted(batch.keys.values(), key=lambda key: key.ordinal)


def test_a_second_answer_that_names_another_companion_has_hers_issued_again_too(database: str) -> None:
    hotel = build_hotel(
        vendor="generic-wiegand", settings={"locks": "standalone", "property_number": 1}, rooms={"101": "101"}
    )  # fmt: skip
    stay, now = new_id("rsv"), datetime.now(UTC)
    command = acts.IssueCommand(
        hotel.property_id, (hotel.rooms["101"],), Window(now, now + timedelta(days=1)), "gst_1", stay,
        preferred_kinds=(CredentialKind.RFID_CARD,), reason="walk-in", may_issue_unbooked=True,
    )  # fmt: skip
    for _ in range(3):
        acts.issue(hotel.tenant_id, command, acts.Actor("usr_clerk"), acts.new_act_id())
    with tenant(hotel.tenant_id):
        batch = KeyBatch.load_stays(hotel.tenant_id, [stay], now)
        first, second, third = active_keys(hotel, batch)
        context = StepContext(batch, now, lambda: 0.5)
        work = Work("sag_1", hotel.tenant_id, "issue", "", first.id, stay, hotel.installation_id, 0, 1, 1, 1, {}, CAUSE)
        for killed in (second, third, third):
            companions.follow_up(context, work, first, IssueResult((), also_killed=(killed.id,)))
            batch.flush()
        rows = Saga.objects.filter(tenant_id=hotel.tenant_id, flow=companions.FLOW).order_by("position")
        assert [row.args["keys"] for row in rows] == [[second.id], [third.id]]
