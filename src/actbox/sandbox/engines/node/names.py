"""Names that mean something to JavaScript already."""

from __future__ import annotations

from typing import Final

_RESERVED: Final = """
await break case catch class const continue debugger default delete do else enum export extends false finally
for function if implements import in instanceof interface let new null package private protected public return
static super switch this throw true try typeof var void while with yield
"""
RESERVED: Final = frozenset(_RESERVED.split())
"""Words that no variable and no function can be called by."""
