"""Asks a simulator that speaks HTTP for trouble, and says in words what is in force.

One rule: it speaks to the control port of vendors/support/simulator_trouble.py, and to nothing else.
"""

from __future__ import annotations

from vendors.port.simulated import Effect

from .control_port import ControlPort

PATH = "/trouble"
WORDS = {
    Effect.DROP: "hangs up",
    Effect.LOST: "does the work and hangs up",
    Effect.ERROR: "answers with a failure",
    Effect.THROTTLED: "says that there are too many requests",
}


class TroublePort:
    """The trouble of one simulator's vendor side."""

    def __init__(self, control: ControlPort) -> None:
        self._control = control

    def add(self, effect: Effect, times: int | None) -> None:
        """Lets the next so many requests go wrong; None: all. Raises SimulatorUnreachable, SimulatorRefused."""
        self._control.post(PATH, {"effect": effect.value, "times": times})

    def slow_down(self, latency_ms: int) -> None:
        """Lets every request take so much longer. Raises SimulatorUnreachable, SimulatorRefused."""
        self._control.post(PATH, {"latencyMs": latency_ms})

    def heal(self) -> None:
        """Takes all of it back. Raises SimulatorUnreachable."""
        self._control.post(PATH, {})

    def told(self) -> tuple[str, ...]:
        """Returns what is in force, a sentence each. Raises SimulatorUnreachable."""
        shown = self._control.get(PATH)
        slow = [f"every request takes {shown['latencyMs']} ms longer"] if shown["latencyMs"] else []
        return (*(tell(Effect(rule["effect"]), rule["times"]) for rule in shown["rules"]), *slow)


def tell(effect: Effect, times: int | None) -> str:
    """Says what a vendor does with the next requests."""
    return f"{WORDS[effect]}: {'every request' if times is None else f'the next {times} requests'}"
