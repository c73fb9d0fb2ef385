"""Bulk revoke: every live key of a holder, or of a property, page by page.

One rule: pages are short transactions; a key revoked meanwhile is a no-op, so the walk may be killed and repeated.
"""

from __future__ import annotations

from credentials.lifecycle import LIVE
from credentials.models import KeyCredential
from credentials.services import KeyBatch
from sagas.flows import revoke_key
from sagas.intake import own_key
from sagas.steps import Work
from vendors.port.types import RevokeReason

FLOW = "bulk_revoke"
PAGE = 100


def next_page(tenant_id: str, args: dict[str, str]) -> list[str]:
    """Returns the ids of the next live keys the bulk act concerns, in order. `args` names holderId or propertyId."""
    rows = KeyCredential.objects.filter(tenant_id=tenant_id, state__in=sorted(LIVE), id__gt=args.get("after", ""))
    if args.get("holderId"):
        rows = rows.filter(holder_id=args["holderId"])
    if args.get("propertyId"):
        rows = rows.filter(property_id=args["propertyId"])
    return list(rows.order_by("id").values_list("id", flat=True)[:PAGE])


def run_page(batch: KeyBatch, work: Work) -> None:
    """Ends the locked keys of one page."""
    reason = RevokeReason(work.args.get("reason", RevokeReason.SECURITY.value))
    for key in list(batch.keys.values()):
        saga_key = own_key("bulk", work.id, key.id)
        trigger = str(work.args.get("trigger", "bulk"))
        revoke_key.begin(batch, key, reason, saga_key, work.cause, trigger=trigger, bulk=reason is not RevokeReason.SECURITY)
