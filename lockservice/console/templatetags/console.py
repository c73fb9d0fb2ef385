"""Badges, ids and instants for templates.

One rule: only what `cells` makes; a template decides nothing.
"""

from __future__ import annotations

from datetime import datetime

from django import template
from django.conf import settings
from django.utils.safestring import SafeString
from django.utils.translation import get_language_info

from lockservice.console import cells, words

register = template.Library()

register.simple_tag(cells.when, name="when")
register.simple_tag(cells.badge, name="badge")
register.simple_tag(cells.code, name="code")
register.simple_tag(cells.short, name="short")
register.filter("chips", cells.chips)


@register.simple_tag
def clock_time(instant: datetime, zone: str) -> SafeString:
    """Returns an instant with its zone, for headings."""
    return cells.when(instant, zone)


@register.simple_tag
def state_badge(state: str) -> SafeString:
    """Returns a credential's state as a badge."""
    return cells.badge(words.word(words.STATES, state))


@register.simple_tag
def severity_badge(severity: str) -> SafeString:
    """Returns a severity as a badge."""
    return cells.badge(words.word(words.SEVERITIES, severity))


@register.simple_tag
def languages() -> list[tuple[str, str]]:
    """Returns code and own name of the console's languages."""
    return [(code, get_language_info(code)["name_local"]) for code, _name in settings.LANGUAGES]
