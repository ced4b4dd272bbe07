"""The functions that render results and messages. The package sets them, because `core` renders nothing itself."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than the rest of `import actbox`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

as_text: Callable[[Any], str] = repr
"""Renders a result for `str`."""
in_notebooks: Callable[[Any], dict[str, str]] = lambda shown: {}  # noqa: E731
"""Renders a result, a message or a transcript for notebooks, as text by media type."""
