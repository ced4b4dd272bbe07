"""The languages of the cases' programs: for each a table that writes common statements and expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from actbox.sandbox.traits import Traits

from .javascript import JavaScript
from .python import Python
from .rtfs import Rtfs
from .words import Words

__all__ = ["JavaScript", "Python", "Rtfs", "Words", "words_of"]

_KNOWN: Final[Mapping[str, Callable[[Traits], Words]]] = {
    "python": lambda traits: Python(traits.python),
    "javascript": lambda traits: JavaScript(),
    "rtfs": lambda traits: Rtfs(),
}


def words_of(traits: Traits) -> Words:
    """Return the table of the first of an engine's languages that the kit can write.

    Raises `LookupError` where there is none.
    """
    for language in traits.languages:
        if language in _KNOWN:
            return _KNOWN[language](traits)
    known = ", ".join(_KNOWN)
    raise LookupError(f"the kit has programs in {known}, and {traits.engine} runs {', '.join(traits.languages)}")
