"""Ways a vendor fails, for tests that do not know the product's words for them."""

from __future__ import annotations

from tests.support.stage.world import World
from vendors.port.simulated import Effect as Fault


def break_calls(world: World, vendor: str, fault: Fault, times: int | None = None) -> None:
    """Let the vendor's next so many requests fail; None: all until the world is healed."""
    world.control(vendor).break_calls(fault, times)


__all__ = ["Fault", "break_calls"]
