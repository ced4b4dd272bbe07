"""The table of engines: each engine's languages, and its module, which is imported only when the engine is used.

An engine's module has two functions. `check()` checks whether the engine works on this machine, without running a
caller's program; `open_engine(policy, upstream, **options)` returns a sandbox that has not started. `options` are the
engine's own, keyword-only and with defaults; its signature lists them. The module of an engine that `begins` has a
third one, `begin(policy)`, described at `Engine.begin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from actbox.core.errors import InvalidValue
from actbox.core.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from actbox.core.policy import Policy

    from .contract import Sandbox
    from .egress.upstream import Upstream
    from .traits import EngineCheck, Python


# Modules of the standard library that exist on POSIX systems only.
_OF_POSIX: Final = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "termios"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One row of the table of engines."""

    name: str
    languages: tuple[str, ...]
    """The engine's languages; the first is the language of a program given as plain text."""
    python: Python
    isolates: bool = True
    """True if the engine isolates at all; one that does not opens only with `allow_unisolated=True`."""
    needs: str = ""
    """An example of the option without which the engine cannot be opened."""
    module: str
    has_environments: bool = False
    """True if programs see the named environments that were built for this machine."""
    runs_images: bool = False
    """True if an environment with an OCI image is that image here, and options may bring other packages."""
    by_name_only: bool = False
    """True if `auto` never chooses the engine."""
    begins: bool = False
    """True if the engine can begin its work before a sandbox is opened."""

    def begin(self, policy: Policy | None) -> object:
        """Start what sandboxes of a policy need first, without waiting for it; `None` is the default policy.

        It ends soon if nothing refers to the returned object, unless a sandbox has been opened meanwhile.
        """
        return self._imported().begin(policy) if self.begins else None

    def check(self) -> EngineCheck:
        """Check the engine on this machine."""
        from .run_slots import VARIABLE, slots
        from .traits import EngineCheck

        try:
            slots()
        except InvalidValue as error:  # with an invalid setting no engine can run programs
            advice = f"Set {VARIABLE} to how many programs may run at once, such as 64, or unset it."
            return EngineCheck(engine=self.name, works=False, reason=str(error), advice=advice)
        try:
            found: EngineCheck = self._imported().check()
        except ModuleNotFoundError as error:
            if error.name not in _OF_POSIX:
                raise
            reason = f"it needs the module {error.name}, which this system does not have"
            advice = "Use Linux or macOS, or another engine."
            return EngineCheck(engine=self.name, works=False, reason=reason, advice=advice)
        return found

    def isolates_nothing(self) -> str:
        """Return the error message for opening an engine that isolates nothing, with the call that opens it anyway."""
        call = ", ".join(filter(None, [repr(self.name), self.needs, "allow_unisolated=True"]))
        return (
            f"the {self.name} engine isolates nothing: programs may do whatever their account may. If you accept that,"
            f" use open_sandbox({call})"
        )

    def options(self) -> list[str]:
        """Return the names of the engine's own options."""
        import inspect

        return [
            name
            for name, parameter in inspect.signature(self._imported().open_engine).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise `InvalidValue` for an option that the engine does not have."""
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
        # The full CPython engines, strongest first: the order in which `auto` tries them.
        Engine(name="linux", languages=("python",), python="full", module="linux", has_environments=True, begins=True),
        Engine(
            name="container",
            languages=("python",),
            python="full",
            module="container",
            has_environments=True,
            runs_images=True,
        ),
        Engine(
            name="ssh", languages=("python",), python="full", isolates=False, module="ssh", needs="host='user@host'"
        ),
        Engine(name="process", languages=("python",), python="full", isolates=False, module="process"),
        # The others are opened by name only.
        Engine(name="wasm", languages=("python",), python="standard library", module="wasm"),
        Engine(name="monty", languages=("python",), python="subset", module="monty"),
        Engine(
            name="node",
            languages=("javascript", "typescript"),
            python="none",
            module="node",
            has_environments=True,
        ),
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

# Other names that people use for an engine.
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
    """Return a sentence on the engine that an unknown name probably means, or ""."""
    import difflib  # needed for a misspelled name only

    plain = str(name).lower().removesuffix(".js")
    if plain in _MEANT:
        return _MEANT[plain]
    near = difflib.get_close_matches(plain, ("auto", *TABLE), n=1, cutoff=0.8)
    return f"the nearest name is that of open_sandbox('{near[0]}')" if near else ""


def no_such_engine(name: object, known: Iterable[str] = TABLE) -> InvalidValue:
    """Return the error for an unknown engine name, listing the known ones and the one that is probably meant."""
    meant = engine_meant(name)
    return InvalidValue(f"there is no engine {name!r}; there are: {', '.join(known)}{meant and '. ' + meant}")
