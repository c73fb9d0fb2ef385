"""Two versions of one subject go out side by side, each valid in its own right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagas.events import registry
from sagas.events.event_spec import AlsoPublish, EventSpec
from sagas.events.publishing import Rendition, dual, renditions, versions
from sagas.events.refusals import UnknownSubject
from sagas.events.registry import Registry, RegistryIncomplete
from sagas.events.subjects import Subject
from sagas.events.validate import Validators

BASE = "melmastoon.lock.device.online"
V1 = registry.spec(Subject.DEVICE_ONLINE)


def to_v2(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in data.items() if name != "signal"}


def to_v1(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"since": data["onlineSince"], **{name: value for name, value in data.items() if name != "onlineSince"}}


def a_version(number: int, also: AlsoPublish | None) -> EventSpec:
    subject = f"{BASE}.v{number}"
    return replace(V1, subject=subject, topic=subject, schema_file=f"lock/device.online.v{number}.json", also_publish=also)


V2 = a_version(2, AlsoPublish(V1.subject, to_v1))
V3 = a_version(3, AlsoPublish(V2.subject, to_v2))


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    schema = dict(registry.REGISTRY.schema(V1.subject))
    newer = json.loads(json.dumps(schema).replace('"since"', '"onlineSince"'))
    for spec, body in ((V1, schema), (V2, newer), (V3, newer)):
        target = tmp_path / spec.schema_file
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps({**body, "$id": spec.schema_url, "title": spec.subject}))
    return tmp_path


def test_versions_are_listed_oldest_first(schemas: Path) -> None:
    both = Registry((V3, V1, V2), {}, schemas)
    assert [spec.version for spec in versions(BASE, registry=both)] == [1, 2, 3]
    assert versions("melmastoon.lock.device.unheard", registry=both) == ()


def test_a_new_version_takes_its_older_ones_along_newest_first(schemas: Path) -> None:
    both = Registry((V1, V2, V3), {}, schemas)
    assert dual(V3.subject, registry=both) == (V3, V2, V1)
    assert dual(V1.subject, registry=both) == (V1,)


def test_every_rendition_is_converted_and_valid(schemas: Path) -> None:
    both = Registry((V1, V2, V3), {}, schemas)
    common = {"deviceId": "lck_01HX7Q3T5W9Y2B4D6F8H0K2M4P", "propertyId": "ppt_1", "lastSeenAt": None}
    data = {**common, "onlineSince": "2026-04-30T08:55:00Z", "signal": 3}
    result = renditions(V3.subject, data, registry=both)
    assert result == (
        Rendition(V3.subject, data),
        Rendition(V2.subject, {**common, "onlineSince": "2026-04-30T08:55:00Z"}),
        Rendition(V1.subject, {**common, "since": "2026-04-30T08:55:00Z"}),
    )
    validators = Validators(both)
    for rendition in result:
        validators.validate(rendition.subject, rendition.data)


def test_a_subject_with_one_version_goes_out_alone_and_untouched() -> None:
    data = {"keyCredentialId": "key_1"}
    assert renditions(Subject.CREDENTIAL_SUSPENDED, data) == (Rendition(Subject.CREDENTIAL_SUSPENDED.value, data),)


def test_an_unknown_subject_has_no_renditions() -> None:
    with pytest.raises(UnknownSubject):
        renditions("melmastoon.lock.unheard.v1", {})


def test_a_version_cannot_take_itself_or_a_newer_one_along(schemas: Path) -> None:
    upside_down = replace(V1, also_publish=AlsoPublish(V2.subject, dict))
    with pytest.raises(RegistryIncomplete, match=r"device\.online\.v1: cannot also publish .*\.v2"):
        Registry((upside_down, replace(V2, also_publish=None), replace(V3, also_publish=None)), {}, schemas)
