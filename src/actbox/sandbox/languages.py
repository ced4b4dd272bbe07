"""Which engine runs which language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from actbox.core.errors import Unsupported

ENGINES_OF: Final[Mapping[str, tuple[str, ...]]] = {"python": ("linux", "process"), "rtfs": ("rtfs",)}
"""The engines of each language, strongest first."""

_NAMES: Final = {"python": "Python", "rtfs": "RTFS"}


def language_of(engine: str) -> str:
    """Return the language that an engine runs; `auto` runs Python."""
    return next((language for language, engines in ENGINES_OF.items() if engine in engines), "python")


def wrong_language(engine: str, language: str) -> Unsupported:
    """Return the error for a program in a language that an engine does not run; it names the engine that does."""
    own = language_of(engine)
    runs = f"the {engine} engine runs {_NAMES[own]}"
    if language not in ENGINES_OF:
        known = ", ".join(map(repr, ENGINES_OF))
        return Unsupported(f"{runs}, and no engine runs {language!r}; there are: {known}. A shell takes execute()")
    return Unsupported(
        f"{runs}; the {ENGINES_OF[language][0]} engine runs {_NAMES[language]}, which is what this Program says that"
        f" it is: language={language!r}"
    )
