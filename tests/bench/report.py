"""Collects figures and writes them as a table and as JSON.

One rule: every figure stands beside its baseline of the same run; minimum, median and maximum of all runs, none dropped.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Report:
    """Figures by name."""

    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def pairs(self, name: str, unit: str, ours: list[float], raw: list[float], **more: Any) -> None:
        """Adds a figure measured in interleaved pairs; the ratio is the median of the pairs' ratios."""
        ratios = [a / b for a, b in zip(ours, raw, strict=True)]
        self._add(name, unit, ours, statistics.median(raw), statistics.median(ratios), more)

    def latencies(self, name: str, ours_ms: list[float], raw_ms: list[float], **more: Any) -> None:
        """Adds a latency figure: value is p95; the ratio is p95 over the baseline's p95 (lower is better)."""
        spread = {f"p{q}": percentile(ours_ms, q) for q in (50, 95, 99)}
        base = percentile(raw_ms, 95)
        self._add(name, "ms p95", ours_ms, base, spread["p95"] / base, {**spread, **more}, value=spread["p95"])

    def take(self, name: str, figure: dict[str, Any]) -> None:
        """Adds a figure that was put together elsewhere."""
        self.figures[name] = figure
        print(f"{name:22} {figure}", flush=True)

    def _add(
        self, name: str, unit: str, ours: list[float], base: float, ratio: float, more: dict[str, Any], value: float | None = None
    ) -> None:  # fmt: skip
        figure = {
            "value": statistics.median(ours) if value is None else value, "unit": unit, "baseline": base, "ratio": ratio,
            "min": min(ours), "max": max(ours), "n": len(ours), **more,
        }  # fmt: skip
        self.figures[name] = {key: round(item, 3) if isinstance(item, float) else item for key, item in figure.items()}
        print(f"{name:22} {self.figures[name]}", flush=True)

    def write(self, path: Path) -> None:
        """Writes all figures."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.figures, indent=2, sort_keys=True) + "\n")


def percentile(values: list[float], q: int) -> float:
    """Returns the q-th percentile (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(q / 100 * len(ordered)) - 1))]
