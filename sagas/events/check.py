"""Refuses schema changes that are not purely additive: `python -m sagas.events.check [--baseline REV] [--accept]`.

One rule: what was published stays readable. The baseline `schemas/published.json` holds every published version; a
version in it may grow but not change, and not vanish. A break needs a new version beside the old one (`also_publish`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagas.events.event_spec import Direction
from sagas.events.registry import BASELINE_NAME, REGISTRY, SCHEMAS, Registry
from sagas.events.schema_drift import compare, normalise

Baseline = Mapping[str, Mapping[str, Any]]
"""Subject → direction, topic, sha256 of the normalised schema, the normalised schema."""

OK, REFUSED, UNUSABLE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Findings:
    """Differences between the registry and a baseline."""

    breaks: tuple[str, ...]
    additions: tuple[str, ...]


class BaselineUnusable(Exception):
    """There is no baseline to compare with, or it cannot be read. Never retry."""


def snapshot(registry: Registry) -> dict[str, dict[str, Any]]:
    """Describes every version as it would be published now."""
    result = {}
    for spec in registry.all():
        schema = normalise(dict(registry.schema(spec.subject)))
        result[spec.subject] = {
            "direction": spec.direction.value,
            "topic": spec.topic,
            "sha256": _digest(schema),
            "schema": schema,
        }
    return result


def _digest(schema: Any) -> str:
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def examine(registry: Registry, baseline: Baseline) -> Findings:
    """Compares what is registered with what was published."""
    current = snapshot(registry)
    breaks: list[str] = []
    additions = [f"{subject}: new" for subject in current if subject not in baseline]
    for subject, published in baseline.items():
        now = current.get(subject)
        if now is None:
            breaks.append(f"{subject}: removed; a published version stays until its readers have left")
        elif published["sha256"] != _digest(published["schema"]):
            breaks.append(f"{subject}: its baseline was edited by hand")
        else:
            _examine_one(subject, published, now, breaks, additions)
    return Findings(tuple(breaks), tuple(additions))


def _examine_one(
    subject: str, published: Mapping[str, Any], now: Mapping[str, Any], breaks: list[str], additions: list[str]
) -> None:
    breaks.extend(f"{subject}: {name} changed" for name in ("direction", "topic") if published[name] != now[name])
    is_promise = published["direction"] != Direction.CONSUMED.value
    drift = compare(published["schema"], now["schema"], is_promise=is_promise)
    breaks.extend(f"{subject}: {what}" for what in drift.breaks)
    additions.extend(f"{subject}: {what}" for what in drift.additions)


def read_baseline(schemas: Path, revision: str | None) -> Baseline:
    """Reads the baseline from the work tree, or as it was committed at a git revision.

    Raises `BaselineUnusable`.
    """
    raw = (schemas / BASELINE_NAME).read_bytes if revision is None else lambda: _committed(schemas, revision)
    try:
        baseline: Baseline = json.loads(raw())
    except FileNotFoundError as error:
        raise BaselineUnusable(f"{BASELINE_NAME} is missing; --accept writes it") from error
    except ValueError as error:
        raise BaselineUnusable(f"{BASELINE_NAME} is no JSON") from error
    return baseline


def _committed(schemas: Path, revision: str) -> bytes:
    command = ["git", "-C", str(schemas), "show", f"{revision}:./{BASELINE_NAME}"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise BaselineUnusable(f"no {BASELINE_NAME} at {revision}")
    return done.stdout


def write_baseline(schemas: Path, registry: Registry) -> None:
    """Writes the baseline anew, whole or not at all."""
    text = json.dumps(snapshot(registry), sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    draft = schemas / f"{BASELINE_NAME}.new"
    draft.write_text(text, encoding="utf-8")
    draft.replace(schemas / BASELINE_NAME)


def main(arguments: Sequence[str] | None = None, *, registry: Registry = REGISTRY, schemas: Path = SCHEMAS) -> int:
    """Runs the command. Returns 0 if nothing broke, 1 if something did, 2 if there is no usable baseline."""
    parser = argparse.ArgumentParser(prog="python -m sagas.events.check", description="Event schemas may only grow.")
    parser.add_argument("--baseline", metavar="REV", help="compare with the baseline committed at this git revision")
    parser.add_argument("--accept", action="store_true", help="write additive changes into the baseline")
    options = parser.parse_args(arguments)
    try:
        baseline = read_baseline(schemas, options.baseline)
    except BaselineUnusable as error:
        if not options.accept or options.baseline is not None or (schemas / BASELINE_NAME).exists():
            sys.stderr.write(f"{error}\n")
            return UNUSABLE
        baseline = {}
    return _conclude(examine(registry, baseline), registry, schemas, accept=options.accept)


def _conclude(findings: Findings, registry: Registry, schemas: Path, *, accept: bool) -> int:
    if findings.breaks:
        sys.stderr.writelines(f"not additive: {line}\n" for line in findings.breaks)
        sys.stderr.write("register a new version beside the published one instead\n")
        return REFUSED
    sys.stdout.writelines(f"additive: {line}\n" for line in findings.additions)
    if accept:
        write_baseline(schemas, registry)
    elif findings.additions:
        sys.stdout.write("run `python -m sagas.events.check --accept` to record this\n")
    sys.stdout.write(f"{len(registry.all())} event schemas, {len(findings.additions)} additions, nothing broken\n")
    return OK


if __name__ == "__main__":
    raise SystemExit(main())
