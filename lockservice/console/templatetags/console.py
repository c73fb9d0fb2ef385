"""Badges, ids and instants for templates.

One rule: only what `cells` makes; a template decides nothing.
"""

from __future__ import annotations

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


@register.filter
def code_only(code: str) -> str:
    """Returns an error's code without its prefix."""
    return code.rpartition(".")[2]


@register.simple_tag
def severity_badge(severity: str) -> SafeString:
    """Returns a severity as a badge."""
    return cells.badge(words.word(words.SEVERITIES, severity))


@register.simple_tag
def languages() -> list[tuple[str, str]]:
    """Returns code and own name of the console's languages."""
    return [(code, get_language_info(code)["name_local"]) for code, _name in settings.LANGUAGES]
