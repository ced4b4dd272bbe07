"""M3ToolEval as exercises, from the directory of whoever has it: `scripts/eval/m3tooleval` of the CodeAct repository.

Its tasks and tools are Python modules, one of which evaluates any expression that it is given. They are therefore
loaded in a sandbox, and a tool of an exercise calls the function there. The programs of the model run in another one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Final

from actbox import Program, Sandbox, Session
from actbox.core.errors import ActboxError, InvalidValue

from .exercise import Case, Exercise, difference

_CENT: Final = 0.0051
"""The tolerance for numbers: many answers are asked for with two digits."""

# IPython and tqdm are for the set's own loop, which is not used.
_LOAD: Final = """
import contextlib, inspect, io, json, sys, types

for name in ("IPython", "IPython.core", "IPython.core.interactiveshell", "IPython.utils", "tqdm"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["IPython.core.interactiveshell"].InteractiveShell = object
sys.modules["IPython.utils"].io = io
sys.modules["tqdm"].tqdm = lambda *_, **__: types.SimpleNamespace(update=lambda _: None)
sys.path.insert(0, "/input/m3tooleval")


def parameters(function):
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:  # a function of C, such as max
        return [["values", "VAR_POSITIONAL", []]]
    return [[each.name, each.kind.name, [] if each.default is each.empty else [each.default]] for each in found]


with contextlib.redirect_stdout(io.StringIO()):
    import tasks as m3tooleval

    tasks = list(m3tooleval.get_task_iterator())
[
    {
        "name": task.name,
        "goal": task.instruction,
        "expected": json.dumps(task.expected_output),
        "tools": [
            [tool.name, f"{tool.description}\\n\\n{tool.fn_signature}", parameters(tool.function)]
            for tool in task.tools.values()
        ],
    }
    for task in tasks
]
"""
_CALL: Final = "tasks[task].tools[tool].function(*positional, **named)"


@asynccontextmanager
async def m3_tool_eval(folder: Path, box: Sandbox) -> AsyncIterator[list[Exercise]]:
    """Load the set in a session of `box`, which lasts until the end of the block. Raises `InvalidValue`."""
    files = {
        f"m3tooleval/{path.relative_to(folder)}": path.read_bytes()
        for path in sorted(folder.glob("tasks/**/*"))
        if path.suffix in (".py", ".json", ".jsonl")
    }
    if "m3tooleval/tasks/__init__.py" not in files:
        raise InvalidValue(f"{folder} has no tasks/__init__.py; name the directory scripts/eval/m3tooleval")
    async with box.session() as session:
        loaded = await session.run(Program(_LOAD, files=files))
        if not isinstance(loaded.value, list):
            raise InvalidValue(f"the tasks in {folder} cannot be loaded: {loaded.error}")
        yield [_exercise(number, task, session) for number, task in enumerate(loaded.value)]


def _exercise(number: int, task: Mapping[str, Any], session: Session) -> Exercise:
    expected = json.loads(task["expected"])
    tools = [_tool(number, *described, session) for described in task["tools"]]
    case = Case(answer=partial(_wrong, expected), actions=tools)
    goal = f"{task['goal']}\n\nAnswer with the result alone, such as a number, a text or a list."
    return Exercise(name=f"M3ToolEval {task['name']}", group="M3ToolEval", goal=goal, make=lambda random: case)


def _tool(
    task: int, name: str, description: str, parameters: list[tuple[str, str, list[Any]]], session: Session
) -> Callable[..., Any]:
    async def call(*positional: Any, **named: Any) -> Any:
        inputs = {"task": task, "tool": name, "positional": list(positional), "named": named}
        result = await session.run(Program(_CALL, inputs=inputs))
        if not result.success:
            raise ActboxError(result.error.message if result.error else "the tool failed")
        return result.value

    call.__name__, call.__doc__ = name, description
    call.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(each, getattr(Parameter, kind), default=default[0] if default else Parameter.empty)
            for each, kind, default in parameters
        ]
    )
    return call


def _wrong(expected: Any, value: Any) -> str:
    return difference(_plain(value), _plain(expected), "the answer", _CENT)


def _plain(value: Any) -> Any:
    """Return a value in which text that is a number has become one, as the set's own comparison does it."""
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value.strip()
