"""The engine's options: which guest runs in a virtual machine, and its memory; validated before anything starts."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.limits import Limits
from actbox.sandbox.traits import NotInstalled

ADVICE: Final = "pip install 'actbox[hyperlight]'"

PACKAGED_GUEST: Final = "python_guest.path"
"""The module of the package hyperlight-sandbox-python-guest."""
_MIB = 2**20
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"([0-9]+) ?(Ki|Mi|Gi|)B?")
# The least memory with which the packaged guest starts, by the library's own errors, and compiles our code (2 MiB).
LEAST_HEAP, LEAST_STACK = 25 * _MIB, 37 * _MIB
# A program can use the stack's memory for its values, less some 32 MiB. More memory makes each run slower
# (benchmarks/hyperlight.py).
USUAL_HEAP, USUAL_STACK = 25 * _MIB, 96 * _MIB
_MOST = 64 * 2**30
_BACKENDS = {
    "wasm": ("wasm", "hyperlight_sandbox_backend_wasm"),
    "javascript": ("hyperlight-js", "hyperlight_sandbox_backend_hyperlight_js"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestOptions:
    """The guest and memory of a sandbox's virtual machines. Machines with equal options are interchangeable."""

    backend: str
    module: str
    """The name of a module that contains the guest's file, or that file's path; empty for the backend's own guest."""
    heap_bytes: int
    stack_bytes: int

    @classmethod
    def of(
        cls,
        limits: Limits,
        backend: str = "wasm",
        module: str | None = None,
        module_path: str | None = None,
        heap_size: str | int | None = None,
        stack_size: str | int | None = None,
    ) -> GuestOptions:
        """Return the validated options of the engine.

        Raises `InvalidValue` for invalid ones, and `Unsupported` if a machine would need more memory than `limits`
        allow.
        """
        if not isinstance(backend, str) or backend not in _BACKENDS:
            raise InvalidValue(f"backend must be 'wasm' or 'javascript', not {backend!r}")
        heap = USUAL_HEAP if heap_size is None else size_of("heap_size", heap_size, LEAST_HEAP)
        stack = USUAL_STACK if stack_size is None else size_of("stack_size", stack_size, LEAST_STACK)
        most = limits.memory_mib * _MIB
        if heap_size is None and stack_size is None and heap + stack > most >= LEAST_HEAP + LEAST_STACK:
            heap, stack = LEAST_HEAP, max(LEAST_STACK, most - LEAST_HEAP)
        if heap + stack > most:
            has_sizes = heap_size is not None or stack_size is not None
            needed = heap + stack if has_sizes else LEAST_HEAP + LEAST_STACK
            what = "with this heap_size and stack_size has" if has_sizes else "has at least"
            raise Unsupported(
                f"a machine of the hyperlight engine {what} {needed // _MIB} MiB, and Limits.memory_mib allows"
                f" {limits.memory_mib}: raise it to {-(-needed // _MIB)}; the linux engine does with less"
            )
        return cls(backend=backend, module=_module(backend, module, module_path), heap_bytes=heap, stack_bytes=stack)

    @property
    def language(self) -> str:
        """The language of the guest's programs."""
        return "javascript" if self.backend == "javascript" else "python"

    @property
    def memory_bytes(self) -> int:
        """The memory of one machine, in bytes."""
        return self.heap_bytes + self.stack_bytes

    def to_command(self) -> dict[str, Any]:
        """Return the options as the worker's first command."""
        return {
            "backend": _BACKENDS[self.backend][0],
            "heap_size": f"{self.heap_bytes // 1024}Ki",
            "stack_size": f"{self.stack_bytes // 1024}Ki",
            "module": _file_of(self.module),
            "path": _folders(self.backend, self.module),
        }


def size_of(name: str, given: object, least: int) -> int:
    """Return a size in bytes, given as a number or as `"50Mi"`. Raises `InvalidValue`, also for less than `least`."""
    if isinstance(given, str) and (matched := _SIZE.fullmatch(given.strip())):
        size = int(matched[1]) * _UNITS[matched[2]]
    elif isinstance(given, int) and not isinstance(given, bool):
        size = given
    else:
        raise InvalidValue(f"{name} is a size such as '50Mi' or '2Gi', or a number of bytes, not {given!r}")
    if not least <= size <= _MOST:
        raise InvalidValue(f"{name} must be from {least // _MIB}Mi to {_MOST // 2**30}Gi, not {given!r}")
    return size


def missing_package(backend: str, module: str) -> str:
    """Return the first missing Python package for this backend and module; "" if all are installed."""
    needed = {"hyperlight_sandbox": "hyperlight-sandbox"}
    package = _BACKENDS[backend][1]
    needed[package] = package.replace("_", "-")
    if module == PACKAGED_GUEST:
        needed["python_guest"] = "hyperlight-sandbox-python-guest"
    return next((name for package, name in needed.items() if importlib.util.find_spec(package) is None), "")


def check_installed(options: GuestOptions) -> None:
    """Raise `SandboxUnavailable` if a package is missing."""
    if missing := missing_package(options.backend, options.module):
        raise NotInstalled(f"the hyperlight engine needs {missing}, which is not installed", ADVICE)


def _module(backend: str, module: str | None, module_path: str | None) -> str:
    for name, given in (("module", module), ("module_path", module_path)):
        if given is not None and (not isinstance(given, str) or not given.strip()):
            raise InvalidValue(f"{name} is the name of a guest's module or its path, not {given!r}")
    if module_path is not None and module not in (None, PACKAGED_GUEST):
        raise InvalidValue("give either module or module_path, not both")
    if backend == "javascript":
        if module_path is not None or module not in (None, PACKAGED_GUEST):
            raise InvalidValue("the javascript backend has a guest of its own and takes no module")
        return ""
    given = (module_path or module or PACKAGED_GUEST).strip()
    is_path = module_path is not None or "/" in given or given.endswith((".aot", ".wasm"))
    if not is_path:
        return given
    path = Path(given).expanduser().absolute()
    if not path.is_file():
        raise InvalidValue(f"there is no guest module at {path}")
    return str(path)


def _file_of(module: str) -> str:
    """Return the packaged guest's file if that is meant: the library would copy it first; else return `module`."""
    if module == PACKAGED_GUEST:
        spec = importlib.util.find_spec("python_guest")
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(folder, "resources").glob("*.aot")):
                return str(path)
    return module


def _folders(backend: str, module: str) -> list[str]:
    """Return the directories of the packages that the worker imports."""
    names = ["hyperlight_sandbox", _BACKENDS[backend][1]]
    if module and "/" not in module:
        names.append(module.partition(".")[0])
    specs = [importlib.util.find_spec(name) for name in names]
    origins = [spec.origin for spec in specs if spec is not None and spec.origin]
    return list(dict.fromkeys(str(Path(origin).parent.parent) for origin in origins))
