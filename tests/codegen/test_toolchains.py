"""Programs in compiled languages are built and run in a sandbox that has the compiler."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, FileMount, Limits, Policy
from actbox.codeact import ScriptedModel
from actbox.codegen import CodingAgent, Outcome, RetryPolicy, Task
from actbox.codegen.outcome import AttemptEvent, Finished
from actbox.codegen.task import Example, TextCheck
from actbox.core.events import Output
from actbox.sandbox.contract import Sandbox
from tests.conftest import engine_check

SALES = "north,1\nsouth,2\nnorth,3\n"
SUM = r"""
#include <stdio.h>
int main(int count, char **arguments) {
    int sum = 0, amount;
    FILE *sales = fopen(arguments[1], "r"), *out = fopen("/output/sum.txt", "w");
    while (fscanf(sales, "%*[^,],%d\n", &amount) == 1) sum += amount;
    fprintf(out, "%d", sum);
    printf("%d\n", sum);
    return 0;
}
"""
ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    """A sandbox that has a compiler of C."""
    found = engine_check("linux")
    if not found.works or shutil.which("cc") is None:
        pytest.skip(f"there is no compiler, or the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux", policy=Policy(limits=Limits(memory_mib=256))) as opened:
        yield opened


def blocks(language: str, *programs: str) -> ScriptedModel:
    return ScriptedModel([f"```{language}\n{one}\n```" for one in programs])


async def solve(box: Sandbox, *programs: str, language: str = "c", **more: Any) -> Outcome:
    """Return the outcome of a task whose programs run in `box`."""
    retry = more.pop("retry", RetryPolicy(attempt_backoff_ms=[]))
    agent = CodingAgent(blocks(language, *programs), box, sandboxes={language: box}, retry=retry)
    return await agent.solve(Task("sum", language=language, **more))


async def test_a_program_in_c_has_its_inputs_as_arguments_and_leaves_files(box: Sandbox) -> None:
    agent = CodingAgent(blocks("c", SUM), box, sandboxes={"c": box})
    task = Task("sum", language="c", inputs={"sales.csv": SALES}, outputs=["sum.txt"])
    events = [event async for event in agent.stream(task)]
    finished = events[-1]
    assert isinstance(finished, Finished)
    outcome = finished.outcome
    assert outcome.solved, outcome.attempts
    assert [(one.name, one.data) for one in outcome.artifacts] == [("sum.txt", b"6")]
    said = [one.event for one in events if isinstance(one, AttemptEvent) and isinstance(one.event, Output)]
    assert [one.text for one in said] == ["6\n"]
    result = outcome.attempts[0].result
    assert result is not None
    assert (result.stdout, result.language, result.code, result.value) == ("6\n", "c", outcome.code, None)
    assert not await box.list_files("output")  # it ran in a workspace of its own


async def test_an_error_of_the_compiler_is_one_of_syntax_at_its_line(box: Sandbox) -> None:
    wrong = SUM.replace("amount;", "amount", 1).replace("#include", '#warning "x.c"\n#include', 1)
    outcome = await solve(box, wrong, SUM, inputs={"sales.csv": SALES})
    error = outcome.attempts[0].result.error  # type: ignore[union-attr]
    assert error is not None and (error.kind, error.line) == (ErrorKind.SYNTAX, 6), error
    assert outcome.solved and outcome.attempts[0].error_class == "syntax_error"
    assert "main.c:6" in outcome.attempts[0].result.stderr  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("program", "kind", "code"),
    [
        ("int main(void) { return 3; }", ErrorKind.EXIT, 3),
        ("int main(void) { *(volatile int *)0 = 1; }", ErrorKind.CRASH, 139),
        pytest.param("int main(void) { for (;;); }", ErrorKind.TIMEOUT, 124, marks=pytest.mark.slow),
        (
            "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 24), 1, 1 << 24); }",
            ErrorKind.MEMORY,
            137,
        ),
    ],
    ids=lambda given: given.name if isinstance(given, ErrorKind) else "",
)
async def test_the_end_of_a_program_is_told_as_that_of_any_other(
    box: Sandbox, program: str, kind: ErrorKind, code: int
) -> None:
    if kind is ErrorKind.MEMORY and "cgroup" not in box.traits.enforced["memory_mib"]:
        pytest.skip("the limit of memory is that of each process: malloc returns NULL, and nothing ends the program")
    agent = CodingAgent(blocks("c", program), box, sandboxes={"c": box}, retry=ONCE, timeout=5)
    result = (await agent.solve(Task("end", language="c"))).attempts[0].result
    assert result is not None and result.error is not None
    assert (result.error.kind, result.exit_code) == (kind, code), result


async def test_standard_input_examples_and_several_files(box: Sandbox) -> None:
    reply = """```c main.c
#include <stdio.h>
#include "twice.h"
int main(void) { int number; scanf("%d", &number); printf("%d", twice(number)); }
```
```c lib/twice.c
int twice(int number) { return 2 * number; }
```
```c twice.h
int twice(int number);
```"""
    agent = CodingAgent(ScriptedModel([reply]), box, sandboxes={"c": box}, retry=ONCE)
    task = Task("twice", language="c", inputs={"number": 1}, examples=[Example(2, 4), Example(21, 42)])
    outcome = await agent.solve(task)
    assert outcome.solved, outcome.attempts[0]


async def test_tests_see_what_a_program_left(box: Sandbox) -> None:
    test = "def test_sum(): assert open('output/sum.txt').read() == '6' and open('stdout.txt').read() == '6\\n'"
    for wrong in (True, False):
        program = SUM.replace("sum +=", "sum -=") if wrong else SUM
        outcome = await solve(box, program, retry=ONCE, inputs={"sales.csv": SALES}, checks=[TextCheck(test)])
        assert outcome.solved is not wrong, outcome.attempts[0].checks


async def test_a_program_is_built_in_a_copy_of_a_session_of_its_sandbox(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        await session.run("open('amount', 'w').write('6')")
        program = SUM.replace("arguments[1]", '"amount"').replace("%*[^,],%d", "%d")
        agent = CodingAgent(blocks("c", program), box, sandboxes={"c": box}, retry=ONCE)
        outcome = await agent.solve(Task("sum", language="c"), session=session)
        assert outcome.solved and outcome.last.result.stdout == "6\n", outcome.attempts  # type: ignore[union-attr]
        assert outcome.session is not None
        assert (await outcome.session.run("import os; sorted(os.listdir())")).value == ["amount", "input", "output"]
        await outcome.session.close()


@pytest.mark.engines
async def test_a_container_builds_programs_too() -> None:
    found = engine_check("container")
    if not found.works:
        pytest.skip(f"the container engine does not work here: {found.reason}")
    async with actbox.open_sandbox("container") as box:
        outcome = await solve(box, SUM, retry=ONCE, inputs={"sales.csv": SALES}, outputs=["sum.txt"])
    error = outcome.attempts[0].result.error  # type: ignore[union-attr]
    assert outcome.solved or (error is not None and "the sandbox has no cc" in error.message), outcome.attempts


async def test_a_sandbox_without_the_compiler_says_so(box: Sandbox) -> None:
    if shutil.which("go", path="/usr/bin:/usr/local/bin:/bin"):
        pytest.skip("there is a compiler of Go")
    outcome = await solve(box, "package main", language="go", retry=ONCE)
    error = outcome.attempts[0].result.error  # type: ignore[union-attr]
    assert error is not None and error.kind is ErrorKind.UNSUPPORTED and "the sandbox has no go" in error.message


async def test_a_language_whose_sandbox_cannot_build_it_is_returned_unrun(box: Sandbox) -> None:
    async with actbox.open_sandbox("monty") as small:
        agent = CodingAgent(blocks("rust", "fn main() {}"), box, sandboxes={"rust": small})
        outcome = await agent.solve(Task("nothing", language="rust"))
    assert outcome.stopped == "returned" and outcome.code.strip() == "fn main() {}"


@pytest.mark.slow
async def test_rust_is_built_with_a_toolchain_that_is_mounted(box: Sandbox) -> None:
    if shutil.which("rustc") is None:
        pytest.skip("there is no compiler of Rust")
    asked = ["rustc", "--print", "sysroot"]
    root = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    policy = Policy(mounts=(FileMount(root, "/opt/rust"),), variables={"PATH": "/opt/rust/bin:/usr/bin:/bin"})
    program = """```rust main.rs
mod twice;
fn main() { println!("{}", twice::twice(21)); }
```
```rust twice.rs
pub fn twice(x: i32) -> i32 { 2 * x }
```"""
    wrong = program.replace("twice(x: i32)", "twice(x: i3)")
    async with actbox.open_sandbox("linux", policy=policy) as able:
        model = ScriptedModel([wrong, program])
        outcome = await CodingAgent(model, box, sandboxes={"rust": able}).solve(Task("the answer", language="rust"))
    assert outcome.solved and outcome.last is not None, outcome.attempts[-1].result
    assert outcome.last.result is not None and outcome.last.result.stdout == "42\n"
    error = outcome.attempts[0].result.error  # type: ignore[union-attr]
    assert error is not None and (error.kind, error.line) == (ErrorKind.SYNTAX, 1) and "i3" in error.message


@pytest.mark.slow
async def test_go_is_built_with_a_toolchain_that_is_mounted(box: Sandbox) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no compiler of Go")
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    policy = Policy(mounts=(FileMount(root, "/opt/go"),), variables={"PATH": "/opt/go/bin:/usr/bin:/bin"})
    program = """```go main.go
package main
import ("bufio"; "fmt"; "os")
func main() { words := bufio.NewScanner(os.Stdin); words.Scan(); fmt.Println(twice(words.Text()), os.Args[1:]) }
```
```go twice.go
package main
func twice(s string) string { return s + s }
```"""
    async with actbox.open_sandbox("linux", policy=policy) as able:
        model = ScriptedModel([program.replace("s + s", "s + t"), program])
        task = Task("twice", language="go", inputs={"a.txt": "word\n"})
        outcome = await CodingAgent(model, box, sandboxes={"go": able}).solve(task)
    assert outcome.solved and outcome.last is not None, outcome.attempts[-1].result
    assert outcome.last.result is not None and outcome.last.result.stdout == "wordword [input/a.txt]\n"
    error = outcome.attempts[0].result.error  # type: ignore[union-attr]
    assert error is not None and error.message == "./twice.go:2:42: undefined: t" and error.line == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "compiler", "program"),
    [
        (
            "java",
            "javac",
            "package kit;\npublic class Main {\n public static void main(String[] a) { System.out.println(a[0]); }\n}",
        ),
        (
            "c++",
            "c++",
            "#include <iostream>\nint main(int count, char **words) { std::cout << words[1] << std::endl; }",
        ),
    ],
    ids=["java", "c++"],
)
async def test_other_languages_are_built_with_the_tools_of_the_host(language: str, compiler: str, program: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        outcome = await solve(box, program, language=language, inputs={"text": "a word"}, retry=ONCE)
    assert outcome.solved and outcome.last is not None, outcome.attempts[0].result
    assert outcome.last.result is not None and outcome.last.result.stdout == "a word\n"
