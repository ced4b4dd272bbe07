"""The languages of a sandbox, by the names that Strands' callers give them: those of interpreters."""

from __future__ import annotations

from typing import Final

from actbox.sandbox.languages import wrong_language
from actbox.sandbox.traits import Traits

_LANGUAGES: Final = {
    "python": "python",
    "python3": "python",
    "py": "python",
    "javascript": "javascript",
    "js": "javascript",
    "node": "javascript",
    "nodejs": "javascript",
    "typescript": "typescript",
    "ts": "typescript",
    "rtfs": "rtfs",
}
_SHELLS: Final = {"sh": "sh", "shell": "sh", "bash": "bash", "dash": "dash", "zsh": "zsh"}


def language_of(name: str, traits: Traits) -> str:
    """Return the language that a name means. Raises `Unsupported` where the engine does not run it."""
    language = _LANGUAGES.get(str(name).lower(), str(name))
    if language not in traits.languages:
        raise wrong_language(traits.engine, language, traits.languages)
    return language


def shell_of(name: str, traits: Traits) -> str | None:
    """Return the shell that a name means, `None` where it means none or the engine runs no commands."""
    return _SHELLS.get(str(name).lower()) if traits.commands else None
