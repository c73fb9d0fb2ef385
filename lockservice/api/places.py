"""Which properties a caller reaches.

The one rule: a property that is not there and one that is not the caller's are the same answer.
"""

from __future__ import annotations

from lockservice.core.auth_permissions import Principal
from lockservice.core.http_problems import Problem
from lockservice.core.places import Property
from vendors.port.ids import canonical_property_id


def require_property(caller: Principal, property_id: str) -> str:
    """Returns the property's id in our spelling. Inside the tenant's block. Raises Problem NOT_FOUND."""
    canonical = canonical_property_id(property_id)
    known = Property.objects.filter(tenant_id=caller.tenant_id, property_id=canonical).exists()
    if not known or not caller.reaches(canonical):
        raise Problem("NOT_FOUND", "no such property")
    return canonical
