"""The refusal of an action.

One rule: it is raised before any row is written, with a stable code.
"""

from __future__ import annotations


class Refused(Exception):
    """An act was refused. `code` is the API's code without its prefix; `fields` name what was wrong in the input."""

    def __init__(self, code: str, detail: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.fields = fields or {}
