"""Text checks: tests as pytest or doctest text, run in a sandbox that the program under test never sees.

There are two sandboxes. One has the tests and the harness that runs them (`guest/harness.py`); its value is the report.
The other has the program (`guest/server.py`), imported as the module `solution`, and does what the tests ask: call this
function, read that attribute. The host carries the messages. So the program can neither read the tests nor reach what
judges it: it may patch pytest, write a `conftest.py`, print a report, exit or sleep in its own sandbox as it likes, and
fails by it. What the tests make of its answers is theirs:

* It sees the arguments of its calls, and so may answer by recognizing them. Data that it returns is compared here.
* Objects of its own classes stay with it. A test that believes their methods, `in`, or the equality of two of them,
  believes the program. They never equal data (see `guest/peer.py`).
* Importing it executes its statements once more, without tools and in an empty workspace, under the sandbox's policy.
  Give checks a sandbox without a network if the program can reach one.
* A file that it wrote is data for the tests. A test that executes or unpickles one runs the program beside itself.
* A test that is itself hostile can forge its own report, and no other.
"""

from __future__ import annotations

import asyncio
import functools
import json
import marshal
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from importlib.util import MAGIC_NUMBER
from typing import Any, Final, Literal

from actbox.core.labels import PUBLIC, Label
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.core.values import CannotCross, pack
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.mapping import result_of
from actbox.sandbox.taint import call_taint
from actbox.tools import Tool, Toolset

from .programs import FOLDER
from .task import TextCheck

MODULE: Final = "solution"
"""The name by which tests import the program. `program`, `main` and the names of its own files are the same."""
TEST_SECONDS: Final = 30.0
"""The seconds that a text check may take by default; one answer of the program may take half of them."""

_OUTCOME: Final = ".outcome"
_BEGIN: Final = """\
import marshal
from _frozen_importlib_external import MAGIC_NUMBER  # importlib.util, without the time to import it
for source, code in zip(parts["sources"], parts["codes"]):
    like = MAGIC_NUMBER == parts["magic"]
    exec(marshal.loads(code) if like else compile(source, "harness.py", "exec", 0, True), globals())
"""
_OWN_IMPORT: Final = re.compile(r"^from \.\w+ import .*\n", re.MULTILINE)

TestOutcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class OneTest:
    """The outcome of one test; `message` says why it failed."""

    name: str
    outcome: TestOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class TextReport:
    """The outcomes of a text check. `problem` says why the tests could not be run, `used_program` whether they tried to
    import the program. `label` is the join of all that the tests and the program could have read meanwhile.
    """

    tests: tuple[OneTest, ...] = ()
    problem: str = ""
    used_program: bool = False
    label: Label = PUBLIC

    @property
    def passed(self) -> bool:
        """True if at least one test passed and none failed."""
        kinds = {test.outcome for test in self.tests}
        return not self.problem and "passed" in kinds and "failed" not in kinds

    @property
    def share(self) -> float:
        """The share of the tests that passed, without those skipped: 0 to 1."""
        counted = [test.outcome == "passed" for test in self.tests if test.outcome != "skipped"]
        return 0.0 if self.problem or not counted else sum(counted) / len(counted)

    @property
    def message(self) -> str:
        """The failures in words, "" if there are none."""
        if self.problem or not any(test.outcome != "skipped" for test in self.tests):
            return self.problem or "no test was run"
        failed = [test for test in self.tests if test.outcome == "failed"]
        words = "; ".join(f"{test.name}: {test.message}".rstrip(": ") for test in failed[:3])
        more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
        return f"{len(failed)} of {len(self.tests)} tests failed: {words}{more}" if failed else ""


async def run_text_check(
    check: TextCheck,
    program: Program,
    result: ExecutionResult,
    box: Sandbox,
    *,
    source: str | None = None,
    answer: Any = None,
    seconds: float = TEST_SECONDS,
) -> TextReport:
    """Run tests on a program and on what came of its run.

    They find the program's files below `output`, the input files below `input`, the answer in `answer.json`, what the
    program printed in `stdout.txt`; and the program as a module, whose names are also bound where the tests use them
    without importing them. `source` is the module's source if it is not the program that was run. The sandboxes are
    workspaces of their own in `box`.
    """
    others = _other_names(program)
    names = _names_of(program, others) if program.language == "python" else ()
    relay = _Relay(functools.partial(_serve, program, source, box, names, seconds), seconds / 2)
    given = {
        "source": check.source,
        "kind": check.kind,
        "names": [*names, *others] if names else [],
        "files": f"input/{_OUTCOME}",
    }
    outcome = {f"output/{artifact.name}": artifact.data for artifact in result.artifacts}
    outcome |= {"answer.json": _as_json(answer).encode(), "stdout.txt": result.stdout.encode("utf-8", "replace")}
    harness = Program(
        f"{_BEGIN}run(program, given)\n",
        inputs={"given": given, "parts": _parts("harness")},
        files={**program.files, **{f"{_OUTCOME}/{name}": data for name, data in outcome.items()}},
        name="harness.py",
        dependencies=program.dependencies if program.language == "python" else (),
        label=result.label,
    )
    try:
        run = box.run_alone(harness, tools=_toolset(relay.program, box), timeout=seconds)
        ran = await result_of(run, box.traits.engine)
        report = _report(ran, relay)
    finally:
        await relay.close()
    return replace(report, label=Label(ran.label, relay.label))


def _serve(
    program: Program,
    source: str | None,
    box: Sandbox,
    names: Sequence[str],
    seconds: float,
    exchange: Callable[..., Any],
) -> Awaitable[ExecutionResult]:
    """Run the sandbox of the program."""
    given = {
        "code": program.code if source is None else source,
        "inputs": dict(program.inputs),
        "names": list(names),
        "folder": f"input/{FOLDER}",
    }
    server = Program(
        f"{_BEGIN}serve(exchange, given)\n",
        inputs={"given": given, "parts": _parts("server")},
        files=program.files,
        name="server.py",
        cwd=program.cwd,
        env=program.env,
        dependencies=program.dependencies,
        label=program.label,
    )
    return result_of(box.run_alone(server, tools=_toolset(exchange, box), timeout=2 * seconds), box.traits.engine)


class _Relay:
    """Carries the requests of the tests to the program, whose sandbox starts with the first one, and its answers
    back.
    """

    def __init__(self, start: Callable[[Callable[..., Any]], Awaitable[ExecutionResult]], seconds: float) -> None:
        self._start = start
        self._seconds = seconds
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._answer: asyncio.Future[Any] | None = None
        self._is_ready = False
        self._run: asyncio.Future[ExecutionResult] | None = None
        self.used = False
        self.label = PUBLIC
        """The label of the program's answers."""

    async def program(self, message: Any) -> Any:
        """Return the program's next message after this one of the tests, or why there will be none."""
        self.used = True
        if self._run is None:
            self._run = asyncio.ensure_future(self._start(self.exchange))
        self._answer = asyncio.get_running_loop().create_future()
        self._requests.put_nowait(message)
        await asyncio.wait({self._answer, self._run}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._answer.done():
            return self._answer.result()
        self._answer.cancel()
        if not self._run.done():
            self._run.cancel()
            return {"gone": f"the program did not answer within {self._seconds:g} s"}
        result = self._run.result()
        self.label |= result.label
        why = f": {result.error.message}" if result.error is not None else ""
        return {"gone": f"the program ended before it answered, with exit code {result.exit_code}{why}"}

    async def exchange(self, message: Any) -> Any:
        """Take a message of the program, and return the tests' next one. The program's first message says nothing."""
        if (taint := call_taint.get()) is not None:
            self.label |= taint.label
        if self._is_ready and self._answer is not None and not self._answer.done():
            self._answer.set_result(message)
        self._is_ready = True
        return await self._requests.get()

    async def close(self) -> None:
        """End the program."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run])
            if not self._run.cancelled():
                self._run.exception()  # else asyncio would log an exception that nobody has looked at


def _toolset(function: Callable[..., Any], box: Sandbox) -> Toolset:
    # Both sandboxes carry the label of the run, so nothing leaves for a lower one.
    cleared = "secret" if box.traits.labels else None
    return Toolset.of([Tool.from_function(function, description="", cleared=cleared)])


def _report(result: ExecutionResult, relay: _Relay) -> TextReport:
    """Return the report in the harness's value. The value is checked: the tests may have made another."""
    if result.error is not None:
        return TextReport(problem=f"the tests did not end: {result.error.message}", used_program=relay.used)
    try:
        if result.value["needs"]:
            words = f"the tests need {result.value['needs']}, which the environment of the sandbox lacks"
            return TextReport(problem=words, used_program=relay.used)
        tests = tuple(
            OneTest(str(name), outcome if outcome in ("passed", "skipped") else "failed", str(message))
            for name, outcome, message in result.value["tests"]
        )
    except (TypeError, KeyError, ValueError):
        return TextReport(problem="the tests ended without a report", used_program=relay.used)
    return TextReport(tests, used_program=relay.used)


def _other_names(program: Program) -> tuple[str, ...]:
    """Return the names of the modules and packages that a program has beside its main file."""
    paths = [name.split("/")[1] for name in program.files if name.startswith(f"{FOLDER}/")]
    return tuple(dict.fromkeys(name for path in paths if (name := path.removesuffix(".py")).isidentifier()))


def _names_of(program: Program, others: Sequence[str]) -> tuple[str, ...]:
    """Return the names by which tests import the program's main file."""
    names = dict.fromkeys((MODULE, "program", "main", program.name.removesuffix(".py")))
    taken = {*others, *sys.stdlib_module_names}
    return tuple(name for name in names if name.isidentifier() and name not in taken)


def _as_json(answer: Any) -> str:
    """Return an answer as JSON: values that JSON lacks as text, or in the tagged form where keys are none."""
    try:
        return json.dumps(answer, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        try:
            return json.dumps(pack(answer), ensure_ascii=False)
        except CannotCross:
            return "null"


@functools.cache
def _parts(name: str) -> dict[str, Any]:
    """Return the files of one end of the conversation, as text and compiled for an interpreter like this one."""
    folder = resources.files(__package__) / "guest"
    sources = [_OWN_IMPORT.sub("\n", (folder / f"{each}.py").read_text("utf-8")) for each in ("forms", "peer", name)]
    codes = [marshal.dumps(compile(each, f"{name}.py", "exec", dont_inherit=True)) for each in sources]
    return {"sources": sources, "codes": codes, "magic": MAGIC_NUMBER}
