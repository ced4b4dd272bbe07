"""News of changelog.d/ are lists, and `scripts/news` moves them into CHANGELOG.md."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
move_news = runpy.run_path(str(ROOT / "scripts" / "news"))["main"]

CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Since 2\n\n- One,\n  in two lines.\n\n### 2\n\nWords.\n\n- Older.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("What this is.\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def add(project: Path, name: str, text: str) -> Path:
    path = project / "changelog.d" / name
    path.write_text(text)
    return path


def test_the_news_of_this_project_are_lists() -> None:
    assert move_news(ROOT, "--check") == 0


def test_news_go_to_the_end_of_the_first_list_in_the_order_of_their_names(project: Path) -> None:
    files = [add(project, "b.md", "- Three.\n"), add(project, "a.md", "- Two,\n  and\n  more.\n- Two again.\n")]
    assert move_news(project) == 0
    moved = "- One,\n  in two lines.\n- Two,\n  and\n  more.\n- Two again.\n- Three.\n\n### 2\n"
    assert (project / "CHANGELOG.md").read_text() == CHANGELOG.replace("- One,\n  in two lines.\n\n### 2\n", moved)
    assert not any(path.exists() for path in files)
    assert (project / "changelog.d" / "README.md").exists()


def test_without_news_nothing_changes(project: Path) -> None:
    assert move_news(project) == 0
    assert (project / "CHANGELOG.md").read_text() == CHANGELOG


@pytest.mark.parametrize(
    "text", ["", "No list.\n", "- One\nnot indented\n", "- One\n\n- Two\n", "- no newline at the end"]
)
def test_what_is_no_list_is_refused_and_nothing_is_moved(
    text: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(project, "a.md", "- Fine.\n")
    wrong = add(project, "wrong.md", text)
    assert move_news(project) == 1
    assert "wrong.md" in capsys.readouterr().err
    assert (project / "CHANGELOG.md").read_text() == CHANGELOG
    assert wrong.exists()
