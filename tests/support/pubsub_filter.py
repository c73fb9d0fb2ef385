"""The filter language of Pub/Sub subscriptions.

    attributes.region = "eu"     attributes.region != "eu"     attributes:region     hasPrefix(attributes.region, "e")
    NOT / -, AND, OR and brackets

Rule: a filter that the real service would refuse raises ``FilterError`` at the time the subscription is made.
Source: Pub/Sub documentation, "Filter messages from a subscription", read November 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

Predicate = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|!=|[=:().,\-]|[A-Za-z_][\w\-]*')


class FilterError(ValueError):
    """The text is no filter."""


def compile_filter(text: str) -> Predicate:
    """A predicate over a message's attributes. Raises ``FilterError``."""
    parser = _Parser(_TOKEN.findall(text))
    predicate = parser.alternatives()
    parser.expect_end()
    return predicate


class _Parser:
    """Recursive descent: alternatives (OR) of conjunctions (AND) of single conditions."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def alternatives(self) -> Predicate:
        parts = [self._conjunction()]
        while self._next_is("OR"):
            self._take("OR")
            parts.append(self._conjunction())
        return lambda attributes: any(part(attributes) for part in parts)

    def expect_end(self) -> None:
        if self._peek() is not None:
            raise FilterError(f"unexpected {self._peek()}")

    def _conjunction(self) -> Predicate:
        parts = [self._condition()]
        while self._next_is("AND"):
            self._take("AND")
            parts.append(self._condition())
        return lambda attributes: all(part(attributes) for part in parts)

    def _condition(self) -> Predicate:
        if self._next_is("("):
            self._take("(")
            inner = self.alternatives()
            self._take(")")
            return inner
        if self._next_is("NOT") or self._next_is("-"):
            self._take()
            negated = self._condition()
            return lambda attributes: not negated(attributes)
        if self._next_is("hasPrefix"):
            return self._prefix()
        return self._comparison()

    def _prefix(self) -> Predicate:
        for token in ("hasPrefix", "(", "attributes", "."):
            self._take(token)
        name = self._text()
        self._take(",")
        prefix = self._text()
        self._take(")")
        return lambda attributes: name in attributes and attributes[name].startswith(prefix)

    def _comparison(self) -> Predicate:
        self._take("attributes")
        if self._next_is(":"):
            self._take(":")
            present = self._text()
            return lambda attributes: present in attributes
        self._take(".")
        name, operator, value = self._text(), self._take(), self._text()
        if operator == "=":
            return lambda attributes: attributes.get(name) == value
        if operator == "!=":
            return lambda attributes: attributes.get(name) != value
        raise FilterError(f"{operator} is no operator")

    def _text(self) -> str:
        token = self._take()
        return json.loads(token) if token.startswith('"') else token

    def _peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _next_is(self, token: str) -> bool:
        return self._peek() == token

    def _take(self, expected: str | None = None) -> str:
        token = self._peek()
        if token is None or (expected is not None and token != expected):
            raise FilterError(f"expected {expected or 'more'}, found {token or 'the end'}")
        self._position += 1
        return token
