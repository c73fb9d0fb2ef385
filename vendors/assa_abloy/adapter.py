"""Builds the port of an ASSA ABLOY installation: Vostio or Visionline, as the setting `mode` says.

One rule: each product's verbs stand in its own module, with a table of what it supports.
"""

from __future__ import annotations

from vendors.port.manifest import AdapterContext

from .settings import VostioSettings, read_settings
from .visionline import VisionlinePort
from .vostio import VostioPort


def build(context: AdapterContext) -> VostioPort | VisionlinePort:
    """Builds the adapter. Raises ValueError naming a missing or malformed setting; makes no call."""
    settings = read_settings(context)
    return VostioPort(settings, context) if isinstance(settings, VostioSettings) else VisionlinePort(settings, context)
