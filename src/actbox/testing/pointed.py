"""From a few words on a command line to a sandbox: an engine's name, or MODULE:FUNCTION."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox

Open = Callable[[Policy], Awaitable[Sandbox]]


def opener(target: str) -> Open:
    """Return what opens the sandbox that is named.

    `target` is one of `actbox.ENGINES`, or `my.module:open_box`, a function or class that is given a `Policy` and
    returns a sandbox that has not started; it may be asynchronous. Raises `InvalidValue` where there is none such.
    """
    if target in ENGINES:
        return _named(target)
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        raise InvalidValue(f"{target!r} is neither an engine ({', '.join(ENGINES)}) nor MODULE:FUNCTION")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidValue(f"{module_name} cannot be imported: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidValue(f"{module_name} has no {name}")
        found = getattr(found, part)
    return _checked(target, found)


def _named(engine: str) -> Open:
    async def open_named(policy: Policy) -> Sandbox:
        return open_sandbox(engine, policy=policy, allow_unisolated=True)

    return open_named


def _checked(target: str, make: Callable[[Policy], object]) -> Open:
    async def open_checked(policy: Policy) -> Sandbox:
        made = make(policy)
        if inspect.isawaitable(made):
            made = await made
        if not isinstance(made, Sandbox):
            raise InvalidValue(f"{target} returns a {type(made).__name__}, and no Sandbox")
        return made

    return open_checked
