"""The sandbox that a command line names: an engine's name, or MODULE:FUNCTION."""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.opening import ENGINES, open_sandbox
from actbox.sandbox.registry import TABLE, engine_meant

Open = Callable[[Policy], Awaitable[Sandbox]]


def opener(target: str, options: Mapping[str, Any] | None = None) -> Open:
    """Return a function that opens the sandbox that `target` names.

    `target` is one of `actbox.ENGINES`, or `my.module:open_box`, a function or class that is given a `Policy` and
    returns a sandbox that has not started; it may be asynchronous. `options` are the engine's own, and keyword
    arguments of a function. Raises `InvalidValue` where there is none such.
    """
    options = options or {}
    if target in ENGINES:
        TABLE[target].check_options(options)
        return _named(target, options)
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        meant = engine_meant(target)
        raise InvalidValue(
            f"{target!r} is neither an engine ({', '.join(ENGINES)}) nor MODULE:FUNCTION{meant and '. ' + meant}"
        )
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidValue(f"{module_name} cannot be imported: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidValue(f"{module_name} has no {name}")
        found = getattr(found, part)
    return _checked(target, found, options)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the argument `--option NAME=VALUE` to a parser, as in `actbox run`; `options_from` of `actbox.cli` reads
    it.
    """
    about = "what the sandbox takes for itself, such as runtime=runsc for container; may be repeated"
    parser.add_argument("--option", metavar="NAME=VALUE", action="append", default=[], help=about)


def _named(engine: str, options: Mapping[str, Any]) -> Open:
    async def open_named(policy: Policy) -> Sandbox:
        return open_sandbox(engine, policy=policy, allow_unisolated=True, **options)

    return open_named


def _checked(target: str, make: Callable[..., object], options: Mapping[str, Any]) -> Open:
    async def open_checked(policy: Policy) -> Sandbox:
        made = make(policy, **options)
        if inspect.isawaitable(made):
            made = await made
        if not isinstance(made, Sandbox):
            raise InvalidValue(f"{target} returns a {type(made).__name__}, and no Sandbox")
        return made

    return open_checked
