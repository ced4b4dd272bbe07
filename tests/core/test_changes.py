"""A change says what it is as a diff and as JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from actbox import ExecutionResult, FileChange


def change(kind: str, **given: Any) -> FileChange:
    return FileChange(mount="/data", path="folder/file.txt", kind=kind, **given)  # type: ignore[arg-type]


CASES = [
    ("changed", b"a\nb\nc\n", b"a\nB\nc\n"),
    ("changed", b"a\nb", b"a\nb\n"),
    ("changed", b"a\r\nb\n", b"a\nb\x0cc\n"),
    ("changed", "ü\u2028x\n".encode(), "ü\u2028y\n".encode()),
    ("changed", b"", b"a\n"),
    ("added", None, b"a\nb"),
    ("removed", b"a\nb\n", None),
]


def test_a_diff_says_what_is_added_changed_and_removed() -> None:
    assert change("changed", before=b"a\nb\n", data=b"a\nc").diff() == (
        "--- a/folder/file.txt\n+++ b/folder/file.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    )
    assert change("added", data=b"a\n").diff() == "--- /dev/null\n+++ b/folder/file.txt\n@@ -0,0 +1 @@\n+a\n"
    assert change("removed", before=b"a\n").diff() == "--- a/folder/file.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"


@pytest.mark.parametrize(("kind", "before", "after"), CASES)
def test_a_diff_can_be_applied(tmp_path: Path, kind: str, before: bytes | None, after: bytes | None) -> None:
    if shutil.which("git") is None:
        pytest.skip("git, which applies the diff here, is not installed")
    file = tmp_path / "folder" / "file.txt"
    file.parent.mkdir()
    if before is not None:
        file.write_bytes(before)
    diff = change(kind, before=before, data=after).diff()
    assert diff is not None
    done = subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (file.read_bytes() if file.exists() else None) == after


def test_what_is_no_text_or_was_not_kept_has_no_diff() -> None:
    assert change("changed", before=b"a", data=b"\xff").diff() is None
    assert change("changed", before=b"a", data=b"\0").diff() is None
    assert change("changed", before=None, data=b"a").diff() is None
    assert change("removed", before=None).diff() is None


def test_a_name_cannot_add_lines_to_a_diff() -> None:
    named = FileChange(mount="/data", path="x\n--- a/etc/passwd\r", kind="added", data=b"a\n")
    assert (named.diff() or "").splitlines() == [
        "--- /dev/null",
        "+++ b/x\\n--- a/etc/passwd\\r",
        "@@ -0,0 +1 @@",
        "+a",
    ]


def test_changes_are_part_of_the_document_of_a_result() -> None:
    made = change("changed", before=b"a", data=b"ab", executable=True)
    document = json.loads(json.dumps(ExecutionResult(changes=(made, change("removed"))).to_dict()))
    assert document["changes"] == [
        {
            "mount": "/data",
            "path": "folder/file.txt",
            "kind": "changed",
            "size": 2,
            "executable": True,
            "data": "YWI=",
        },
        {
            "mount": "/data",
            "path": "folder/file.txt",
            "kind": "removed",
            "size": 0,
            "executable": False,
            "data": None,
        },
    ]
