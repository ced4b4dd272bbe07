"""Instructions for a model that acts only by programs in fenced blocks, in any language of its sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from actbox.core.errors import Unsupported
from actbox.core.packages import PackagePolicy
from actbox.rtfs.prompt import PROMPT
from actbox.sandbox.traits import Traits
from actbox.tools import Toolset, stubs, typescript_declarations

from .blocks import fenced, joined
from .final_answer import FINAL_ANSWER
from .instructions import HOW_TOOLS_ARE_CALLED, HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT, LIKE_THE_OTHERS
from .package_instructions import NO_PACKAGES, may_ask, packages_sentence


@dataclass(frozen=True, slots=True)
class _Language:
    """The wording for a language: `how` is how programs call tools, `answer` the call of `final_answer`."""

    name: str
    how: str
    answer: str
    declare: Callable[[Toolset], str]


def _in_python(toolset: Toolset) -> str:
    return fenced(stubs(toolset, awaitable=False).rstrip(), "python")


def _in_typescript(toolset: Toolset) -> str:
    return fenced(typescript_declarations(toolset).rstrip(), "typescript")


_AWAITED = f"await {FINAL_ANSWER}(value)"
_BY_KEYWORD = "Each is called as `(call :name {:parameter value})`. As Python would declare them:"
_LANGUAGES: Final = {
    "python": _Language("Python", HOW_TOOLS_ARE_CALLED, f"{FINAL_ANSWER}(value)", _in_python),
    "javascript": _Language("JavaScript", HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT, _AWAITED, _in_typescript),
    "typescript": _Language("TypeScript", HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT, _AWAITED, _in_typescript),
    "rtfs": _Language("RTFS", _BY_KEYWORD, f"(call :{FINAL_ANSWER} {{:value value}})", _in_python),
}

_OPENING = (
    "You solve tasks by writing {name} programs, which run in a sandbox. To run one, answer with it in a fenced"
    " ```{language} block; several such blocks in one answer are one program. You then read what it printed, the value"
    " of its last expression, its error and its files. Blocks of other languages, such as ```text, are not run, and"
    " there is no tool that you could call without a program."
)
_MEND_REST = "If one fails, read the error and send what is left to do; what it did before stays done."
_KEPT = (
    "All programs for one request share one interpreter: variables, functions and imports stay for the next program,"
    f" until you have answered. Those of earlier requests are gone; define again what you need of them. {_MEND_REST}"
)
_KEPT_ON = (
    "All programs share one interpreter, also with those of earlier requests: variables, functions and imports stay for"
    f" the next program. {_MEND_REST}"
)
_FRESH = (
    "Each program starts fresh: no variable of an earlier one is left. If one fails, read the error, correct the"
    " program, and send all of it again."
)
_FIGURES = "You are shown figures that are open when a program ends{pictures}."
_LONGER_FENCE = "A program that has ``` in it stands between longer fences, such as ````."


def block_instructions(
    toolset: Toolset,
    traits: Traits,
    *,
    language: str = "python",
    keeps_state: bool = False,
    keeps_on: bool = False,
    root: str = "/workspace",
    working_dir: str = "",
    guidance: str = "",
    packages: PackagePolicy | None = None,
) -> str:
    """Return the instructions for a model whose programs have these tools, `final_answer` among them.

    `keeps_state` is true if the programs for one request run in one session, and `keeps_on` if those for further
    requests run there too. `root` is `Sandbox.root`, or empty if it is not known yet; `working_dir` is the directory in
    which programs start, if it is another one. `guidance` is put before the text. `packages` are the sandbox's
    rules for packages. Raises `Unsupported` for an unknown language.
    """
    if language not in _LANGUAGES:
        raise Unsupported(f"no model is told here how to write {language!r}; there are: {', '.join(_LANGUAGES)}")
    spoken = _LANGUAGES[language]
    lines = [
        (_KEPT_ON if keeps_on else _KEPT) if keeps_state else _FRESH,
        _folders(root, working_dir) if traits.files else "",
        f"Network: {traits.network}.",
        _packages(traits, packages, language, toolset),
        _figures(root) if language == "python" and traits.files and traits.python == "full" else "",
        "" if language == "rtfs" else "Print only what you need to read.",
        _LONGER_FENCE,
        _ending(toolset, spoken),
    ]
    rules = "\n".join(f"- {line}" for line in lines if line)
    return joined(
        guidance.strip(),
        _OPENING.format(name=spoken.name, language=language),
        rules,
        PROMPT.rstrip() if language == "rtfs" else "",
        declared_tools(toolset, language),
    )


def declared_tools(toolset: Toolset, language: str) -> str:
    """Return the declarations of tools in a language, and how its programs call them; "" without tools."""
    if not len(toolset):
        return ""
    spoken = _LANGUAGES[language]
    return joined(f"Your programs can call these functions. {spoken.how}", spoken.declare(toolset))


def _folders(root: str, working_dir: str) -> str:
    if working_dir:
        return f"Programs start in {working_dir}." + (f" Files below {root} stay." if root else "")
    where = f"in {root}; files below it" if root else "in a directory of the sandbox; files in it"
    return f"Programs start {where} stay, and relative paths lead there."


def _figures(root: str) -> str:
    if not root:
        return _FIGURES.format(pictures="")
    # `/output` exists only if the workspace is `/workspace`.
    output = "/output" if root == "/workspace" else f"{root}/output"
    return _FIGURES.format(pictures=f", and pictures that it writes below {output}")


def _packages(traits: Traits, packages: PackagePolicy | None, language: str, toolset: Toolset) -> str:
    if packages is None:
        asked = NO_PACKAGES
    else:
        asked = packages_sentence(packages, language, by_argument=False, may_ask=may_ask(packages, toolset))
    if language != "python":
        return "" if packages is None else asked
    if traits.python == "full":
        return f"Full CPython. {asked}"
    there = f"Of Python there is: {traits.python}; packages: {traits.packages}."
    return there if packages is None else f"{there} {asked}"


def _ending(toolset: Toolset, spoken: _Language) -> str:
    if FINAL_ANSWER not in toolset.names:
        return "When you know the answer, answer in plain words without a program."
    return (
        f"When you know the answer, call {spoken.answer} in a program, {LIKE_THE_OTHERS} or answer in plain words"
        " without a program."
    )
