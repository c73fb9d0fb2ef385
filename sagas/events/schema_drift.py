"""Tells whether a schema change is purely additive.

One rule: what cannot be shown to be additive is a break; an unknown keyword that changed is never waved through.

| change | produced, local | consumed |
|---|---|---|
| new optional property, grown enum, looser bound, dropped pattern | additive | additive |
| more forbidden property names | additive | break |
| more types, dropped format, required made optional, opened items | break: a promise is withdrawn | additive |
| property removed or renamed, other type, newly required, anything tightened | break | break |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_ANNOTATIONS = frozenset(
    {"$schema", "$id", "$comment", "title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly"}
)
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
_DATA = frozenset({"enum", "const", "required", "dependentRequired"})

_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})


@dataclass(slots=True)
class Drift:
    """What changed between two versions of one schema, as sentences that begin with the field's path."""

    additions: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)


def normalise(schema: Any) -> Any:
    """Drops annotations, which promise nothing, and sorts what has no order."""
    if isinstance(schema, Mapping):
        return {name: _normalise_keyword(name, schema[name]) for name in sorted(schema) if name not in _ANNOTATIONS}
    if isinstance(schema, list):
        return [normalise(item) for item in schema]
    return schema


def _normalise_keyword(name: str, value: Any) -> Any:
    if name == "required":
        return sorted(value)
    if name == "type":
        return sorted(value) if isinstance(value, list) else [value]
    if name in _DATA:
        return value
    if name in _NAMED_SCHEMAS:
        return {key: normalise(value[key]) for key in sorted(value)}
    return normalise(value)


def compare(old: Any, new: Any, *, is_promise: bool) -> Drift:
    """Compares two normalised schemas. `is_promise`: we write such events, so a wider value is a weaker promise."""
    drift = Drift()
    _Comparison(drift, is_promise).schemas("data", old, new)
    return drift


_MISSING: Any = object()


class _Comparison:
    """One walk over two schemas; `path` names the field in each sentence."""

    def __init__(self, drift: Drift, is_promise: bool) -> None:
        self._drift = drift
        self._is_promise = is_promise
        self._handlers: dict[str, Callable[[str, Any, Any], None]] = {
            "properties": self._properties,
            "required": self._required,
            "type": self._type,
            "enum": self._enum,
            "pattern": self._pattern,
            "format": self._format,
            "items": self._items,
            "additionalProperties": self._additional,
            "propertyNames": self._names,
            "anyOf": self._any_of,
        }

    def _added(self, path: str, what: str) -> None:
        self._drift.additions.append(f"{path}: {what}")

    def _broken(self, path: str, what: str) -> None:
        self._drift.breaks.append(f"{path}: {what}")

    def _loosened(self, path: str, what: str) -> None:
        (self._broken if self._is_promise else self._added)(path, what)

    def schemas(self, path: str, old: Any, new: Any) -> None:
        if old == new:
            return
        if not isinstance(old, dict) or not isinstance(new, dict):
            self._broken(path, "replaced")
            return
        for keyword in sorted(old.keys() | new.keys()):
            before, after = old.get(keyword, _MISSING), new.get(keyword, _MISSING)
            if before != after:
                self._keyword(path, keyword, before, after)

    def _keyword(self, path: str, keyword: str, old: Any, new: Any) -> None:
        handler = self._handlers.get(keyword)
        if handler is not None:
            handler(path, old, new)
        elif keyword in _LOWER | _UPPER:
            self._bound(path, keyword, old, new)
        else:
            self._broken(path, f"{keyword} changed")

    def _properties(self, path: str, old: Any, new: Any) -> None:
        before, after = ({} if value is _MISSING else value for value in (old, new))
        for name in sorted(before.keys() - after.keys()):
            self._broken(f"{path}.{name}", "property removed or renamed")
        for name in sorted(after.keys() - before.keys()):
            self._added(f"{path}.{name}", "new property")
        for name in sorted(before.keys() & after.keys()):
            self.schemas(f"{path}.{name}", before[name], after[name])

    def _required(self, path: str, old: Any, new: Any) -> None:
        before, after = (set() if value is _MISSING else set(value) for value in (old, new))
        for name in sorted(after - before):
            self._broken(f"{path}.{name}", "newly required")
        for name in sorted(before - after):
            self._loosened(f"{path}.{name}", "no longer required")

    def _type(self, path: str, old: Any, new: Any) -> None:
        if new is _MISSING or (old is not _MISSING and set(old) < set(new)):
            self._loosened(path, "more types allowed")
        else:
            self._broken(path, "type changed")

    def _enum(self, path: str, old: Any, new: Any) -> None:
        if new is _MISSING:
            self._added(path, "any value allowed")
        elif old is not _MISSING and all(value in new for value in old):
            self._added(path, "more values allowed")
        else:
            self._broken(path, "values removed")

    def _pattern(self, path: str, _old: Any, new: Any) -> None:
        if new is _MISSING:
            self._added(path, "pattern dropped")
        else:
            self._broken(path, "pattern tightened or changed")

    def _format(self, path: str, _old: Any, new: Any) -> None:
        if new is _MISSING:
            self._loosened(path, "format dropped")
        else:
            self._broken(path, "format tightened or changed")

    def _bound(self, path: str, keyword: str, old: Any, new: Any) -> None:
        is_wider = old is not _MISSING and (new is _MISSING or (new < old if keyword in _LOWER else new > old))
        if is_wider:
            self._added(path, f"{keyword} wider")
        else:
            self._broken(path, f"{keyword} tightened")

    def _items(self, path: str, old: Any, new: Any) -> None:
        if old is _MISSING:
            self._broken(path, "items tightened")
        elif new is _MISSING:
            self._loosened(path, "items of any kind allowed")
        else:
            self.schemas(f"{path}[]", old, new)

    def _additional(self, path: str, old: Any, new: Any) -> None:
        before, after = (True if value is _MISSING else value for value in (old, new))
        if before == after:
            return
        if after is True:
            self._loosened(path, "other properties allowed")
        elif before is True or after is False:
            self._broken(path, "other properties tightened")
        else:
            self.schemas(f"{path}.*", before, after)

    def _names(self, path: str, old: Any, new: Any) -> None:
        before, after = _forbidden(old), _forbidden(new)
        if self._is_promise and before is not None and after is not None and before < after:
            self._added(path, "more property names forbidden")
        else:
            self._broken(path, "allowed property names changed")

    def _any_of(self, path: str, old: Any, new: Any) -> None:
        if old is not _MISSING and new is not _MISSING and all(branch in new for branch in old):
            self._loosened(path, "more alternatives allowed")
        else:
            self._broken(path, "alternatives tightened or changed")


def _forbidden(names: Any) -> set[str] | None:
    """The closed list in `{"not": {"enum": [...]}}`; empty if there is no rule, None if it is another rule."""
    if names is _MISSING:
        return set()
    if isinstance(names, dict) and names.keys() == {"not"} and names["not"].keys() == {"enum"}:
        return set(names["not"]["enum"])
    return None
