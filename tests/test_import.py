"""`import actbox` is light, and brings what the README names."""

from __future__ import annotations

import ast
import importlib
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import actbox
from tests.conftest import engine_check

HEAVY = (
    *("pydantic", "pydantic_ai", "numpy", "pandas", "matplotlib", "rich", "typer", "markdown_it", "pygments"),
    *("ctypes", "h11", "cryptography"),
)


def test_importing_brings_in_nothing_heavy() -> None:
    code = f"import sys, actbox\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_alone_loads_none_of_its_rooms() -> None:
    code = "import sys, actbox\nprint(sorted(name for name in sys.modules if name.startswith('actbox.')))\n"
    code += "print([name for name in ('typing', 'dataclasses', 'asyncio') if name in sys.modules])\n"
    code += "print(set(actbox.__all__) <= set(dir(actbox)))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys\nsys.path[:] = {sys.path!r}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "['actbox._version', 'actbox.core', 'actbox.core.lazy', 'actbox.core.presentation']",
        "[]",
        "True",
    ]


_FIRST_ANSWER = """
import sys
sys.path[:] = PATHS
before = set(sys.modules)
import actbox
imported, started = set(sys.modules) - before, []
def watch(event, arguments):
    if event == "subprocess.Popen":
        started.append(set(sys.modules) - before)
sys.addaudithook(watch)
if WAY == "run":
    assert actbox.run("print(1 + 1)", engine="linux").stdout == "2\\n"
else:
    import asyncio
    async def main():
        async with actbox.open_sandbox("linux") as box:
            assert (await box.run("print(1 + 1)")).stdout == "2\\n"
    asyncio.run(main())
answered = set(sys.modules) - before
import json
print(json.dumps([sorted(names) for names in (imported, started[0], answered)]))
"""
# Modules that a first answer does not need; most of them were once loaded for it.
NOT_FOR_AN_ANSWER = (
    *("csv", "decimal", "difflib", "email", "hashlib", "http", "importlib.metadata", "mimetypes"),
    *("secrets", "shutil", "sysconfig", "tempfile", "unicodedata", "uuid", "zipfile"),
    *("actbox.sandbox.attempts", "actbox.sandbox.guest.finish", "actbox.sandbox.nursery.root"),
    *("actbox.sandbox.session_packages", "actbox.sandbox.session_runs", "actbox.sandbox.sessions"),
    *("actbox.tools.approval", "actbox.tools.definition", "actbox.tools.typescript"),
)


@pytest.mark.parametrize("way", ["run", "open_sandbox"])
def test_the_first_answer_imports_little_and_the_nursery_starts_before_most_of_it(way: str) -> None:
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")
    code = _FIRST_ANSWER.replace("PATHS", repr(sys.path)).replace("WAY", repr(way))
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    imported, started, answered = json.loads(done.stdout)
    ours = [[name for name in names if name.startswith("actbox")] for names in (imported, started, answered)]
    assert ours[0] == ["actbox", "actbox._version", "actbox.core", "actbox.core.lazy", "actbox.core.presentation"]
    assert [name for name in NOT_FOR_AN_ANSWER if name in answered] == []
    assert [name for name in ("asyncio", "logging", "pathlib") if way == "run" and name in started] == []
    # Counted on CPython 3.11 to 3.13, and a few more: a change that imports more has to say so here.
    assert len(imported) <= 12
    assert len(ours[1]) <= 25, ours[1]
    assert len(ours[2]) <= 105, ours[2]


@pytest.mark.parametrize("package", ["actbox", "actbox.content", "actbox.cli", "actbox.testing", "actbox.tools"])
def test_a_packages_lazy_names_are_those_that_it_lists_and_type_checkers_read(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text())
    checked = next(n for n in tree.body if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING")
    read = {
        alias.name: node.module or ""
        for node in checked.body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert set(read) == set(module.__all__) - {"main", "__version__"}
    for name, submodule in read.items():
        home = importlib.import_module(f"{package}.{submodule or name}")
        assert getattr(module, name) is (getattr(home, name) if submodule else home), name
    assert not hasattr(module, "no_such_name")


@pytest.mark.slow
def test_a_result_knows_how_it_looks_in_a_notebook_and_brings_in_what_that_takes_only_then() -> None:
    code = (
        "import sys, actbox\n"
        "result = actbox.ExecutionResult(stdout='hello')\n"
        "before = 'pydantic' in sys.modules\n"
        "print(before, 'hello' in result._repr_html_(), sorted(result._repr_mimebundle_()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False True ['text/html', 'text/plain']"


@pytest.mark.slow
def test_the_review_is_there_when_it_is_used_and_not_before() -> None:
    code = (
        "import sys, actbox\n"
        "before = [name for name in sys.modules if name.startswith('actbox.review')]\n"
        "print(before, len(actbox.review.review('import os').findings), hasattr(actbox, 'revue'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] 1 False"


@pytest.mark.slow
def test_the_approver_at_the_terminal_is_had_from_the_command_lines_room_without_loading_that() -> None:
    code = (
        "import sys, actbox.cli\n"
        "before = 'actbox.cli.approver' in sys.modules\n"
        "from actbox.cli import TerminalApprover\n"
        "import actbox\n"
        "print(before, isinstance(TerminalApprover(), actbox.Approver), 'typer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False True False"


def test_every_public_name_is_there_and_documented() -> None:
    for name in actbox.__all__:
        thing = getattr(actbox, name)
        if isinstance(thing, type) or callable(thing):
            assert thing.__doc__, name


def test_auto_says_which_engine_it_took_and_why(caplog: pytest.LogCaptureFixture) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"no engine that isolates works here: {found.reason}")
    with caplog.at_level(logging.INFO, logger="actbox"):
        assert actbox.open_sandbox().traits.engine == "linux"
    assert "the linux engine" in caplog.text
