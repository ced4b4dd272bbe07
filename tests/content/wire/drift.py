"""Print block and event types that the installed SDKs have and no table of ours names.

    python -m tests.content.wire.drift

A type that is not named is no error: `read` keeps it as an `UnknownContent`. It may deserve to be read as more.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from tests.content.wire.sdk_types import SdkType

UNIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "anthropic": (
        "anthropic",
        (
            "anthropic.types:ContentBlock",
            "anthropic.types:RawMessageStreamEvent",
            "anthropic.types:RawContentBlockDelta",
            "anthropic.types.beta:BetaContentBlock",
            "anthropic.types.beta:BetaRawContentBlockDelta",
        ),
    ),
    "openai_responses": (
        "openai",
        ("openai.types.responses:ResponseOutputItem", "openai.types.responses:ResponseStreamEvent"),
    ),
    "gemini_interactions": ("google-genai", ("google.genai.interactions:Step",)),
    "mcp": ("mcp", ("mcp.types:ContentBlock",)),
}
"""For each module of a format: the package of its SDK, and its unions of blocks and events."""


def strings_in(module: str) -> Iterator[str]:
    """Yield all texts that a module, or the modules of a package, have in their source or their tables."""
    found = importlib.import_module(module)
    assert found.__file__ is not None
    with open(found.__file__) as file:
        nodes = ast.walk(ast.parse(file.read()))
    yield from (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for value in vars(found).values():
        if isinstance(value, (frozenset, tuple, dict)):
            yield from (each for each in value if isinstance(each, str))
    for inner in pkgutil.iter_modules(getattr(found, "__path__", ())):
        yield from strings_in(f"{module}.{inner.name}")


def drift() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each format, its SDK with the version, and the types that the format does not name."""
    for name, (package, unions) in UNIONS.items():
        known = set(strings_in(f"actbox.content.wire.{name}"))
        theirs: set[str] = set().union(*(SdkType(union).names() for union in unions))
        yield name, f"{package} {version(package)}", sorted(theirs - known)


def main() -> Any:
    """Print a line for each type that is not named."""
    for name, sdk, unnamed in drift():
        print(f"{name} ({sdk}): {len(unnamed)} types that no table names")
        for each in unnamed:
            print(f"  {each}")


if __name__ == "__main__":
    main()
