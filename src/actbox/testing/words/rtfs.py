"""RTFS, a pure language: a program has a value and no effects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from actbox.core.result import ExecutionResult

from .words import Words


class Rtfs(Words):
    """Statements and expressions in RTFS. It has no output, no files, no exit code and no `await`."""

    language: ClassVar[str] = "rtfs"
    tools_are_variables: ClassVar[bool] = False
    broken: ClassVar[str] = "(+ 1 2)\n)\n"
    lacks: Mapping[str, str] = {
        "say": '(println "out")',
        "exit": "(exit 3)",
        "message": '(throw "boom")',
        "write": '(spit "a" "text")',
        "variable": '(getenv "PATH")',
        "beyond_json": "#{1 2}",
        "repeat": '(dotimes [n 3] (println "out"))',
    }

    uncrossable = ('[0 {"a" (fn [n] n)}]', '[1]["a"]')

    def say(self, text: str) -> str:
        return f"(println {self.literal(text)})\n"

    def complain(self, text: str) -> str:
        return f"(eprintln {self.literal(text)})\n"

    def fail(self, message: str) -> str:
        return f"(/ 1 0) ; {message}\n"

    def exit(self, code: int) -> str:
        return f"(exit {code})\n"

    def forever(self) -> str:
        return "(defn forever [n] (forever (+ n 1)))\n(forever 0)\n"

    def recurse(self) -> str:
        return "(defn deeper [n] (+ 1 (deeper (+ n 1))))\n(deeper 0)\n"

    def repeat(self, count: int, statement: str) -> str:
        return f"(map (fn [n] {statement.strip()}) (range 0 {count}))\n"

    def literal(self, value: Any) -> str:
        if isinstance(value, dict):
            return (
                "{" + " ".join(f"{json.dumps(k, ensure_ascii=False)} {self.literal(v)}" for k, v in value.items()) + "}"
            )
        if isinstance(value, list):
            return "[" + " ".join(map(self.literal, value)) + "]"
        return "nil" if value is None else json.dumps(value, ensure_ascii=False)

    def let(self, name: str, expression: str) -> str:
        return f"(def {name} {expression})\n"

    def plus(self, one: str, other: str) -> str:
        return f"(+ {one} {other})"

    def long_text(self, count: int) -> str:
        return f'(reduce (fn [text n] (str text "{"x" * 1000}")) "{"x" * (count % 1000)}" (range 0 {count // 1000}))'

    def listed(self, *expressions: str) -> str:
        return f"[{' '.join(expressions)}]"

    def answer(self, expression: str) -> str:
        return f"{expression}\n"

    def answered(self, result: ExecutionResult) -> Any:
        return result.value

    def call(self, tool: str, *arguments: Any) -> str:
        return f"(call :{' '.join((tool, *map(self.literal, arguments)))})"

    def call_on(self, tool: str, expression: str) -> str:
        return f"(call :{tool} {expression})"

    def call_by_name(self, tool: str, **arguments: Any) -> str:
        return f"(call {json.dumps(tool)} {self.literal(arguments)})"

    def caught(self, name: str, expression: str) -> str:
        return f"(def {name} (try {expression} (catch error (str error))))\n"

    def gathered(self, name: str, calls: list[tuple[str, tuple[Any, ...]]]) -> str:
        made = " ".join(self.call(tool, *arguments) for tool, arguments in calls)
        return f"(def {name} [{made}])\n"

    def write(self, path: str, text: str) -> str:
        return f"(spit {self.literal(path)} {self.literal(text)})\n"

    def read(self, path: str) -> str:
        return f"(slurp {self.literal(path)})"

    def variable(self, name: str) -> str:
        return f"(getenv {self.literal(name)})"

    def hold(self, mebibytes: int) -> str:
        # Each number takes at least eight bytes, and no value may be larger than one message.
        return "".join(f"(def held{n} (range 0 500000))\n" for n in range(mebibytes // 4))

    def write_large(self, path: str, mebibytes: int) -> str:
        return self.write(path, "x" * (mebibytes * 2**20))

    def hold_open(self, path: str, count: int) -> str:
        return f"(def opened (map (fn [n] (open {self.literal(path)})) (range 0 {count})))\n"

    def have_alive(self, count: int) -> Mapping[str, str]:
        return {"threads": f"(def begun (map (fn [n] (future (fn [] n))) (range 0 {count})))\n"}

    def share_of_a_processor(self) -> str:
        return "(processor-time)\n"
