"""Count the pairs of harness, kind, trouble and verb that the contract suite's collected test ids cover, before and after a change.

    pytest --collect-only -q tests/vendors > before.txt      (then change the matrix)
    pytest --collect-only -q tests/vendors > after.txt
    python -m tests.vendors.pairs before.txt after.txt

It prints how many pairs there are of each sort, and names those that were lost. It ends with 1 if any was.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vendors.port.protocol import LockPort

Value = str
Case = Mapping[str, Value]
Pairs = Mapping[str, frozenset[tuple[Value, Value]]]

VERBS = tuple(sorted(name.removesuffix("_credential") for name in vars(LockPort) if name.endswith("_credential")))
FIRST = (("harness", "trouble"), ("harness", "verb"), ("verb", "trouble"))
"""The pairs that no run may lose. The others are counted as well."""
_ID = re.compile(r"(tests/vendors/test_\w+\.py)::(\w+)\[(.+)\]\s*$", re.MULTILINE)
_VERB_OF = {
    "test_a_broken_answer_ends_in_one_effect": "issue",
    "test_an_answer_lost_again_and_again_leaves_one_effect": "issue",
    "test_a_key_whose_making_was_cut_by_a_limit_is_there_once": "issue",
    "test_a_key_called_off_after_its_answer_was_lost_is_found_and_taken_back": "revoke",
}
"""The verb of tests whose ids do not say it: they know only one."""


@dataclass(frozen=True)
class Words:
    """The names that ids are made of, by what they are."""

    harness: tuple[str, ...]
    kind: tuple[str, ...]
    trouble: tuple[str, ...]
    verb: tuple[str, ...] = VERBS

    def read(self, ids: str) -> list[Case]:
        """Return what each case of the suite is made of; other ids, and other lines, are passed over."""
        found = []
        for file, test, inside in _ID.findall(ids):
            case, rest = {"test": f"{file}::{test}"}, inside
            for dimension in ("harness", "kind", "trouble", "verb"):
                rest = self._take(case, dimension, rest)
            if "harness" in case:
                case.setdefault("verb", _VERB_OF.get(test, ""))
                if rest.strip("-"):
                    case["other"] = f"{test}[{rest.strip('-')}]"
                found.append({name: value for name, value in case.items() if value})
        return found

    def _take(self, case: dict[str, Value], dimension: str, inside: str) -> str:
        words = sorted(getattr(self, dimension), key=len, reverse=True)
        hit = re.search(rf"(?:^|(?<=-))({'|'.join(map(re.escape, words))})(?=-|$)", inside)
        if hit is None:
            return inside
        case[dimension] = hit[1]
        return (inside[: hit.start()] + inside[hit.end() :]).replace("--", "-")


def pairs(cases: Iterable[Case]) -> Pairs:
    """Return every pair of two dimensions' values that some case has, by the dimensions."""
    found: dict[str, set[tuple[Value, Value]]] = {}
    for case in cases:
        for one, other in itertools.combinations(("harness", "kind", "verb", "trouble", "test", "other"), 2):
            if one in case and other in case:
                found.setdefault(f"{one} × {other}", set()).add((case[one], case[other]))
    return {sort: frozenset(values) for sort, values in found.items()}


def lost(before: Pairs, after: Pairs) -> dict[str, frozenset[tuple[Value, Value]]]:
    """Return the pairs that were there before and are no more."""
    gone = {sort: values - after.get(sort, frozenset()) for sort, values in before.items()}
    return {sort: values for sort, values in gone.items() if values}


def words() -> Words:
    """Return the names that are known now."""
    from tests.vendors import matrix
    from tests.vendors.site import Trouble
    from vendors.port.types import CredentialKind

    return Words(tuple(place.name for place in matrix.places()), tuple(CredentialKind), tuple(Trouble))


def main(before_file: str, after_file: str) -> int:
    """Print both counts for each sort of pair, and what was lost."""
    known = words()
    before, after = (known.read(Path(file).read_text()) for file in (before_file, after_file))
    print(f"{'cases':<18}{len(before):>7}{len(after):>7}")
    counts = pairs(before), pairs(after)
    gone = lost(*counts)
    first = [" × ".join(sort) for sort in FIRST]
    for sort in sorted(counts[0], key=lambda sort: (sort not in first, sort)):
        lost_here = gone.get(sort, frozenset())
        print(f"{sort:<18}{len(counts[0][sort]):>7}{len(counts[1].get(sort, ())):>7}   lost {len(lost_here)}")
        for pair in sorted(lost_here):
            print(f"    {' · '.join(pair)}")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
