"""Puts weaknesses into copies of the engine's code: a line is replaced by another, and sandboxes are made with that.

The nursery and the guests of the linux engine are processes that run a folder of code of their own, so a changed copy
of it serves for a while in the place of the real one, and the rest of this process stays as it is.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import actbox
from actbox.sandbox.engines.linux import nursery, stock

_PACKAGE = Path(actbox.__file__).parent
_SANDBOX = _PACKAGE / "sandbox"


@dataclass(frozen=True)
class Change:
    """A replacement of text in one file of the package; `old` must occur there once. An empty `old` makes a new
    file.
    """

    file: str
    old: str
    new: str = ""

    def apply(self, package: Path) -> None:
        """Change a copy of the package."""
        path = package / self.file
        if not self.old:
            path.write_text(self.new)
            return
        text = path.read_text()
        if text.count(self.old) != 1:
            raise RuntimeError(f"{self.file} has changed: {self.old!r} is not there once, so nothing can be planted")
        path.write_text(text.replace(self.old, self.new))


@contextlib.contextmanager
def changed_nursery(changes: Sequence[Change]) -> Iterator[None]:
    """Make the sandboxes of the linux engine with changed code; none may be open before or after."""
    with tempfile.TemporaryDirectory(prefix="actbox-planted-") as folder:
        package = Path(folder)
        package.chmod(0o755)
        shutil.copytree(
            _SANDBOX, package / "sandbox", ignore=shutil.ignore_patterns("__pycache__", "engines", "channel")
        )
        for change in changes:
            change.apply(package)
        original = nursery._SANDBOX_FOLDER
        stock.close_all()
        nursery._SANDBOX_FOLDER = str(package / "sandbox")
        try:
            yield
        finally:
            stock.close_all()
            nursery._SANDBOX_FOLDER = original


@contextlib.contextmanager
def changed_package(changes: Sequence[Change]) -> Iterator[str]:
    """Make a changed copy of the whole package, and yield the folder for `PYTHONPATH` that it lies in."""
    with tempfile.TemporaryDirectory(prefix="actbox-planted-") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(_PACKAGE, Path(folder) / "actbox", ignore=shutil.ignore_patterns("__pycache__"))
        for change in changes:
            change.apply(Path(folder) / "actbox")
        yield folder
