"""Every error number of the vendor's list comes back inside HTTP 200, from its cause where it has one."""

from __future__ import annotations

import pytest

from tests.vendors.ttlock_simulator.error_causes import CAUSES
from tests.vendors.ttlock_simulator.tenant import Simulator, Tenant
from vendors.ttlock.simulator.errcodes import ERROR_TEXTS

WITHOUT_CAUSE = {1, -1, 10002, 10005, 10008, 10009, 20000, 90000}
"""What a working cloud never says: reached by fault injection only."""


def test_every_number_of_the_list_has_a_cause_or_is_injected() -> None:
    assert set(CAUSES) | WITHOUT_CAUSE == set(ERROR_TEXTS)
    assert not set(CAUSES) & WITHOUT_CAUSE


@pytest.mark.parametrize("errcode", sorted(CAUSES))
def test_number_comes_from_its_cause(errcode: int, simulator: Simulator) -> None:
    body = CAUSES[errcode](simulator)
    assert body["errcode"] == errcode
    assert body["errmsg"] == ERROR_TEXTS[errcode]


@pytest.mark.parametrize("errcode", sorted(ERROR_TEXTS))
def test_number_comes_by_injection_and_nothing_is_done(errcode: int, tenant: Tenant) -> None:
    tenant.fault(path="keyboardPwd/add", lockId=tenant.lock, errcode=errcode)
    assert tenant.add_code("482913")["errcode"] == errcode
    assert tenant.dump()["cloud"]["passcodes"] == []
    assert tenant.dump()["door"]["passcodes"] == []
    assert tenant.creates() == 0
    assert "errcode" not in tenant.add_code("482913")
