"""Compiles the modules of packages, in the sandbox that has fetched them, so that no run has to do it again.

The host writes the sources into a file, and an interpreter in the sandbox writes the compiled modules into others. The
host takes from these only data for a source that it has written, and it neither reads nor runs that data.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from actbox.core.mounts import FileMount
from actbox.sandbox.dependencies import PACKAGES, Target
from actbox.sandbox.engines.linux.interpreter import environment_folders

from .interpreters import find_python
from .wheels import SITE

COMPILE_SECONDS = 30.0
"""The most time for the modules of one installation, in seconds."""
COMPILED_MODE = 0o644
"""The mode of files with compiled modules."""
_PROCESSES = 2
_FEW_MODULES = 20
_SOURCES = "sources"
_MOST_SOURCE_BYTES = 2 * 2**20
_MOST_COMPILED_BYTES = 16 * 2**20
_MOST_BYTES = 256 * 2**20
_MOST_HEADER = 200
# A source that crashes the compiler, or takes it 5 s of processor time, ends one of the processes.
_COMPILE = """
import marshal, os, signal, sys
from _frozen_importlib_external import MAGIC_NUMBER  # importlib.util, without the time to import it
folder, processes = sys.argv[1], int(sys.argv[2])
def compile_share(share):
    with open(f"{folder}/sources", "rb") as sources, open(f"{folder}/compiled-{share}", "wb", buffering=0) as found:
        for number, line in enumerate(iter(sources.readline, b"")):
            name, size, path = line.decode().rstrip().split(" ", 2)
            source = sources.read(int(size))
            if number % processes != share:
                continue
            signal.setitimer(signal.ITIMER_VIRTUAL, 5)
            try:
                code = marshal.dumps(compile(source, path, "exec", dont_inherit=True, optimize=0))
            except Exception:
                continue
            # The flag 1 says that a hash of the source follows, in place of a time, and that nobody compares it.
            code = MAGIC_NUMBER + b"\\1\\0\\0\\0" + bytes.fromhex(name[:16]) + code
            found.write(f"{name} {len(code)}\\n".encode() + code)
for share in range(processes):
    if not os.fork():
        try:
            compile_share(share)
        finally:
            os._exit(0)
for _ in range(processes):
    os.wait()
"""

Sources = Mapping[str, tuple[str, Path]]
"""Modules by the SHA-256 of their source: the path in a set of packages, and the file."""


class Compiler(NamedTuple):
    """An interpreter, by its path in a sandbox, with the mounts that show it there."""

    path: str
    mounts: tuple[FileMount, ...] = ()

    def command(self, folder: str, modules: int) -> list[str]:
        """Return the command that compiles the sources in a directory: so many modules."""
        processes = _PROCESSES if modules >= _FEW_MODULES else 1
        return [self.path, "-I", "-S", "-W", "ignore", "-c", _COMPILE, folder, str(processes)]


def cache_tag(python: str, target: Target | None) -> str:
    """Return the tag in the names of modules that are compiled for an interpreter, "" for one that gets none.

    Compiled modules depend on the version of Python alone. A target without a C library is WebAssembly.
    """
    if target is not None and not target.libc:
        return ""
    is_own = python == find_python("").version
    return sys.implementation.cache_tag or "" if is_own else f"cpython-{python.replace('.', '')}"


def find_compiler(path: str, python: str, target: Target | None) -> Compiler | None:
    """Return an interpreter that compiles for a version of Python, `None` if there is none, or no need for one.

    `path` is that of the interpreter that the packages are for, if it is another one of this machine.
    """
    if not cache_tag(python, target):
        return None
    if python == find_python("").version:
        return Compiler(sys.executable)
    if not path:
        return None
    executable = Path(path)
    if any(map(executable.is_relative_to, ("/usr", *environment_folders()))):
        return Compiler(path)
    executable = executable.resolve()
    prefix = executable.parent.parent
    # A directory such as /opt would hide those of the sandbox.
    if len(prefix.parts) < 3 or not (prefix / "lib" / f"python{python}").is_dir():
        return None
    return Compiler(str(executable), (FileMount(prefix, str(prefix)),))


def compiled_path(source: str, tag: str) -> str:
    """Return where Python looks for the compiled form of a module, both relative to a set of packages.

    It is "" for other files, and for the tests of packages, which programs do not import.
    """
    folder, _, name = source.rpartition("/")
    if not source.startswith(f"{SITE}/") or not name.endswith(".py") or "/tests/" in source:
        return ""
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"


def write_sources(folder: Path, sources: Sources) -> None:
    """Write the sources for a compiler into a directory to which the sandbox may write. Blocks. Raises `OSError`."""
    left = _MOST_BYTES
    with (folder / _SOURCES).open("xb") as file:
        for sha256, (path, source) in sources.items():
            size = source.stat().st_size
            if size > min(_MOST_SOURCE_BYTES, left):
                continue
            data = source.read_bytes()
            if hashlib.sha256(data).hexdigest() == sha256:  # else somebody has edited it
                file.write(f"{sha256} {len(data)} {PACKAGES}/{path}\n".encode() + data)
                left -= len(data)


def read_compiled(folder: Path, sources: Sources) -> dict[str, bytes]:
    """Return what a compiler has written, by the SHA-256 of the source. Blocks."""
    found: dict[str, bytes] = {}
    for share in range(_PROCESSES):
        for sha256, data in _records(folder / f"compiled-{share}"):
            if sha256 in sources:
                found.setdefault(sha256, data)
    return found


def _records(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the whole records of a file that a sandbox has written, if it is a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return
        while line := file.readline(_MOST_HEADER):
            sha256, _, size = line.rstrip(b"\n").partition(b" ")
            if not size.isdigit() or int(size) > _MOST_COMPILED_BYTES:
                return
            data = file.read(int(size))
            if len(data) < int(size):  # the compiler was stopped meanwhile
                return
            yield sha256.decode("ascii", "replace"), data
