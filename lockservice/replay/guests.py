"""Makes up the guests that the rows do not name, in the three scripts the platform's guests write in.

One rule: a name is drawn from a digest, so the same booking always has the same guest; nobody real is meant.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MadeUpGuest:
    """A guest: name as she writes it, and the language she is written to in."""

    id: str
    name: str
    locale: str
    email: str


_LATIN = (
    "Ana Clara Leonor Ingrid Maarten Julia Oskar Petra Tomas Wren",
    "Alder Brook Castell Duarte Eklund Falk Grove Hale Moreau Winter",
    "en",
)
_DARI = (
    "زهرا مریم فرید نادیه جاوید سمیرا یوسف لیلا هارون شیرین",
    "احمدی نوری رحیمی صدیقی عزیزی کریمی حیدری سلطانی یوسفی امینی",
    "prs",
)
_PASHTO = ("زرغونه توریالی وږمه بریالی پلوشه خوشال", "ځدراڼ ستانکزی وردګ اڅکزی پوپل شینواری", "ps")
_TAJIK = ("Фирӯза Далер Мадина Рустам Нигора Сиёвуш", "Раҳимова Каримзода Назаров Шарифӣ Холов Юсуфзода", "tg")
_RUSSIAN = ("Анна Борис Вера Галина Игорь Ольга", "Иволга Ветрова Северный Лесная Озеров Полянская", "ru")
_PEOPLES = tuple(
    (given.split(), family.split(), locale) for given, family, locale in (_LATIN, _DARI, _PASHTO, _TAJIK, _RUSSIAN)
)


def guest_of(digest: str, guest_id: str) -> MadeUpGuest:
    """Returns the guest of a booking, given the hex digest of its row."""
    drawn = int(digest[:16], 16)
    drawn, people = divmod(drawn, len(_PEOPLES))
    given, family, locale = _PEOPLES[people]
    drawn, first = divmod(drawn, len(given))
    last = drawn % len(family)
    return MadeUpGuest(guest_id, f"{given[first]} {family[last]}", locale, f"guest-{digest[:8]}@example.org")
