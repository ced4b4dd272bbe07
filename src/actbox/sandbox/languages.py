"""The languages of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from actbox.core.errors import Unsupported
from actbox.core.labels import PUBLIC
from actbox.core.program import Program

from .registry import TABLE
from .traits import WITH_PACKAGES, Traits

LANGUAGE_NAMES: Final = {"python": "Python", "rtfs": "RTFS", "javascript": "JavaScript", "typescript": "TypeScript"}

ENGINES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    language: engines
    for language in LANGUAGE_NAMES
    if (engines := tuple(engine.name for engine in TABLE.values() if language in engine.languages))
}
"""The engines of each language, strongest first; for Python, full CPython engines come first."""

FULL_CPYTHON: Final[tuple[str, ...]] = tuple(
    engine.name for engine in TABLE.values() if engine.python == "full" and not engine.by_name_only
)
"""The full CPython engines that `auto` chooses from, strongest first."""


def engine_instead(languages: tuple[str, ...]) -> str:
    """Return the strongest engine of the first of these languages, to recommend when an engine lacks a feature."""
    return ENGINES_OF.get(languages[0], FULL_CPYTHON)[0]


def cannot_fork(traits: Traits) -> Unsupported:
    """Return the error for a session that cannot be forked, with advice on one that can."""
    if traits.fork:
        return Unsupported("only a session that was opened with session(forkable=True) can be forked")
    can = "the linux and monty engines can" + ("" if "python" in traits.languages else ", which run Python")
    return Unsupported(f"the {traits.engine} engine cannot fork sessions; {can}")


def language_of(engine: str) -> str:
    """Return the language of a program given to an engine as plain text; for `auto` that is Python."""
    return TABLE[engine].languages[0] if engine in TABLE else "python"


def in_language(program: Program | str, traits: Traits) -> Program:
    """Return a program in a language that the engine runs. Raises `Unsupported`, naming an engine that runs it."""
    if not isinstance(program, Program):
        return Program(program, traits.languages[0])
    if program.language not in traits.languages:
        raise wrong_language(traits.engine, program.language, traits.languages)
    check_start(program, traits)
    return program


def check_start(program: Program, traits: Traits) -> None:
    """Raise `Unsupported` for a program with a directory, variables or dependencies that the engine cannot give it."""
    other = "node" if "javascript" in traits.languages else "linux"
    if program.dependencies and not traits.dependencies:
        others = "the node engine does" if "javascript" in traits.languages else f"{WITH_PACKAGES} do"
        raise Unsupported(f"the {traits.engine} engine installs no dependencies; {others}")
    if program.label is not PUBLIC and not traits.labels and program.label != PUBLIC:
        raise Unsupported(
            f"programs of the {traits.engine} engine carry no labels: leave out Program.label, or use the linux engine"
        )
    if (program.cwd or program.env) and not traits.cwd:
        raise Unsupported(
            f"programs of the {traits.engine} engine start in the working directory, with the variables of the policy:"
            f" leave out Program.cwd and Program.env; the {other} engine supports them"
        )


def wrong_language(engine: str, language: str, runs: tuple[str, ...] = ()) -> Unsupported:
    """Return the error for a program in a language that an engine does not run, naming an engine that does.

    `runs` are the languages of an engine that is not in the table.
    """
    languages = runs or TABLE[engine].languages
    own = f"the {engine} engine runs {' and '.join(LANGUAGE_NAMES.get(name, name) for name in languages)}"
    if language not in ENGINES_OF:
        known = ", ".join(map(repr, ENGINES_OF))
        return Unsupported(f"{own}, and no engine runs {language!r}; there are: {known}. A shell takes execute()")
    other = ENGINES_OF[language][0]
    return Unsupported(
        f"{own}; the {other} engine runs {LANGUAGE_NAMES[language]} (engine={other!r}), the language of this Program:"
        f" language={language!r}"
    )
