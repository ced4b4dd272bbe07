"""Folders nested more deeply than a process can have files open."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEEP = 1500


def deepen(folder: str | Path, levels: int = DEEP) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


@contextmanager
def deepened(folder: str | Path) -> Iterator[None]:
    """Nest folders in this one, and remove them at the end: before CPython 3.13 pytest's own removal fails on them."""
    deepen(folder)
    try:
        yield
    finally:
        subprocess.run(["rm", "-r", Path(folder, "d")], check=True)


@contextmanager
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
