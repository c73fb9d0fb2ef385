"""The documents are true: what they print exists, what they link resolves, what is made from code is in step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from django.core.management import get_commands, load_command_class
from django.urls import URLPattern, get_resolver
from django.urls.resolvers import URLResolver

from credentials import stay_notices
from lockservice.core.http_problems import PROBLEMS
from sagas.events import registry
from sagas.events.event_spec import Direction
from tests.architecture import generated_docs
from tests.architecture.generated_docs import BLOCKS, EFFECTS, EMITTED, README, ROOT

RUNBOOKS = ROOT / "docs" / "runbooks"
OPERATIONS = ROOT / "docs" / "operations.md"
PAGES = sorted([README, *(ROOT / "docs").rglob("*.md"), ROOT / "docker" / "README.md", *(ROOT / "vendors").rglob("*.md")])
OURS = ("sagas", "credentials", "devices", "lockservice")

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SQL = re.compile(r"^```sql\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A quoted name such as "lock/door-full"; addresses of the API and of vendors lie elsewhere or have another shape.
RUNBOOK = re.compile(r"[\"'](lock/[a-z]+(?:-[a-z]+)+)[\"']")
COMMAND = re.compile(r"manage\.py ([a-z_]+)")
TARGET = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)*)\b")
ROUTE = re.compile(
    r"(?<![A-Za-z/.*\]])(?:/lock/v1|/demo/v1|/pubsub|/schemas|/healthz|/readyz|/metrics|/api|/console)[^\s`)|,;]*"
)
ENVIRONMENT = re.compile(r"\b(?:(?:LOCK|DJANGO|BUS|PUBSUB)_[A-Z_]+[A-Z]|PROMETHEUS_MULTIPROC_DIR|MELMASTOON_LOCAL)\b")
READ_FROM_ENVIRONMENT = re.compile(r"(?:environ(?:\.get)?[\[(]|env\.[a-z]+\()\s*f?\"([A-Z][A-Z_]+[A-Z])[\"{_]")


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _sources(*rooms: str) -> Iterator[tuple[str, str]]:
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), _read(path)


# --- Made from code ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", BLOCKS, ids=_name)
def test_what_is_made_from_code_is_in_step(page: Path) -> None:
    text = _read(page)
    assert generated_docs.names_in(text) == list(BLOCKS[page])
    # If this fails: python -m tests.architecture.generated_docs
    assert text == generated_docs.expected(page, text)


def test_the_diagram_has_every_move_once() -> None:
    moves = [line.strip() for line in generated_docs.lifecycle().splitlines() if ": " in line]
    assert moves == [
        "requested --> pending: hand_over",
        "pending --> active: activate",
        "active --> suspended: suspend",
        "suspended --> active: unsuspend",
        "active --> revoked: revoke",
        "suspended --> revoked: revoke",
        "requested --> failed: fail",
        "pending --> failed: fail",
    ]


def test_effects_are_told_of_consumed_events_only() -> None:
    consumed = {spec.subject for spec in registry.REGISTRY.of_direction(Direction.CONSUMED)}
    assert set(EFFECTS) <= consumed
    assert len(EFFECTS) == 13


def test_the_readme_names_exactly_the_events_that_are_sent() -> None:
    line = next(line for line in _read(README).splitlines() if line.startswith("| sent |"))
    told = {f"melmastoon.lock.credential.{word}.v1" for word in re.findall(r"`([a-z]+)`", line)}
    told |= set(re.findall(r"melmastoon\.[a-z_.]+\.v1", line))
    assert told == {str(subject) for subject in EMITTED}
    produced = {spec.subject for spec in registry.REGISTRY.of_direction(Direction.PRODUCED)}
    assert told <= produced


def test_every_error_code_stands_in_the_readme() -> None:
    text = _read(README)
    assert [code for code in PROBLEMS if f"`{code}`" not in text] == []


def test_no_vendor_is_called_missing_that_has_an_adapter() -> None:
    text = _read(README)
    rows = [line for line in text.splitlines() if line.endswith("not yet |") or "not shipped |" in line]
    missing = {code for line in rows for code in re.findall(r"`([a-z-]+)`", line)}
    assert missing.isdisjoint(generated_docs.shipped())
    assert len(rows) == 2


# --- Links and names --------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_resolve(page: Path) -> None:
    broken = []
    for target in LINK.findall(FENCE.sub("", _read(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings as GitHub makes them: lower case, no punctuation, hyphens for spaces."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", _read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [README, *sorted((ROOT / "docs").rglob("*.md"))], ids=_name)
def test_commands_and_targets_exist(page: Path) -> None:
    text = _read(page)
    targets = set(re.findall(r"^([a-z-]+):", _read(ROOT / "Makefile"), re.MULTILINE))
    assert set(COMMAND.findall(text)) - set(get_commands()) == set()
    code = " ".join(re.findall(r"`[^`\n]+`|^```.*?^```$", text, re.DOTALL | re.MULTILINE))
    assert set(TARGET.findall(code)) - targets == set()


def test_every_command_and_target_is_listed() -> None:
    text = _read(OPERATIONS)
    ours = [name for name, app in get_commands().items() if app.partition(".")[0] in OURS]
    assert ours
    assert [name for name in ours if not re.search(rf"^\| `{name}\b", text, re.MULTILINE)] == []
    targets = re.findall(r"^([a-z-]+):", _read(ROOT / "Makefile"), re.MULTILINE)
    assert [name for name in targets if f"`make {name}`" not in text and name not in {"help", "venv"}] == []


def test_options_named_for_a_command_exist() -> None:
    rows = re.findall(r"^\| `([a-z_]+)[^|]*\|([^|]*)\|$", _read(OPERATIONS), re.MULTILINE)
    commands = get_commands()
    wrong = []
    for name, told in rows:
        if name not in commands or commands[name].partition(".")[0] not in OURS:
            continue
        parser = load_command_class(commands[name], name).create_parser("manage.py", name)
        known = set(parser._option_string_actions)  # argparse tells its options nowhere else
        wrong += [f"{name} {option}" for option in re.findall(r"`(--[a-z-]+)", told) if option not in known]
    assert wrong == []


def test_routes_named_exist() -> None:
    known = [_as_pattern(route) for route in _routes(get_resolver())]
    told = {
        route.rstrip(".")
        for page in [README, *sorted((ROOT / "docs").rglob("*.md"))]
        for route in ROUTE.findall(_read(page))
        if "…" not in route and route != "/lock/v1"
    }
    assert len(told) > 10
    assert [route for route in sorted(told) if not any(pattern.fullmatch(route) for pattern in known)] == []


def _routes(resolver: URLResolver, before: str = "/") -> Iterator[str]:
    for item in resolver.url_patterns:
        here = before + str(item.pattern).removeprefix("^")
        if isinstance(item, URLPattern):
            yield here
        else:
            yield from _routes(item, here)


def _as_pattern(route: str) -> re.Pattern[str]:
    """Turns a route into a pattern in which any segment may stand for a parameter."""
    if route.startswith("/schemas/"):
        return re.compile(r"/schemas/.+")
    return re.compile(re.sub(r"\\?<[^>]+>", "[^/]+", re.escape(route.removesuffix(r"\Z"))))


def test_variables_told_are_read_and_variables_read_are_told() -> None:
    told = set(ENVIRONMENT.findall(_read(OPERATIONS)))
    text = "\n".join(source for _, source in _sources("lockservice", "sagas", "devices", "credentials"))
    read = set(READ_FROM_ENVIRONMENT.findall(text))
    logins = {f"LOCK_DB_PASSWORD_{login}" for login in ("OWNER", "WEB", "WORKER")}
    read = {name for name in read if not name.startswith("LOCK_DB_PASSWORD")} | logins
    read |= {"MELMASTOON_LOCAL", "DJANGO_SETTINGS_MODULE"}  # read under another name, and by Django itself
    assert "LOCK_DB_LOGIN" in read
    assert sorted(read - told) == []
    assert sorted(told - read) == []


def test_the_readme_fits_one_reading() -> None:
    assert len(_read(README).splitlines()) <= 350


# --- Runbooks ---------------------------------------------------------------------------------


def test_every_runbook_named_in_code_exists() -> None:
    named = {name: path for path, text in _sources(*OURS) for name in RUNBOOK.findall(text)}
    assert {"lock/key-revoke", "lock/key-issue", "lock/door-full", "lock/door-not-reached", "lock/saga-dead"} <= set(named)
    assert {name: path for name, path in named.items() if not (RUNBOOKS / f"{name}.md").is_file()} == {}


def test_every_runbook_is_listed_and_names_itself() -> None:
    overview = _read(RUNBOOKS / "README.md")
    pages = sorted(RUNBOOKS.glob("lock/*.md"))
    assert pages
    assert [page.stem for page in pages if f"](lock/{page.name})" not in overview] == []
    assert [page.stem for page in pages if not _read(page).startswith(f"# lock/{page.stem}")] == []


def test_every_alert_code_is_in_the_overview() -> None:
    text = "\n".join(source for _, source in _sources("sagas", "devices", "credentials"))
    raised = set(re.findall(r'(?:\b_?alarm|NewAlert)\([^)]*?"([A-Z]+(?:_[A-Z]+)+)"', text))
    raised |= {getattr(stay_notices, name) for name in re.findall(r"stay_alert\([^)]*?stay_notices\.([A-Z_]+)", text)}
    raised |= set(re.findall(r'\bCheck\([^)]*?"([A-Z]+(?:_[A-Z]+)+)"', text))
    rows = [line for line in _read(RUNBOOKS / "README.md").splitlines() if line.startswith("| `")]
    told = {code for line in rows for code in re.findall(r"`([A-Z_]+)`", line)}
    assert {"KEY_REVOKE_FAILED", "NO_SHOW_CONTRADICTED"} <= raised
    assert sorted(raised - told) == []
    assert [code for code in sorted(told) if f'"{code}"' not in text] == []


@pytest.mark.parametrize("page", sorted([*RUNBOOKS.rglob("*.md"), OPERATIONS]), ids=_name)
def test_every_printed_query_runs_as_the_owner(
    page: Path, connect_as: Callable[[str], psycopg.Connection[tuple[object, ...]]]
) -> None:
    statements = [part.strip() for block in SQL.findall(_read(page)) for part in block.split(";") if part.strip()]
    owner = connect_as("owner")
    for statement in statements:
        assert statement.startswith("SELECT"), "runbooks read; they repair through the console"
        assert owner.execute(statement).description is not None
    assert statements
