"""`decide`: whether code is written directly, by a coding agent, or as RTFS, from an intent that the model fills in.

`ask_intent` asks the model once: goal, requirements, language, inputs and outputs, and an estimate of the program.
`decide` compares that with a `DecisionTable`, whose defaults are the numbers of the specification (section 7.3), and
says why. It asks nobody and has no chance in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final, Literal

from actbox.codeact.blocks import only_block_of
from actbox.codeact.calls_as_text import MOST_CHARS, call_as_text
from actbox.codeact.model import ChatModel, ModelReply, SystemMessage, ToolSpec, UserMessage
from actbox.core.packages import normalized_name
from actbox.packages.import_names import in_standard_library

from .dependencies import NODE_MODULES
from .response import TEXT_SCHEMA, json_in, language_called, schema_field

Way = Literal["direct", "delegated", "rtfs", "returned"]

_MOST_TEXT: Final = 2_000
_MOST_ITEMS: Final = 100
_DISTRIBUTION: Final = re.compile(r"(?:node:)?@?[\w.-]+(?:/[\w.-]+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A task as the model understands it, before any code: specification, section 3, step 1.

    `required` are the abilities that it needs, such as `data processing`. `language` is "" if any will do. `inputs` and
    `outputs` are names of files or values. The rest is the model's estimate of the program: its `lines`, `None` if it
    gave none; the packages that it needs; whether it is likely to fail at first; the quality asked for; and whether it
    is `pure`, a computation on given values without files, packages, network or pictures.
    """

    goal: str
    required: tuple[str, ...] = ()
    language: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    lines: int | None = None
    dependencies: tuple[str, ...] = ()
    error_likelihood: Literal["low", "high"] = "low"
    quality: Literal["good_enough", "production"] = "good_enough"
    pure: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], goal: str = "") -> Intent:
        """Return the intent in what a model wrote. A field that cannot be read has its default; `goal` is that of goal.

        Models write a list of one as text, a number as text, and a range in place of a number: its end counts.
        """
        return cls(
            goal=_text(given.get("goal")) or goal,
            required=_texts(given.get("required")),
            language=_language(_text(given.get("language"))),
            inputs=_texts(given.get("inputs")),
            outputs=_texts(given.get("outputs")),
            lines=_number(given.get("lines")),
            dependencies=_texts(given.get("dependencies")),
            error_likelihood="high" if "high" in _text(given.get("error_likelihood")).lower() else "low",
            quality="production" if "production" in _text(given.get("quality")).lower() else "good_enough",
            pure=_text(given.get("pure")).lower() == "true",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTable:
    """The limits of writing code directly; beyond any of them a coding agent writes it.

    The defaults are those of the specification, section 7.3. `standard_packages` are those of its ready images and of
    its packages that need no approval (sections 5.2 and 5.4); any other package is unusual.
    """

    most_lines: int = 20
    most_dependencies: int = 2
    languages: Collection[str] = ("python", "javascript", "typescript")
    standard_packages: Collection[str] = (
        *("pandas", "numpy", "matplotlib", "seaborn", "scipy", "scikit-learn", "sklearn"),
        *("requests", "httpx", "beautifulsoup4", "bs4", "lxml", "pillow", "pil", "openpyxl", "xlrd", "pyyaml", "yaml"),
        *("jinja2", "axios", "cheerio", "lodash", "moment"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The way to the code of a task, its language, and the reasons.

    `direct`: the model itself writes it. `delegated`: a coding agent does. `rtfs`: the model writes RTFS, which needs
    no sandbox. `returned`: it is written, and returned without a run, because no engine runs its language.
    """

    way: Way
    language: str
    reasons: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The reasons as one text."""
        return "; ".join(self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedIntent:
    """An intent and the reply that it is from. `noted` says why the model's words were not used, else it is empty."""

    intent: Intent
    reply: ModelReply
    noted: str = ""


_FIELDS: Final = {
    "goal": schema_field("string", "The task in one sentence."),
    "required": schema_field("array", "What it needs, such as 'data processing', 'visualization'.", items=TEXT_SCHEMA),
    "language": schema_field("string", "The best language: python, javascript, rust, …; rtfs for a pure computation."),
    "inputs": schema_field("array", "Files or values to read.", items=TEXT_SCHEMA),
    "outputs": schema_field("array", "Files to write.", items=TEXT_SCHEMA),
    "lines": schema_field("integer", "About how many lines the program has."),
    "dependencies": schema_field("array", "Packages that it needs beyond the standard library.", items=TEXT_SCHEMA),
    "error_likelihood": schema_field(
        "string", "high if the first version will probably need corrections.", enum=["low", "high"]
    ),
    "quality": schema_field(
        "string", "production only if the task asks for code to keep.", enum=["good_enough", "production"]
    ),
    "pure": schema_field("boolean", "True for a computation on given values: no file, package, network or picture."),
}
INTENT: Final = ToolSpec(
    "intent",
    "Say what the task needs, before any code is written.",
    {"type": "object", "properties": _FIELDS, "required": ["goal", "language", "lines"]},
)
"""The tool by which a model says its intent."""

_INSTRUCTIONS: Final = (
    "You plan a programming task and do not solve it yet. Call the tool `intent` once. If you cannot call tools, "
    "answer with the JSON object of its arguments (goal, required, language, inputs, outputs, lines, dependencies, "
    "error_likelihood, quality, pure) and nothing else."
)


async def ask_intent(
    model: ChatModel,
    goal: str,
    *,
    language: str = "",
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    context: str = "",
) -> AskedIntent:
    """Ask a model for the intent of a task, with one call. `language`, `inputs` and `outputs` are those of the caller.

    The caller's word holds against the model's; the language `auto` leaves it to the model. If the reply has no intent,
    the intent is the caller's own. Exceptions of the model are raised.
    """
    language = _language(language)
    given = {"Language": language, "Inputs": ", ".join(inputs), "Outputs": ", ".join(outputs), "Context": context}
    lines = [f"Task: {goal}", *(f"{name}: {value}" for name, value in given.items() if value)]
    reply = await model.complete([SystemMessage(_INSTRUCTIONS), UserMessage("\n".join(lines))], [INTENT])
    found = next(_objects(reply), None)
    said = Intent.of(found or {}, goal)
    intent = replace(
        said,
        language=language or said.language,
        inputs=tuple(inputs) or said.inputs,
        outputs=tuple(outputs) or said.outputs,
    )
    return AskedIntent(intent=intent, reply=reply, noted="" if found else "the model gave no intent")


def decide(
    intent: Intent,
    *,
    table: DecisionTable | None = None,
    runs: Collection[str] = ("python", "javascript", "typescript", "rtfs"),
    has_coding_agent: bool = True,
) -> Decision:
    """Return the way to the code of a task. `runs` are the languages that can run here.

    RTFS is for a pure computation, if the intent says RTFS or no language. A coding agent writes what is beyond any
    limit of the table.
    """
    table = table or DecisionTable()
    language, why_not = intent.language, ""
    if language == "rtfs" or (intent.pure and not language):
        why_not = _beyond_rtfs(intent, table, runs)
        if not why_not:
            return Decision(way="rtfs", language="rtfs", reasons=("it is a pure computation on the given values",))
        language = ""
    language = language or "python"
    notes = (f"RTFS cannot do it: {why_not}",) if why_not else ()
    rows = list(_rows(intent, language, table))
    beyond = tuple(reason for is_beyond, reason in rows if is_beyond)
    if language not in runs:
        unrun = f"no engine here runs {language}, so the code is returned without a run"
        return Decision(way="returned", language=language, reasons=(*notes, unrun, *beyond))
    if beyond and has_coding_agent:
        return Decision(way="delegated", language=language, reasons=(*notes, *beyond))
    if beyond:
        notes = (*notes, "there is no coding agent to delegate to")
    return Decision(way="direct", language=language, reasons=(*notes, *(beyond or [reason for _, reason in rows])))


def _rows(intent: Intent, language: str, table: DecisionTable) -> Iterator[tuple[bool, str]]:
    """Yield for each row of the table whether the intent is beyond its limit, and a reason."""
    if intent.lines is not None:
        if intent.lines > table.most_lines:
            yield True, f"about {intent.lines} lines are more than {table.most_lines}"
        else:
            yield False, f"about {intent.lines} lines are at most {table.most_lines}"
    packages = _package_names(intent.dependencies)
    unusual = [name for name in packages if name not in map(normalized_name, table.standard_packages)]
    if len(packages) > table.most_dependencies:
        yield True, f"{len(packages)} dependencies are more than {table.most_dependencies}"
    elif unusual:
        yield True, f"unusual dependencies: {', '.join(unusual)}"
    else:
        yield False, f"dependencies: {', '.join(packages)}, all standard" if packages else "no dependencies"
    if language in table.languages:
        yield False, f"the language is {language}"
    else:
        yield True, f"the language {language} is for a specialist"
    if intent.error_likelihood == "high":
        yield True, "errors are likely, so that it needs iteration"
    else:
        yield False, "errors are unlikely"
    if intent.quality == "production":
        yield True, "production quality is asked for"
    else:
        yield False, "good enough is asked for"


def _beyond_rtfs(intent: Intent, table: DecisionTable, runs: Collection[str]) -> str:
    """Return what keeps an intent from RTFS, "" if nothing does."""
    if "rtfs" not in runs:
        return "no engine here runs it"
    if intent.outputs:
        return f"it writes {', '.join(intent.outputs)}"
    if files := [name for name in intent.inputs if PurePath(name).suffix]:
        return f"it reads {', '.join(files)}"
    if packages := _package_names(intent.dependencies):
        return f"it needs {', '.join(packages)}"
    if intent.lines is not None and intent.lines > table.most_lines:
        return f"about {intent.lines} lines are more than {table.most_lines}"
    return ""


def _package_names(dependencies: Sequence[str]) -> list[str]:
    """Return the distinct packages of requirements, without modules of Python's and Node's standard library."""
    found = (_DISTRIBUTION.match(one.strip()) for one in dependencies)
    names = dict.fromkeys(match[0].removeprefix("node:") for match in found if match)
    return [normalized_name(name) for name in names if not in_standard_library(name) and name not in NODE_MODULES]


def _objects(reply: ModelReply) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a reply that can be an intent: a tool call's arguments, or the text."""
    calls = [call for call in reply.tool_calls if call.name == INTENT.name]
    if not calls and (as_text := call_as_text(reply.text)) is not None:
        calls = [as_text]
    texts: list[Any] = [call.arguments for call in calls]
    if len(reply.text) <= MOST_CHARS:
        texts += [reply.text, only_block_of(reply.text)]
    for found in texts:
        if isinstance(found, str):
            found = json_in(found)
        if isinstance(found, Mapping) and found.keys() & _FIELDS.keys():
            yield found


def _language(name: str) -> str:
    """Return the language that people call by a name, "" for `auto`."""
    called = language_called(name)
    return "" if called == "auto" else called


def _text(value: object) -> str:
    return str(value).strip()[:_MOST_TEXT] if isinstance(value, str | bool | int | float) else ""


def _texts(value: object) -> tuple[str, ...]:
    """Return a list of texts; an object in it stands for its name."""
    listed = value if isinstance(value, list | tuple) else [value]
    names = (one.get("name") if isinstance(one, Mapping) else one for one in listed[:_MOST_ITEMS])
    return tuple(text for name in names if (text := _text(name)))


def _number(value: object) -> int | None:
    """Return a whole number: the last one in a text such as `10-15`."""
    digits = re.findall(r"\d{1,9}", _text(value).partition(".")[0])
    return int(digits[-1]) if digits else None
