"""`actbox demo`: what it needs is looked for first, so that a missing package is a sentence and not a traceback."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from .engine import Opening
from .exits import UsageError
from .interrupt import Interrupted, run_interruptibly

# What the extra named first brings, for a demonstration with or without a model.
_NEEDS: Final = {"demo": ("pandas", "matplotlib", "vega_datasets"), "models": ("pydantic_ai",)}


def show_demo(model: str | None, folder: Path, opening: Opening) -> int:
    """Run the demonstration and return its exit code. Raises `UsageError` for a missing extra."""
    _require("demo")
    if model is not None:
        _require("models")
    from rich.console import Console

    from .demo import demo

    try:
        with opening.explained():
            return run_interruptibly(lambda: demo(model, folder, Console(), opening.open))
    except Interrupted as error:
        return error.exit_code


def _require(extra: str) -> None:
    missing = [name for name in _NEEDS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        sentence = f"this needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise UsageError(sentence, f"pip install 'actbox[{extra}]'")
