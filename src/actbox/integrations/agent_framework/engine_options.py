"""Keyword arguments for single engines, in addition to those that all engines take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypedDict

from actbox.core.errors import InvalidValue
from actbox.core.limits import Limits

from .surface import ProviderOptions

_MIB = 2**20


class HyperlightGuest(TypedDict, total=False):
    """The guest in Hyperlight's virtual machine: a backend, a module by name or path, and memory as `"25Mi"`."""

    backend: str
    module: str | None
    module_path: str | None
    heap_size: str | None
    stack_size: str | None


class MontyGuest(TypedDict, total=False):
    """The type check of programs before they run: against their tools and your own declarations."""

    type_check: bool
    type_check_stubs: str


_HYPERLIGHT_ABOUT: Final = {
    "wasm": (
        "The program is Python 3.14 with a part of the standard library: abc, array, ast, bisect, cmath, collections,"
        " contextvars, copy, dataclasses, datetime, enum, functools, inspect, io, itertools, json, math, operator, os,"
        " random, re, struct, sys, time, typing, unicodedata, zlib. There are no packages, no threads and no"
        " processes. There is no `await`. Hosts that are allowed are reached by `http_request(url, method='GET',"
        " headers=None, body=None)`, which returns a dict with `status`, `headers`, `text` and `content` (bytes)."
    ),
    "javascript": (
        "The program is JavaScript, without Node's modules and without packages. There are console, setTimeout, and"
        " files below /workspace: files.read(path), files.readBytes(path), files.write(path, data), files.list(path),"
        " files.makeDir(path), files.remove(path). Hosts that are allowed are reached by `await http_request(url,"
        " method, headers, body)`, which returns an object with `status`, `headers`, `text` and `content` (bytes)."
    ),
}


def hyperlight_options(backend: str, options: ProviderOptions) -> ProviderOptions:
    """Return the options with the language's description for the model, unless `about` is given."""
    about = _HYPERLIGHT_ABOUT.get(backend)
    if about is None:
        return options
    return {"about": about, "language": "javascript" if backend == "javascript" else "python", **options}


_NO_PACKAGES: Final = " There are no packages of npm."
NODE_ABOUT: Final = (
    "The program is JavaScript for Node, with Node's own modules, `import` and `require`, and `await` at the top level."
    f" The value of its last expression comes back.{_NO_PACKAGES}"
)


def node_options(options: ProviderOptions) -> ProviderOptions:
    """Return the options with Node's description for the model, unless `about` is given."""
    about = NODE_ABOUT if options.get("packages") is None else NODE_ABOUT.removesuffix(_NO_PACKAGES)
    return {"about": about, "language": "javascript", **options}


MONTY_ABOUT: Final = (
    "The program is Python, of which there is a part. There is no inheritance (and so no exceptions of your own), no"
    " `yield`, no `del`, no star import, no sys.exit() and no package. Of the standard library there are: asyncio"
    " (run, gather, sleep), base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib,"
    " itertools, json, math, os, pathlib, random, re, sys, time, tomllib, typing. Hosts that are allowed are reached by"
    ' `http_request(url, method="GET", headers=None, body=None)`, called like the other functions; it returns a dict'
    " with `status`, `headers`, `text` and `content` (bytes)."
)
"""The description of the language for the model, unless `about` is given."""

_MONTY_LIMITS: Final = {
    "max_duration_secs": "wall_seconds",
    "max_feed_duration_secs": "cpu_seconds",
    "max_memory": "memory_mib",
    "max_suspensions": "tool_calls",
}


def monty_options(given: Mapping[str, Any] | None, options: ProviderOptions) -> ProviderOptions:
    """Return the options with Monty's description for the model, and with limits by Monty's own names.

    Raises `InvalidValue` for a limit that cannot be enforced.
    """
    limits = options.get("limits", Limits())
    for name, value in (given or {}).items():
        if name not in _MONTY_LIMITS:
            raise InvalidValue(
                f"resource_limits has {name!r}, which cannot be kept; there are {', '.join(_MONTY_LIMITS)}, and all"
                " others in limits=Limits(…)"
            )
        limits = replace(limits, **{_MONTY_LIMITS[name]: _mib(value) if name == "max_memory" else value})
    return {"about": MONTY_ABOUT, **options, "limits": limits}


def _mib(count: Any) -> Any:
    return max(1, math.ceil(count / _MIB)) if isinstance(count, (int, float)) and math.isfinite(count) else count
