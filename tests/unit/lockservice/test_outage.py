"""What is an outage, by SQLSTATE and by what the driver says; everything else is a defect of ours."""

from __future__ import annotations

import psycopg
import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from django.db import DataError, IntegrityError, InterfaceError, InternalError, OperationalError, ProgrammingError
from django.db.transaction import TransactionManagementError
from psycopg_pool import PoolTimeout

from lockservice.core.outage import is_conflict, is_outage, sqlstate


def _wrapped(state: str) -> Exception:
    """As Django raises it: by the class of the driver's error, from that error."""
    cause = psycopg.errors.lookup(state)("said by the server")
    kinds = (OperationalError, InternalError, IntegrityError, ProgrammingError, DataError)
    kind = next(kind for kind in kinds if isinstance(cause, getattr(psycopg, kind.__name__)))
    error = kind("said by the server")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("state", [
    "08000", "08003", "08006", "25P02", "25P03", "25P04", "25006", "40001", "40P01", "40003", "53100", "53200", "53300", "55P03",
    "57014", "57P01", "57P02", "57P03", "57P04", "57P05", "58030", "28P01",
])  # fmt: skip
def test_what_the_server_does_to_a_session_is_an_outage(state: str) -> None:
    error = _wrapped(state)
    assert sqlstate(error) == state
    assert is_outage(error)
    assert is_outage(error.__cause__ or error)


@pytest.mark.parametrize("state", [
    "22001", "22021", "23502", "23503", "23505", "23514", "25001", "25P01", "42501", "42601", "42703", "42P01", "54001", "XX000",
    "P0001",
])  # fmt: skip
def test_what_a_statement_did_wrong_is_ours(state: str) -> None:
    assert not is_outage(_wrapped(state))


@pytest.mark.parametrize("error", [
    OperationalError("the connection is closed"), InterfaceError("connection already closed"),
    psycopg.OperationalError("no answer"), psycopg.InterfaceError("the connection is closed"), PoolTimeout("none within 3 s"),
    SoftTimeLimitExceeded(100), MemoryError(),
])  # fmt: skip
def test_a_dead_connection_and_an_interrupted_process_are_outages(error: Exception) -> None:
    assert is_outage(error)


def test_what_follows_from_an_outage_is_one() -> None:
    later = TransactionManagementError("an error occurred in the current transaction")
    later.__cause__ = _wrapped("25P03")
    assert is_outage(later)
    ours = TransactionManagementError("an error occurred in the current transaction")
    ours.__cause__ = _wrapped("23514")
    assert not is_outage(ours)


@pytest.mark.parametrize(
    "error", [ValueError(), KeyError("a"), TransactionManagementError(), OSError(), ConnectionResetError()]
)
def test_other_errors_are_ours(error: Exception) -> None:
    assert not is_outage(error)


def test_conflicts_are_told_apart() -> None:
    assert [state for state in ("40001", "40P01", "23505", "25P03", "23514") if is_conflict(_wrapped(state))] == [
        "40001", "40P01", "23505",
    ]  # fmt: skip
    assert not is_conflict(OperationalError("away"))
