"""Commands that install packages are found in the words of a process and in the text of a shell."""

from __future__ import annotations

import pytest

from actbox.sandbox.guest.pip_command import CannotDo, commands_in, requirements_of
from actbox.sandbox.guest.session_packages import with_pip_called


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["/usr/bin/python3.12", "-m", "pip", "install", "x"], [["install", "x"]]),
        (["pip3", "install", "x"], [["install", "x"]]),
        (["uv", "pip", "install", "x"], [["install", "x"]]),
        ([b"pip", b"list"], [["list"]]),
        (
            ["/bin/sh", "-c", "pip install 'x>=2' 2>&1 >/dev/null && pip install y"],
            [["install", "x>=2"], ["install", "y"]],
        ),
        ("cd a; pip install -q x | tail -1\npip install z", [["install", "-q", "x"], ["install", "z"]]),
        ("# all that is needed\necho a#b 'c #' # d\npip install x", [["install", "x"]]),
        ("echo pip install x", []),
        (["grep", "pip", "install"], []),
        ("pip install 'x", []),
        ([], []),
        ("", []),
    ],
)
def test_pip_commands_are_found(words: object, found: list[list[str]]) -> None:
    assert list(commands_in(words)) == found


def test_options_that_change_nothing_are_left_out_and_others_refused() -> None:
    assert requirements_of(["-q", "--progress-bar", "off", "--upgrade-strategy=eager", "x", "y==1"]) == ["x", "y==1"]
    for option in ("--index-url", "--pre", "-e", "--target=/tmp", "--no-binary=:all:"):
        with pytest.raises(CannotDo, match=option):
            requirements_of(["x", option])


@pytest.mark.parametrize(
    ("line", "replaced"),
    [
        ("    %pip install x  # as asked", "    __import__('pip').run(['install', 'x'])"),
        ("!uv pip install 'x>=2'", "__import__('pip').run(['install', 'x>=2'])"),
        ("!ls", ""),
        ("conda install x", ""),
        ("!pip install 'x", ""),
    ],
)
def test_only_a_line_that_is_a_pip_command_is_replaced(line: str, replaced: str) -> None:
    error = SyntaxError("invalid syntax", ("program.py", 2, 1, line))
    changed = with_pip_called(f"if True:\n{line}\nx", error)
    assert changed == (f"if True:\n{replaced}\nx" if replaced else "")
