"""The formats by name, loaded when they are first asked for; and which of them a document is of."""

from __future__ import annotations

import functools
import importlib

from .format import Format, Json

NAMES = (
    "anthropic",
    "openai-responses",
    "openai-assistants",
    "openai-chat",
    "gemini",
    "gemini-interactions",
    "azure-foundry",
    "bedrock-converse",
    "agentcore",
    "mcp",
    "extensions-ai",
    "agent-framework",
    "jupyter",
    "actbox",
)
"""Each is the module of that name, with `_` for `-`."""


@functools.cache
def find_format(name: str) -> Format:
    """Return a format by its name; `KeyError` lists those that there are."""
    if name not in NAMES:
        raise KeyError(f"no format {name!r}; there are: {', '.join(NAMES)}")
    module = importlib.import_module(f"{__package__}.{name.replace('-', '_')}")
    found: Format = module.FORMAT
    return found


def detect(document: Json) -> Format | None:
    """Return the format that a document is most likely of; `None` where it looks like none."""
    likely = [(find_format(name).looks_like(document), name) for name in NAMES]
    best, name = max(likely, key=lambda found: found[0])
    return find_format(name) if best > 0 else None


def detect_event(event: Json) -> Format | None:
    """Return the format of whose streams an object is an event; `None` where of none."""
    for name in NAMES:
        found = find_format(name)
        if found.is_event is not None and found.is_event(event):
            return found
    return None
