"""Python, as much of it as an engine runs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from actbox.core.result import ExecutionResult
from actbox.sandbox.traits import Python as Level

from .words import Words

LEVELS: Final[tuple[Level, ...]] = ("none", "subset", "core", "standard library", "full")
"""The levels of Python support, in ascending order."""


class Python(Words):
    """Statements and expressions in Python. They need only a `subset` of it, except to open files."""

    language: ClassVar[str] = "python"
    broken: ClassVar[str] = "print('ran')\nthis is no program\n"
    beyond_json: Mapping[str, Any] = {
        "{1, 2}": {1, 2},
        "(1, (2,))": (1, (2,)),
        "b'x'": b"x",
        "[float('nan')]": [float("nan")],
        "{1: 'a', '1': 'b'}": {1: "a", "1": "b"},
        "{'!set': [1]}": {"!set": [1]},
    }
    uncrossable = ("[0, {'a': len}]", "[1]['a']")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.lacks = {"exit": "import sys\nsys.exit(3)\n"} if level == "subset" else {}

    def say(self, text: str) -> str:
        return f"print({text!r})\n"

    def complain(self, text: str) -> str:
        return f"import sys\nprint({text!r}, file=sys.stderr)\n"

    def fail(self, message: str) -> str:
        return f"raise ValueError({message!r})\n"

    def exit(self, code: int) -> str:
        return f"import sys\nsys.exit({code})\n"

    def forever(self) -> str:
        return "while True:\n    pass\n"

    def recurse(self) -> str:
        return "def deeper(n):\n    return deeper(n + 1) + 1\ndeeper(0)\n"

    def repeat(self, count: int, statement: str) -> str:
        return f"for _ in range({count}):\n{textwrap.indent(statement, '    ')}"

    def literal(self, value: Any) -> str:
        return repr(value)

    def let(self, name: str, expression: str) -> str:
        return f"{name} = {expression}\n"

    def plus(self, one: str, other: str) -> str:
        return f"({one} + {other})"

    def long_text(self, count: int) -> str:
        return f"('x' * {count})"

    def listed(self, *expressions: str) -> str:
        return f"[{', '.join(expressions)}]"

    def answer(self, expression: str) -> str:
        return f"{expression}\n"

    def answered(self, result: ExecutionResult) -> Any:
        return result.value

    def call(self, tool: str, *arguments: Any) -> str:
        return f"{tool}({', '.join(map(repr, arguments))})"

    def call_on(self, tool: str, expression: str) -> str:
        return f"{tool}({expression})"

    def call_by_name(self, tool: str, **arguments: Any) -> str:
        named = "".join(f", {name}={value!r}" for name, value in arguments.items())
        return f"call_tool({tool!r}{named})"

    def caught(self, name: str, expression: str) -> str:
        # A subset may have no classes, and ToolError is one.
        error = "Exception" if self.level == "subset" else "ToolError"
        return f"try:\n    {name} = {expression}\nexcept {error} as error:\n    {name} = str(error)\n"

    def gathered(self, name: str, calls: list[tuple[str, tuple[Any, ...]]]) -> str:
        made = ", ".join(self.call(tool, *arguments) for tool, arguments in calls)
        return f"import asyncio\n{name} = list(await asyncio.gather(*[{made}]))\n"

    def write(self, path: str, text: str) -> str:
        if self.level == "subset":
            return f"from pathlib import Path\nPath({path!r}).write_text({text!r})\n"
        return f"with open({path!r}, 'w', encoding='utf-8', newline='') as file:\n    file.write({text!r})\n"

    def read(self, path: str) -> str:
        if self.level == "subset":
            return f"open({path!r}).read()"
        return f"open({path!r}, encoding='utf-8', newline='').read()"

    def variable(self, name: str) -> str:
        if self.level == "subset":
            return f"(exec('import os'), os.environ.get({name!r}))[1]"
        return f"__import__('os').environ.get({name!r})"

    def hold(self, mebibytes: int) -> str:
        return f"held = []\nfor n in range({mebibytes // 16}):\n    held.append(str(n) + 'x' * (16 * 2**20))\n"

    def write_large(self, path: str, mebibytes: int) -> str:
        if self.level == "subset":
            return f"from pathlib import Path\nPath({path!r}).write_text('x' * ({mebibytes} * 2**20))\n"
        return f"open({path!r}, 'wb').write(bytes({mebibytes} * 2**20))\n"

    def hold_open(self, path: str, count: int) -> str:
        # In a subset, an opened file may be just its content; without a descriptor it does not count as open.
        held = "opened[-1].fileno()\n" if self.level == "subset" else ""
        return f"opened = []\nfor _ in range({count}):\n    opened.append(open({path!r}))\n{held}"

    def have_alive(self, count: int) -> Mapping[str, str]:
        return {
            "threads": f"""\
import threading, time
for _ in range({count}):
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
""",
            "processes": f"""\
import os, time
for _ in range({count}):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
""",
        }

    def share_of_a_processor(self) -> str:
        # In WebAssembly `process_time` counts wall time, and so goes on during sleep.
        return """\
import time
used = time.process_time()
time.sleep(0.1)
tells = time.process_time() - used < 0.05
began, used = time.monotonic(), time.process_time()
while not (tells and time.process_time() - used >= 0.3) and time.monotonic() - began < 4:
    pass
(time.process_time() - used) / (time.monotonic() - began) if tells else None
"""
