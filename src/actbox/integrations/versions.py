"""Errors for a framework that is missing or has an unsupported version."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from contextlib import contextmanager

from actbox.core.errors import ActboxError


@contextmanager
def importing(package: str, *, extra: str) -> Iterator[None]:
    """Wrap the import of a framework's package. Raises `ActboxError` if it is missing or lacks a needed name."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("actbox"):
            raise
        if isinstance(error, ModuleNotFoundError) and "." not in (error.name or "."):
            raise ActboxError(f"{error.name} is not installed: pip install 'actbox[{extra}]'") from None
        there = importlib.metadata.version(package)
        raise ActboxError(
            f"{package} {there} does not fit this version of actbox, which needs {_needed(package)} ({error}):"
            f" pip install --upgrade 'actbox[{extra}]'"
        ) from error


def expect(owner: type, *names: str) -> None:
    """Raise `ImportError` if a class lacks one of these methods, which its package does not promise to keep."""
    for name in names:
        if not hasattr(owner, name):
            raise ImportError(f"{owner.__module__}.{owner.__qualname__} has no {name}", name=owner.__module__)


def _needed(package: str) -> str:
    for requirement in importlib.metadata.requires("actbox") or ():
        name, rest = re.match(r"([\w.-]+)([^;]*)", requirement, re.ASCII).groups()  # type: ignore[union-attr]
        if name == package:
            return f"{name}{rest.strip()}"
    return package
