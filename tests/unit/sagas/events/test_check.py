"""A published schema may grow, and nothing else."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagas.events import registry
from sagas.events.check import examine, main, snapshot
from sagas.events.event_spec import EventSpec
from sagas.events.registry import Registry
from sagas.events.schema_drift import compare, normalise
from sagas.events.subjects import Subject

PRODUCED = registry.spec(Subject.CREDENTIAL_ISSUED)
CONSUMED = registry.spec(Subject.SHIFT_ENDED)
SPECS = (PRODUCED, CONSUMED)

Change = Callable[[dict[str, Any]], object]


class Repository:
    """A small registry on disk whose schemas can be changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for spec in SPECS:
            path = root / spec.schema_file
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(registry.schema_file(spec.schema_file) or b"")

    def change(self, spec: EventSpec, change: Change) -> None:
        path = self.root / spec.schema_file
        schema = json.loads(path.read_bytes())
        change(schema)
        path.write_text(json.dumps(schema))

    def load(self, specs: tuple[EventSpec, ...] = SPECS) -> Registry:
        return Registry(specs, {}, self.root)

    def run(self, *arguments: str) -> int:
        return main(arguments, registry=self.load(), schemas=self.root)

    @property
    def baseline(self) -> Path:
        return self.root / "published.json"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    assert made.run("--accept") == 0
    return made


def test_the_committed_baseline_is_what_is_registered() -> None:
    committed = json.loads((registry.SCHEMAS / "published.json").read_text(encoding="utf-8"))
    assert committed == snapshot(registry.REGISTRY)


def test_the_command_passes_on_this_repository() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sagas.events.check"],
        cwd=registry.SCHEMAS.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "62 event schemas, 0 additions, nothing broken\n", "")


def test_an_unchanged_repository_passes(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert repository.run() == 0
    assert capsys.readouterr().out == "2 event schemas, 0 additions, nothing broken\n"


def prop(name: str, **changes: Any) -> Change:
    return lambda schema: schema["properties"][name].update(changes)


def dropped(name: str, keyword: str) -> Change:
    return lambda schema: schema["properties"][name].pop(keyword)


def new_property(schema: dict[str, Any]) -> None:
    schema["properties"]["lateArrival"] = {"type": "boolean"}


def removed_property(schema: dict[str, Any]) -> None:
    del schema["properties"]["intent"]


def renamed_property(schema: dict[str, Any]) -> None:
    schema["properties"]["purpose"] = schema["properties"].pop("intent")


def newly_required(schema: dict[str, Any]) -> None:
    schema["required"].append("intent")


def new_and_required(schema: dict[str, Any]) -> None:
    new_property(schema)
    schema["required"].append("lateArrival")


def no_longer_required(schema: dict[str, Any]) -> None:
    schema["required"].remove("warnings")


def closed(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False


def more_alternatives(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"required": ["kind"]}]


def without_condition(schema: dict[str, Any]) -> None:
    del schema["then"]


def fewer_forbidden(schema: dict[str, Any]) -> None:
    schema["propertyNames"]["not"]["enum"].remove("vendorRef")


def more_forbidden(schema: dict[str, Any]) -> None:
    schema["propertyNames"]["not"]["enum"].append("pukCode")


def removed_artifact_type(schema: dict[str, Any]) -> None:
    schema["properties"]["delivery"]["properties"]["artifact"]["properties"]["type"]["enum"].remove("pin")


BREAKS: list[tuple[Change, str]] = [
    (removed_property, "data.intent: property removed or renamed"),
    (renamed_property, "data.intent: property removed or renamed"),
    (newly_required, "data.intent: newly required"),
    (new_and_required, "data.lateArrival: newly required"),
    (no_longer_required, "data.warnings: no longer required"),
    (prop("provisional", type="string"), "data.provisional: type changed"),
    (prop("provisional", type=["boolean", "null"]), "data.provisional: more types allowed"),
    (prop("reservationId", type="string"), "data.reservationId: type changed"),
    (prop("holderKind", enum=["guest"]), "data.holderKind: values removed"),
    (prop("vendor", enum=["ttlock"]), "data.vendor: values removed"),
    (prop("vendor", pattern="^ttlock$"), "data.vendor: pattern tightened or changed"),
    (prop("vendor", format="hostname"), "data.vendor: format tightened or changed"),
    (dropped("issuedAt", "format"), "data.issuedAt: format dropped"),
    (prop("vendor", maxLength=39), "data.vendor: maxLength tightened"),
    (prop("vendor", minLength=2), "data.vendor: minLength tightened"),
    (prop("rooms", maxItems=999), "data.rooms: maxItems tightened"),
    (prop("rooms", minItems=1), "data.rooms: minItems tightened"),
    (prop("rooms", uniqueItems=True), "data.rooms: uniqueItems changed"),
    (prop("rooms", items={"type": "integer"}), "data.rooms[]: type changed"),
    (dropped("rooms", "items"), "data.rooms: items of any kind allowed"),
    (prop("provisional", const=True), "data.provisional: const changed"),
    (closed, "data: other properties tightened"),
    (more_alternatives, "data: alternatives tightened or changed"),
    (without_condition, "data: then changed"),
    (fewer_forbidden, "data: allowed property names changed"),
    (removed_artifact_type, "data.delivery.artifact.type: values removed"),
]


@pytest.mark.parametrize(("change", "said"), BREAKS)
def test_a_change_that_is_not_additive_is_refused_and_not_accepted(
    repository: Repository, capsys: pytest.CaptureFixture[str], change: Change, said: str
) -> None:
    before = repository.baseline.read_bytes()
    repository.change(PRODUCED, change)
    for arguments in ((), ("--accept",)):
        capsys.readouterr()
        assert repository.run(*arguments) == 1
        output = capsys.readouterr()
        assert f"not additive: {PRODUCED.subject}: {said}\n" in output.err
        assert output.err.endswith("register a new version beside the published one instead\n")
        assert repository.baseline.read_bytes() == before


ADDITIONS: list[tuple[Change, str]] = [
    (new_property, "data.lateArrival: new property"),
    (prop("holderKind", enum=["guest", "staff", "contractor"]), "data.holderKind: more values allowed"),
    (dropped("holderKind", "enum"), "data.holderKind: any value allowed"),
    (dropped("vendor", "pattern"), "data.vendor: pattern dropped"),
    (prop("vendor", maxLength=41), "data.vendor: maxLength wider"),
    (dropped("vendor", "maxLength"), "data.vendor: maxLength wider"),
    (more_forbidden, "data: more property names forbidden"),
]


@pytest.mark.parametrize(("change", "said"), ADDITIONS)
def test_an_additive_change_passes_and_can_be_accepted(
    repository: Repository, capsys: pytest.CaptureFixture[str], change: Change, said: str
) -> None:
    repository.change(PRODUCED, change)
    capsys.readouterr()
    assert repository.run() == 0
    assert f"additive: {PRODUCED.subject}: {said}\n" in capsys.readouterr().out
    assert repository.run("--accept") == 0
    assert json.loads(repository.baseline.read_bytes()) == snapshot(repository.load())
    capsys.readouterr()
    assert repository.run() == 0
    assert capsys.readouterr().out == "2 event schemas, 0 additions, nothing broken\n"


def test_an_accepted_field_cannot_be_taken_back(repository: Repository) -> None:
    repository.change(PRODUCED, new_property)
    assert repository.run("--accept") == 0
    repository.change(PRODUCED, lambda schema: schema["properties"].pop("lateArrival"))
    assert repository.run() == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda schema: schema["required"].remove("propertyId"), "data.propertyId: no longer required"),
        (prop("shiftId", type=["string", "integer"]), "data.shiftId: more types allowed"),
        (dropped("endsAt", "format"), "data.endsAt: format dropped"),
    ],
)
def test_what_is_only_read_may_be_taken_more_generously(
    repository: Repository, capsys: pytest.CaptureFixture[str], change: Change, said: str
) -> None:
    repository.change(CONSUMED, change)
    capsys.readouterr()
    assert repository.run() == 0
    assert f"additive: {CONSUMED.subject}: {said}\n" in capsys.readouterr().out


def test_what_is_only_read_may_not_be_taken_more_strictly(repository: Repository) -> None:
    repository.change(CONSUMED, lambda schema: schema["required"].append("startsAt"))
    assert examine(repository.load(), json.loads(repository.baseline.read_bytes())).breaks == (
        f"{CONSUMED.subject}: data.startsAt: newly required",
    )


def test_a_description_promises_nothing(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.change(PRODUCED, lambda schema: schema.update(description="Told better.", examples=[{}]))
    repository.change(PRODUCED, lambda schema: schema["required"].reverse())
    capsys.readouterr()
    assert repository.run() == 0
    assert capsys.readouterr().out == "2 event schemas, 0 additions, nothing broken\n"


def test_a_published_version_may_not_vanish(repository: Repository) -> None:
    baseline = json.loads(repository.baseline.read_bytes())
    (repository.root / CONSUMED.schema_file).unlink()
    assert examine(repository.load((PRODUCED,)), baseline).breaks == (
        f"{CONSUMED.subject}: removed; a published version stays until its readers have left",
    )


def test_a_published_topic_may_not_move(repository: Repository) -> None:
    baseline = json.loads(repository.baseline.read_bytes())
    baseline[PRODUCED.subject]["topic"] = "melmastoon.lock.elsewhere"
    assert examine(repository.load(), baseline).breaks == (f"{PRODUCED.subject}: topic changed",)


def test_a_baseline_edited_by_hand_is_noticed(repository: Repository) -> None:
    baseline = json.loads(repository.baseline.read_bytes())
    baseline[PRODUCED.subject]["schema"]["required"].remove("warnings")
    assert examine(repository.load(), baseline).breaks == (f"{PRODUCED.subject}: its baseline was edited by hand",)


def test_a_new_subject_is_an_addition(repository: Repository) -> None:
    baseline = json.loads(repository.baseline.read_bytes())
    del baseline[CONSUMED.subject]
    findings = examine(repository.load(), baseline)
    assert (findings.breaks, findings.additions) == ((), (f"{CONSUMED.subject}: new",))


def test_without_a_baseline_nothing_is_checked_and_that_is_said(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.baseline.unlink()
    assert repository.run() == 2
    assert capsys.readouterr().err == "published.json is missing; --accept writes it\n"


def test_a_broken_baseline_is_not_overwritten(repository: Repository) -> None:
    repository.baseline.write_text("{")
    assert repository.run("--accept") == 2
    assert repository.baseline.read_text() == "{"


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def test_a_baseline_rewritten_together_with_a_break_is_caught_against_a_revision(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository.root, "init", "-q")
    git(repository.root, "add", ".")
    git(repository.root, "commit", "-q", "-m", "published")
    repository.change(PRODUCED, removed_property)
    repository.baseline.unlink()
    assert repository.run("--accept") == 0
    assert repository.run() == 0
    capsys.readouterr()
    assert repository.run("--baseline", "HEAD") == 1
    assert "data.intent: property removed or renamed" in capsys.readouterr().err
    assert repository.run("--baseline", "nowhere") == 2


def test_every_property_of_every_published_schema_is_guarded() -> None:
    """Removing any property, at any depth, is seen."""
    checked = 0
    for subject, published in snapshot(registry.REGISTRY).items():
        for path in _property_paths(published["schema"]):
            changed = copy.deepcopy(published["schema"])
            holder = changed
            for step in path[:-1]:
                holder = holder[step]
            del holder[path[-1]]
            assert compare(published["schema"], changed, is_promise=True).breaks, (subject, path)
            checked += 1
    assert checked > 400


def _property_paths(schema: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    if not isinstance(schema, dict):
        return found
    for name, value in schema.get("properties", {}).items():
        here = (*at, "properties", name)
        found.append(here)
        found.extend(_property_paths(value, here))
    found.extend(_property_paths(schema.get("items"), (*at, "items")))
    return found


def test_normalising_twice_changes_nothing() -> None:
    once = normalise(dict(registry.REGISTRY.schema(PRODUCED.subject)))
    assert normalise(once) == once
