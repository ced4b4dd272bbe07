"""The texts by which a model is asked for a program: the instructions, the request, and a request for tests.

Prompts about a failed attempt are in `prompts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from actbox.codeact.block_instructions import declared_tools
from actbox.codeact.blocks import joined
from actbox.codeact.final_answer import FINAL_ANSWER
from actbox.codeact.package_instructions import NO_PACKAGES, may_ask, packages_sentence
from actbox.core.labels import Label
from actbox.core.packages import PackagePolicy
from actbox.rtfs.prompt import PROMPT
from actbox.sandbox.languages import LANGUAGE_NAMES
from actbox.sandbox.traits import Traits
from actbox.tools import Toolset

from .input_schemas import FileSchema, schemas_text
from .prompts import listed, value_text
from .response import CodingResponse, suffix_of
from .task import Task

_MOST_EXAMPLES: Final = 10
_shown: Final = partial(value_text, most=1_000)

_OPENING: Final = (
    "You write {name} programs that solve tasks. Each reply is one whole program, which is then run in a sandbox and"
    " checked. Nobody answers questions: where the task leaves something open, choose what is most likely meant."
)
_BY_SCHEMA: Final = (
    "Answer with one JSON object of the given schema, and leave what you do not need empty. If you see no schema,"
    " answer with the program in one fenced ```{language} block."
)
"""A server that refuses schemas gets the same words without one."""
_BY_BLOCKS: Final = (
    "Answer with the program in one fenced ```{language} block. Of several files each has a block of its own, with its"
    " path after the language, as in ```{language} {path}. Name packages in a ```requirements block, one a line."
)
_RUNS_ALONE: Final = "The program starts by itself, or you name the call that starts it. It has no keyboard."
_FILES: Final = (
    "Input files are below input/, which is read-only. What you write below output/ is kept; other files are not. The"
    " working directory has both."
)
_VALUE: Final = "The value of the program's last expression is its answer"
_FINAL: Final = f", or what it passes to {FINAL_ANSWER}(value)"
_FIGURES: Final = "Write figures to files below output/; nobody sees a window."

_TESTS: Final = (
    "Write tests for a program that solves the task below. You do not see the program. Answer with one fenced"
    " ```python block, a module for pytest. The program has run already: what it wrote is below output/, the input"
    " files are below input/, its answer is in answer.json, and what it printed in stdout.txt. Its functions can be"
    " imported from the module `solution`, if the task names them. Test only what the task demands, and compute what is"
    " right from the inputs. Each test must fail for a program that does nothing."
)


def instructions(
    toolset: Toolset,
    traits: Traits,
    *,
    language: str = "python",
    guidance: str = "",
    by_schema: bool = False,
    packages: PackagePolicy | None = None,
) -> str:
    """Return the system text for a model that writes programs.

    `guidance` comes first, such as the system prompt of a profile. `by_schema`: the model has structured output.
    `packages` are the sandbox's rules. A language without an engine gets the same text without words on tools.
    """
    name = LANGUAGE_NAMES.get(language, language)
    how = (_BY_SCHEMA if by_schema else _BY_BLOCKS).format(language=language, path=f"app/main{suffix_of(language)}")
    value = _VALUE + (_FINAL if FINAL_ANSWER in toolset.names else "") + "."
    lines = [
        how,
        _RUNS_ALONE if language != "rtfs" else "",
        _FILES if traits.files else "",
        value if language in LANGUAGE_NAMES else "",
        f"Network: {traits.network}.",
        _about_packages(packages, language, toolset),
        _FIGURES if language == "python" and traits.files else "",
    ]
    return joined(
        guidance.strip(),
        _OPENING.format(name=name),
        "\n".join(f"- {line}" for line in lines if line),
        PROMPT.rstrip() if language == "rtfs" else "",
        declared_tools(toolset, language) if language in LANGUAGE_NAMES else "",
    )


def first_request(task: Task, schemas: Iterable[FileSchema] = (), *, cleared: Label | None = None) -> str:
    """Return the request for a task's first program, with the schemas of its input files.

    `cleared` is the highest label that the model may read, `None` for any; nothing of a file above it is in the text.
    Raises `InvalidValue` if the task's own words are above it.
    """
    task.check_cleared(cleared)
    found = {one.name: one for one in schemas}
    named = [found.get(name) or FileSchema(name, size=len(one.data)) for name, one in task.files.items()]
    named += [found.get(name) or FileSchema(name, "missing", note=text) for name, text in task.declared.items()]
    files = schemas_text(named, cleared)
    values = [f"{name} = {_shown(value)}" for name, value in task.values.items()]
    examples = [one for one in task.examples if not one.is_placeholder]
    shown = [f"{_shown(one.input)} gives {_shown(one.expected_output)}" for one in examples[:_MOST_EXAMPLES]]
    wanted = [f"the file output/{name}" for name in task.outputs]
    return joined(
        task.goal.strip(),
        task.context.strip(),
        f"Input files, below input/:\n{files}" if files else "",
        listed("Variables that the program has already:", values),
        listed("Required of the outcome:", [*wanted, *task.output_requirements]),
        listed("Constraints:", _constraints(task)),
        listed("Examples of input and expected output:", shown),
    )


def request_for_tests(task: Task, schemas: Iterable[FileSchema] = (), *, cleared: Label | None = None) -> str:
    """Return the request for tests of a task, to a model that has not seen the program."""
    return joined(_TESTS, first_request(task, schemas, cleared=cleared))


def without_program(response: CodingResponse, language: str) -> str:
    """Return what a model reads about a reply without a program: what the reply was, and how to answer."""
    why = "; ".join(response.noted) or "the answer had no program"
    return f"{why[:1].upper()}{why[1:]}. Send one whole program, in one fenced ```{language} block."


def _constraints(task: Task) -> list[str]:
    bounds = task.constraints
    return [
        line
        for line in (
            "" if bounds.max_lines is None else f"at most {bounds.max_lines} lines of code",
            "the standard library alone, no other packages" if not bounds.dependencies_allowed else "",
            ""
            if bounds.max_dependencies is None or not bounds.dependencies_allowed
            else f"at most {bounds.max_dependencies} packages beside the standard library",
            "" if bounds.timeout_ms is None else f"it must end within {bounds.timeout_ms} ms",
        )
        if line
    ]


def _about_packages(packages: PackagePolicy | None, language: str, toolset: Toolset) -> str:
    if language == "rtfs":
        return ""
    if packages is None:
        return NO_PACKAGES if language == "python" else ""
    return packages_sentence(packages, language, by_argument=True, may_ask=may_ask(packages, toolset))
