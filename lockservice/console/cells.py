"""Small pieces of pages: badges, ids, instants.

One rule: an instant is shown in a named time zone, an id is isolated left-to-right, and everything is escaped.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, ngettext

from lockservice.console.words import Word

NOTHING = mark_safe('<span class="quiet" aria-hidden="true">·</span>')
GUEST_MASK = "●●●"


def badge(word: Word, detail: str = "") -> SafeString:
    """Returns a word in its tone with its sign; `detail` stands behind it."""
    tail = format_html(" <span>{}</span>", detail) if detail else ""
    sign = format_html('<span class="sign" aria-hidden="true">{}</span>', word.sign)
    return format_html('<span class="badge badge-{}">{} {}{}</span>', word.tone, sign, word.text, tail)


def code(text: str, href: str = "") -> SafeString:
    """Returns an id or a code, isolated so that it reads the same in every direction, with a link if there is one."""
    if not text:
        return NOTHING
    if href:
        return format_html('<a class="code" dir="ltr" href="{}">{}</a>', href, text)
    return format_html('<span class="code" dir="ltr">{}</span>', text)


def short(text: str, href: str = "") -> SafeString:
    """Returns an id's prefix and last six characters, with the whole id as its title."""
    if len(text) <= 14:
        return code(text, href)
    shown = f"{text.partition('_')[0]}_…{text[-6:]}" if "_" in text else f"…{text[-8:]}"
    if href:
        return format_html('<a class="code short" dir="ltr" href="{}" title="{}">{}</a>', href, text, shown)
    return format_html('<span class="code short" dir="ltr" title="{}">{}</span>', text, shown)


def when(instant: datetime | None, zone: str) -> SafeString:
    """Returns an instant in a time zone, which is named beside it."""
    if instant is None:
        return NOTHING
    local = instant.astimezone(ZoneInfo(zone))
    return format_html(
        '<time datetime="{}" title="{} UTC">{} <span class="zone" dir="ltr">{}</span></time>',
        instant.isoformat(),
        instant.astimezone(ZoneInfo("UTC")).strftime("%Y-%m-%d %H:%M:%S"),
        date_format(local, "D j M, H:i"),
        zone_name(zone),
    )


def zone_name(zone: str) -> str:
    """Returns the city of an IANA zone, or the zone as it is (`Asia/Kabul` → `Kabul`)."""
    return zone.rpartition("/")[2].replace("_", " ")


def age(span: timedelta) -> str:
    """Returns a span in its largest unit: `42 s`, `7 min`, `3 h`, `2 days`. Never negative."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return gettext("%(n)s s") % {"n": seconds}
    if seconds < 3600:
        return gettext("%(n)s min") % {"n": seconds // 60}
    if seconds < 48 * 3600:
        return gettext("%(n)s h") % {"n": seconds // 3600}
    days = seconds // 86400
    return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}


def chips(items: list[str]) -> SafeString:
    """Returns short texts one beside the other, each isolated."""
    return format_html_join(" ", '<bdi class="chip">{}</bdi>', ((item,) for item in items)) or NOTHING


def guest(name: str, *, shown: bool) -> SafeString:
    """Returns a guest's name, or a mask where the person may not read it."""
    if not name:
        return NOTHING
    return format_html("<bdi>{}</bdi>", name) if shown else format_html('<span class="masked">{}</span>', GUEST_MASK)
