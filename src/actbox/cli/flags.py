"""From the library's words to the command line's: what a sentence tells a caller in Python to write, said as flags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_WORDS: Final = {
    "allow_unisolated=True": "--allow-unisolated",
    "Limits.memory_mib": "--memory",
    "Limits.wall_seconds": "--timeout",
    "Policy.domains": "--domain",
    "Policy.mounts": "--mount",
    "Policy.preload": "--preload",
}
_OPENING: Final = re.compile(r"open_sandbox\('(\w+)'((?:, \w+=(?:'[^']*'|True))*)\)")
_LANGUAGE: Final = re.compile(r"\blanguage='(\w+)'")
_KEYWORD: Final = re.compile(r"\b(\w+)='([^']*)'")


def in_flags(sentence: str, options: Sequence[str] = ()) -> str:
    """Return a sentence of the library as one about a command line. `options` are the engine's own, by name."""
    sentence = _OPENING.sub(lambda found: f"--sandbox {found[1]}{_flags(found[2])}", sentence)
    sentence = _LANGUAGE.sub(r"--language \1", sentence)
    sentence = _KEYWORD.sub(lambda found: _option(found) if found[1] in options else found[0], sentence)
    for word, flag in _WORDS.items():
        sentence = sentence.replace(word, flag)
    return sentence


def _flags(keywords: str) -> str:
    return _KEYWORD.sub(_option, keywords).replace(",", "")


def _option(keyword: re.Match[str]) -> str:
    return f"--option {keyword[1]}={keyword[2]}"
