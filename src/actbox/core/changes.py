"""The changes that a program made in an overlay mount, as data that nothing has applied to the host's directory."""

from __future__ import annotations

import base64
from dataclasses import field
from typing import Any, Literal

from .lazy_dataclass import dataclass

ChangeKind = Literal["added", "changed", "removed"]

_NO_LINE_END = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that differs between an overlay and the host's directory below it, which is unchanged.

    `mount` is the `mount_path` of the overlay, and `path` the file's path below it. Name and content come from the
    guest: before applying a change, make sure that the path leads where it should, through no link. `data` is the
    file's present content (`None` if it was removed); `before` is the host's content, if that is a regular file and
    small enough to keep. `executable` is true if the file's owner may execute it now.

    Directories, and new times, owners or modes other than `executable`, are not changes.

    A result's changes can be applied one by one in their order: mount by mount, first the removed files, the deepest
    first, then the added and changed ones, by path. For a `removed` one, remove the name. For any other one, create the
    missing parent directories, remove an existing entry of that name (a link, a file, or a directory that contains only
    directories by then), and write `data`. This reproduces the program's files, unless the result's warnings say
    that something was left out.
    """

    mount: str
    path: str
    kind: ChangeKind
    data: bytes | None = field(default=None, repr=False)
    before: bytes | None = field(default=None, repr=False)
    executable: bool = False

    @property
    def size(self) -> int:
        """The file's present size in bytes."""
        return len(self.data or b"")

    def diff(self) -> str | None:
        """Return the change as a unified diff, or `None` if either side was not kept or is not UTF-8 text."""
        import difflib

        if (self.before is None and self.kind != "added") or (self.data is None and self.kind != "removed"):
            return None
        try:
            before, after = ((side or b"").decode() for side in (self.before, self.data))
        except UnicodeDecodeError:
            return None
        if "\0" in before + after:
            return None
        name = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in self.path)
        old = "/dev/null" if self.kind == "added" else f"a/{name}"
        new = "/dev/null" if self.kind == "removed" else f"b/{name}"
        lines = difflib.unified_diff(_lines(before), _lines(after), old, new)
        return "".join(line if line.endswith("\n") else f"{line}\n{_NO_LINE_END}" for line in lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain JSON data, with the content as base64."""
        return {
            "mount": self.mount,
            "path": self.path,
            "kind": self.kind,
            "size": self.size,
            "executable": self.executable,
            "data": None if self.data is None else base64.b64encode(self.data).decode("ascii"),
        }


def _lines(text: str) -> list[str]:
    # Not splitlines(), which would also split at a form feed or a line separator within a line.
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])
