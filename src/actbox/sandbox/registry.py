"""Every engine there is: what it runs, and the module that has it, which is imported when the engine is wanted.

An engine's module has two functions. `check()` says whether the engine works on this machine, without running anybody's
program; `open_engine(policy, upstream, **options)` returns a sandbox that has not started. `options` are the engine's
own, keyword-only and with defaults; its signature says which there are.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy

from .contract import Sandbox
from .traits import EngineCheck, Python

if TYPE_CHECKING:
    from .egress.upstream import Upstream


# What the standard library has on POSIX systems only.
_OF_POSIX: Final = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "termios"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One row of the table of engines."""

    name: str
    languages: tuple[str, ...]
    """The first is what a plain text is taken for."""
    python: Python
    isolates: bool = True
    """Whether it is an isolation at all; one that is not is opened only with `allow_unisolated=True`."""
    module: str
    by_name_only: bool = False
    """Whether `auto` leaves it alone, whatever it runs."""

    def check(self) -> EngineCheck:
        """Try the engine on this machine."""
        try:
            module = self._imported()
        except ModuleNotFoundError as error:
            if error.name not in _OF_POSIX:
                raise
            reason = f"it needs what this system has not: {error.name}"
            advice = "Use Linux or macOS, or another engine."
            return EngineCheck(engine=self.name, works=False, reason=reason, advice=advice)
        found: EngineCheck = module.check()
        return found

    def options(self) -> list[str]:
        """Return the names of the engine's own options."""
        return [
            name
            for name, parameter in inspect.signature(self._imported().open_engine).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise `InvalidValue` for options that the engine does not have."""
        known = self.options() if options else []
        if unknown := sorted(set(options) - set(known)):
            there_are = f"it has: {', '.join(known)}" if known else "it has none of its own"
            raise InvalidValue(f"the {self.name} engine has no option {unknown[0]!r}; {there_are}")

    def open(self, policy: Policy, upstream: Upstream | None, options: Mapping[str, Any]) -> Sandbox:
        """Return a sandbox. Raises `InvalidValue` for options that the engine does not have."""
        self.check_options(options)
        sandbox: Sandbox = self._imported().open_engine(policy, upstream, **options)
        return sandbox

    def _imported(self) -> ModuleType:
        return import_module(f"actbox.sandbox.engines.{self.module}")


TABLE: Final[Mapping[str, Engine]] = {
    engine.name: engine
    for engine in (
        # Those of full CPython, strongest first: the order in which `auto` tries them.
        Engine(name="linux", languages=("python",), python="full", module="linux"),
        Engine(name="container", languages=("python",), python="full", module="container"),
        Engine(name="ssh", languages=("python",), python="full", isolates=False, module="ssh"),
        Engine(name="process", languages=("python",), python="full", isolates=False, module="process"),
        # The others are opened by name only.
        Engine(name="wasm", languages=("python",), python="standard library", module="wasm"),
        Engine(name="monty", languages=("python",), python="subset", module="monty"),
        Engine(name="node", languages=("javascript", "typescript"), python="none", module="node"),
        Engine(name="hyperlight", languages=("python", "javascript"), python="core", module="hyperlight"),
        Engine(
            name="agentcore",
            languages=("python", "javascript", "typescript"),
            python="full",
            module="agentcore",
            by_name_only=True,
        ),
        Engine(name="rtfs", languages=("rtfs",), python="none", module="rtfs"),
    )
}

# What people call an engine, or look for by another name.
_MEANT: Final[Mapping[str, str]] = {
    "docker": "docker is a client of the container engine: open_sandbox('container', client='docker')",
    "podman": "podman is a client of the container engine: open_sandbox('container', client='podman')",
    **dict.fromkeys(
        ("gvisor", "runsc"),
        "gVisor is a runtime of the container engine: open_sandbox('container', runtime='runsc')",
    ),
    **dict.fromkeys(("wasmtime", "webassembly"), "WebAssembly is the wasm engine: open_sandbox('wasm')"),
    **dict.fromkeys(
        ("deno", "bun", "javascript", "typescript"), "JavaScript is run by the node engine: open_sandbox('node')"
    ),
    "python": "Python is run by several engines: open_sandbox('auto') takes the strongest that works here",
    "local": "without isolation, on this machine: open_sandbox('process', allow_unisolated=True)",
}


def engine_meant(name: object) -> str:
    """Return a sentence on which engine somebody means by a name that none has, or nothing."""
    import difflib  # for a slip only

    plain = str(name).lower().removesuffix(".js")
    if plain in _MEANT:
        return _MEANT[plain]
    near = difflib.get_close_matches(plain, ("auto", *TABLE), n=1, cutoff=0.8)
    return f"the nearest name is that of open_sandbox('{near[0]}')" if near else ""


def no_such_engine(name: object, known: Iterable[str] = TABLE) -> InvalidValue:
    """Return the error for a name that no engine has; it says which there are, and which may be meant."""
    meant = engine_meant(name)
    return InvalidValue(f"there is no engine {name!r}; there are: {', '.join(known)}{meant and '. ' + meant}")
