"""PostgreSQL with a crash point before and after every commit that wrote something.

Rule: whether a transaction wrote is asked of the server (it has a transaction id, or it has none), so an idle poll is no point.
"""

from __future__ import annotations

from typing import Any

from tests.support import crash_points
from tests.support.guarded_backend import base


class DatabaseWrapper(base.DatabaseWrapper):
    def _commit(self) -> Any:
        if self.connection is None or not crash_points.is_armed() or not self._wrote():
            return super()._commit()
        crash_points.reach("before commit")
        done = super()._commit()
        crash_points.leave_trace()
        crash_points.reach("after commit")
        return done

    def _wrote(self) -> bool:
        row = self.connection.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").fetchone()
        return bool(row[0])
