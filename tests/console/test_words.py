"""What the console says is said in all of its languages: no marked word lacks a translation, and none loses what it carries."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import django
import pytest
from django.conf import settings
from django.template.base import Lexer, TokenType

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("ar", "fa", "prs", "ps")
ASKS = frozenset({"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"})
IN_CONTEXT = frozenset({"pgettext", "pgettext_lazy"})
CODE = (ROOT / "lockservice" / "console", ROOT / "lockservice" / "settings")
PLACE = re.compile(r"%\(\w+\)s")
QUOTED = re.compile(r"""^\w+\s+(["'])(?P<text>.*?)\1""")
INSIDE = re.compile(r"""_\((["'])(?P<text>.*?)\1\)""")


def _in_code() -> Iterator[str]:
    for folder in CODE:
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKS | IN_CONTEXT):
                    continue
                asked = node.args[: 2 if node.func.id in IN_CONTEXT else 1]
                words = [str(word.value) for word in asked if isinstance(word, ast.Constant)]
                if len(words) < len(asked):  # what comparisons wrote down is looked up by its value
                    assert (path.name, node.func.id) == ("findings.py", "gettext"), f"{path.name}:{node.lineno}"
                    continue
                yield "\x04".join(words)


def _in_templates() -> Iterator[str]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        block: str | None = None
        for token in Lexer(path.read_text(encoding="utf-8")).tokenize():
            yield from (found["text"] for found in INSIDE.finditer(token.contents) if token.token_type != TokenType.TEXT)
            word = token.contents.split(" ", 1)[0] if token.token_type == TokenType.BLOCK else ""
            if word in {"trans", "translate"} and (found := QUOTED.match(token.contents)):
                yield found["text"]
            elif word in {"blocktrans", "blocktranslate"}:
                block = ""
            elif block is not None and word in {"plural", "endblocktrans", "endblocktranslate"}:
                yield block.strip()
                block = None
            elif block is not None:
                block += f"%({token.contents})s" if token.token_type == TokenType.VAR else token.contents


def _of_the_framework() -> set[str]:
    """What Django itself says, by its own Persian."""
    found: set[str] = set()
    for folder in ("conf", "contrib/admin"):
        path = Path(django.__file__).parent / folder / "locale" / "fa" / "LC_MESSAGES" / "django.mo"
        with path.open("rb") as file:
            found.update(key for key in gettext.GNUTranslations(file)._catalog if isinstance(key, str))  # type: ignore[attr-defined]
    return found


@cache
def marked() -> list[str]:
    """Every word of the console that is to be translated."""
    return sorted({*_in_code(), *_in_templates()})


def catalogue(language: str) -> dict[str, str]:
    """What is translated, by the word itself; of several forms the first."""
    with (ROOT / "locale" / language / "LC_MESSAGES" / "django.mo").open("rb") as file:
        held = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    return {
        key[0] if isinstance(key, tuple) else key: text
        for key, text in held.items()
        if not isinstance(key, tuple) or key[1] == 0
    }


def test_the_words_are_found_in_code_and_in_templates() -> None:
    words = marked()
    assert {"Choose the PIN", "Findings", "Break-glass", "Health over time", "%(n)s day", "Nothing here."} <= set(words)
    assert len(words) > 500


def test_only_languages_that_have_a_catalogue_are_offered() -> None:
    assert sorted(code for code, _name in settings.LANGUAGES) == sorted(["en", *LANGUAGES])
    assert sorted(folder.name for folder in (ROOT / "locale").iterdir()) == sorted(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_marked_word_is_translated(language: str) -> None:
    held = catalogue(language)
    assert [word for word in marked() if not held.get(word)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_carries_what_the_word_carries(language: str) -> None:
    held = catalogue(language)
    different = [word for word, text in held.items() if word and sorted(PLACE.findall(word)) != sorted(PLACE.findall(text))]
    assert different == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_translated_that_nobody_says(language: str) -> None:
    written = {
        node.value
        for path in (ROOT / "sagas" / "reconcile").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    said = {"", *marked(), *written, *_of_the_framework()}
    assert [word for word in catalogue(language) if word not in said] == []
