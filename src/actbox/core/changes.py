"""What a program changed in a folder of the host that it saw through an overlay: a diff, which nobody has applied."""

from __future__ import annotations

import base64
import difflib
from dataclasses import dataclass, field
from typing import Any, Literal

ChangeKind = Literal["added", "changed", "removed"]

_NO_LINE_END = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that is otherwise in an overlay than in the host's own folder, which is as it was.

    `mount` is the `mount_path` of the overlay, `path` the file's path below it. Both name and content come from the
    guest: before applying a change, make sure that the path leads where it should, through no link. `data` is what is
    in the file now (`None` where it was removed), `before` what is in the host's, if that is a regular file and was
    small enough to keep. `executable` says whether its owner may execute it now.

    A folder is no change by itself, and neither is a new time, owner or mode other than `executable`.

    The changes of a result can be applied one by one in their order: mount by mount, first what was removed, the
    deepest first, then what was added or changed, by path. To apply one that is `removed` is to remove that name. To
    apply another is to make the folders above it that are missing, to remove what has the name (a link, a file, or a
    folder, which has nothing but folders in it by then), and to write `data`. That gives the files that the program
    had, unless the result's warnings say that something was left out.
    """

    mount: str
    path: str
    kind: ChangeKind
    data: bytes | None = field(default=None, repr=False)
    before: bytes | None = field(default=None, repr=False)
    executable: bool = False

    @property
    def size(self) -> int:
        """Bytes that are in the file now."""
        return len(self.data or b"")

    def diff(self) -> str | None:
        """Return the change as a unified diff; `None` where a side of it is not kept, or is no UTF-8 text."""
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
        """Return plain JSON data, the content as base64."""
        return {
            "mount": self.mount,
            "path": self.path,
            "kind": self.kind,
            "size": self.size,
            "executable": self.executable,
            "data": None if self.data is None else base64.b64encode(self.data).decode("ascii"),
        }


def _lines(text: str) -> list[str]:
    # Not splitlines(): a form feed or a line separator within a line ends none.
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])
