"""JavaScript, as a module with `await` at its top level."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from actbox.core.result import ExecutionResult

from .words import Words


class JavaScript(Words):
    """Statements and expressions in JavaScript. A module has no value of its own, so a program prints it as JSON in its
    last line.
    """

    language: ClassVar[str] = "javascript"
    has_value: ClassVar[bool] = False
    broken: ClassVar[str] = "console.log('ran');\nthis is no program\n"
    beyond_json: Mapping[str, Any] = {
        "new Set([1, 2])": {1, 2},
        "new Date(5)": datetime.datetime(1970, 1, 1, 0, 0, 0, 5000, datetime.UTC),
        "new Uint8Array([120])": b"x",
        "[NaN]": [float("nan")],
        "new Map([[1, 'a'], ['1', 'b']])": {1: "a", "1": "b"},
        "{'!set': [1]}": {"!set": [1]},
        "10n ** 20n": 10**20,
    }
    uncrossable = ("[0, {a: () => 1}]", "[1].a")

    def say(self, text: str) -> str:
        return f"console.log({self.literal(text)});\n"

    def complain(self, text: str) -> str:
        return f"console.error({self.literal(text)});\n"

    def fail(self, message: str) -> str:
        return f"throw new Error({self.literal(message)});\n"

    def exit(self, code: int) -> str:
        return f"process.exit({code});\n"

    def forever(self) -> str:
        return "for (;;) {}\n"

    def recurse(self) -> str:
        return "function deeper(n) { return deeper(n + 1) + 1; }\ndeeper(0);\n"

    def repeat(self, count: int, statement: str) -> str:
        return f"for (let i = 0; i < {count}; i++) {{ {statement.strip()} }}\n"

    def literal(self, value: Any) -> str:
        return json.dumps(value)

    def let(self, name: str, expression: str) -> str:
        return f"var {name} = {expression};\n"

    def plus(self, one: str, other: str) -> str:
        return f"({one} + {other})"

    def long_text(self, count: int) -> str:
        return f'"x".repeat({count})'

    def listed(self, *expressions: str) -> str:
        return f"[{', '.join(expressions)}]"

    def answer(self, expression: str) -> str:
        return f"console.log(JSON.stringify({expression}));\n"

    def answered(self, result: ExecutionResult) -> Any:
        return json.loads(result.stdout.strip().rpartition("\n")[2]) if result.stdout.strip() else None

    def call(self, tool: str, *arguments: Any) -> str:
        return f"(await {tool}({', '.join(map(self.literal, arguments))}))"

    def call_on(self, tool: str, expression: str) -> str:
        return f"(await {tool}({expression}))"

    def call_by_name(self, tool: str, **arguments: Any) -> str:
        return f"(await call_tool({self.literal(tool)}, {self.literal(arguments)}))"

    def caught(self, name: str, expression: str) -> str:
        return (
            f"var {name};\ntry {{ {name} = {expression}; }} catch (error) "
            f"{{ if (!(error instanceof ToolError)) throw error; {name} = error.message; }}\n"
        )

    def gathered(self, name: str, calls: list[tuple[str, tuple[Any, ...]]]) -> str:
        made = ", ".join(f"{tool}({', '.join(map(self.literal, arguments))})" for tool, arguments in calls)
        return f"var {name} = await Promise.all([{made}]);\n"

    def write(self, path: str, text: str) -> str:
        return f"(await import('node:fs')).writeFileSync({self.literal(path)}, {self.literal(text)});\n"

    def read(self, path: str) -> str:
        return f"(await import('node:fs')).readFileSync({self.literal(path)}, 'utf8')"

    def variable(self, name: str) -> str:
        return f"(process.env[{self.literal(name)}] ?? null)"

    def hold(self, mebibytes: int) -> str:
        return (
            f"var held = [];\nfor (let n = 0; n < {mebibytes // 16}; n++) "
            "held.push(new Uint8Array(16 * 2 ** 20).fill(1));\n"
        )

    def write_large(self, path: str, mebibytes: int) -> str:
        return (
            f"(await import('node:fs')).writeFileSync({self.literal(path)}, new Uint8Array({mebibytes} * 2 ** 20));\n"
        )

    def hold_open(self, path: str, count: int) -> str:
        return (
            "var { openSync } = await import('node:fs');\n"
            f"for (let n = 0; n < {count}; n++) openSync({self.literal(path)});\n"
        )

    def have_alive(self, count: int) -> Mapping[str, str]:
        return {
            "processes": f"""\
var {{ spawn }} = await import('node:child_process');
for (let n = 0; n < {count}; n++) await new Promise((done, fail) => {{
  const child = spawn('sleep', ['30'], {{ stdio: 'ignore' }});
  child.once('spawn', done).once('error', fail).unref();
}});
"""
        }

    def share_of_a_processor(self) -> str:
        return """\
var used = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e6; };
var began = performance.now(), before = used();
while (used() - before < 0.3 && performance.now() - began < 4000);
console.log(JSON.stringify((used() - before) / ((performance.now() - began) / 1000)));
"""
