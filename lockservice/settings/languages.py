"""The languages of the hotels' staff and guests.

The one rule: a language that Django lacks is added here once, with its direction; its own catalogues
lie under `locale/`. Pashto is `ps`; Dari is `prs` (ISO 639-3), which other systems write `fa-AF`.
"""

import django.conf.locale
from django.utils.translation import gettext_lazy as _

LANGUAGES = [
    ("en", _("English")),
    ("ar", _("Arabic")),
    ("ps", _("Pashto")),
    ("prs", _("Dari")),
    ("fa", _("Persian")),
]

LANGUAGES_BIDI = ["ar", "ps", "prs", "fa"]

django.conf.locale.LANG_INFO.update(
    {
        "ps": {"bidi": True, "code": "ps", "name": "Pashto", "name_local": "پښتو"},
        "prs": {"bidi": True, "code": "prs", "name": "Dari", "name_local": "دری"},
        # Django follows `fallback` when it is asked for this code in Accept-Language.
        "fa-af": {"fallback": ["prs"]},
    }
)
