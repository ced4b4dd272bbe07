"""Known vulnerabilities are read from files in the OSV format."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from actbox import InvalidValue
from actbox.packages import vulnerabilities
from actbox.packages.vulnerabilities import Advisories, read_advisories


def advisory(name: str = "Kit_Words", **affected: Any) -> dict[str, Any]:
    return {"id": "KIT-1", "affected": [{"package": {"ecosystem": "PyPI", "name": name}, **affected}]}


def written(folder: Path, *advisories: dict[str, Any]) -> Path:
    for number, one in enumerate(advisories):
        (folder / f"{number}.json").write_text(json.dumps(one))
    return folder


RANGE = [
    {
        "type": "ECOSYSTEM",
        "events": [{"introduced": "0"}, {"fixed": "1.5"}, {"introduced": "2.0rc1"}, {"last_affected": "2.1"}],
    }
]


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [
        ("1.0", True),
        ("1.4.9", True),
        ("1.5", False),
        ("1.9", False),
        ("2.0", True),
        ("2.1", True),
        ("2.1.1", False),
        ("0.1a1", True),
    ],
)
def test_a_version_is_affected_between_the_events_of_a_range(version: str, is_affected: bool, tmp_path: Path) -> None:
    found = Advisories(written(tmp_path, advisory(ranges=RANGE)))
    assert found.of("kit-words", version) == (("KIT-1",) if is_affected else ())


def test_listed_versions_are_affected_and_withdrawn_advisories_and_other_ecosystems_do_not_count(
    tmp_path: Path,
) -> None:
    other = advisory(versions=["3"])
    other["affected"][0]["package"]["ecosystem"] = "npm"
    withdrawn = {**advisory(versions=["4"]), "withdrawn": "2026-01-01T00:00:00Z"}
    found = Advisories(written(tmp_path, advisory(versions=["1.0"]), other, withdrawn))
    assert [found.of("kit.words", version) for version in ("1.0", "3", "4")] == [("KIT-1",), (), ()]
    assert found.of("kit-other", "1.0") == ()


def test_what_nobody_can_compare_counts_as_affected(tmp_path: Path) -> None:
    assert Advisories(written(tmp_path, advisory(ranges=RANGE))).of("kit-words", "not a version") == ("KIT-1",)
    odd = advisory(ranges=[{"type": "ECOSYSTEM", "events": [{"introduced": 2}]}])
    assert Advisories(written(tmp_path, odd)).of("kit-words", "1.0") == ("KIT-1",)


@pytest.mark.parametrize("content", ["", "[1]", '{"affected": [{"package": {"ecosystem": "PyPI"}}]}'])
def test_a_file_that_is_no_advisory_is_refused_by_name(content: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(InvalidValue, match=r"bad\.json is no advisory"):
        Advisories(file)


@pytest.mark.parametrize("place", ["file", "directory"])
def test_advisories_that_came_later_are_read(place: str, tmp_path: Path) -> None:
    written(tmp_path, {**advisory(versions=["1.0"]), "id": "KIT-0"})
    path = str(tmp_path if place == "directory" else tmp_path / "0.json")
    assert read_advisories(path).of("kit-words", "1.0") == ("KIT-0",)
    assert read_advisories(path) is read_advisories(path)
    (tmp_path / "new").write_text(json.dumps(advisory(versions=["1.0"])))
    os.utime(tmp_path / "new", (1, 1))
    (tmp_path / "new").replace(tmp_path / "0.json")
    os.utime(tmp_path, (1, 1))
    assert read_advisories(path).of("kit-words", "1.0") == ("KIT-1",)


def test_a_directory_with_none_or_too_many_advisories_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidValue, match="there is no advisory in"):
        Advisories(tmp_path)
    monkeypatch.setattr(vulnerabilities, "MOST_FILES", 1)
    with pytest.raises(InvalidValue, match="has more than 1 files"):
        Advisories(written(tmp_path, advisory(), advisory()))
