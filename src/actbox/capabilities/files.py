"""`files.read`, `files.write` and `files.list`: the files of one directory of this machine, its workspace.

Each path is opened beneath the workspace: no link is followed, and nothing outside is reached. These three, with
`network.http_request`, are the worked example of a capability: a schema for what goes in and out, a declaration of what
it touches, what it may cost at most, a label that is raised before anything is read, and what an approver is shown.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, ParamSpec, TypeVar

from actbox.core.errors import FileError, InvalidValue
from actbox.core.labels import PUBLIC, Label
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest import beneath
from actbox.sandbox.guest.tree import Tree
from actbox.sandbox.paths import errors_naming, names_below

from .budgets import Budget
from .capability import Capability
from .invocation import Invocation
from .outcome import StepFailed

P = ParamSpec("P")
T = TypeVar("T")

MOST_READ: Final = 8 * 1024 * 1024
"""The most bytes of a file that is read."""
MOST_WRITTEN: Final = 1024 * 1024
"""The most bytes that are written to a file; an approver is shown all of them."""
MOST_LISTED: Final = 1000
"""The most entries of a list."""
_ROOT: Final = "/workspace"
_MIB: Final = 2**20
_ENCODING: Final = '[:encoding {:optional true} [:enum "utf-8" "base64"]]'


class Folder:
    """A workspace: a directory of this machine, and the label of every file in it.

    Data of a higher label cannot be written to it: whoever reads it there would take it for data of this label. Raises
    `InvalidValue` if there is no such directory.
    """

    def __init__(self, path: str | os.PathLike[str], label: Label | str = PUBLIC) -> None:
        self.path = os.path.realpath(path)
        self.label = Label(label)
        if not os.path.isdir(self.path):
            raise InvalidValue(f"the workspace {path} is no directory")

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[Tree, tuple[str, ...]]]:
        """Open the workspace for a block; yield its tree with the names on a path. Errors in the block name the path.

        Raises `InvalidValue` for a path that is none, or leads outside.
        """
        names = names_below(_ROOT, path)
        with errors_naming(path), beneath.opened_folder("/") as root:
            with beneath.opened(root, os.path.relpath(self.path, "/")) as top:  # no link on the way is followed
                yield Tree(top), names


def workspace_files(folder: Folder | None) -> tuple[Capability, Capability, Capability]:
    """Return `files.read`, `files.write` and `files.list`; without a folder nothing carries them out.

    Before `files.write` an approver sees the difference that it makes.
    """
    files = None if folder is None else _Files(folder)
    label = PUBLIC if folder is None else folder.label
    read = Capability(
        "files.read",
        "Read a file of the workspace",
        f"[:map [:path :string] {_ENCODING}]",
        "[:map [:content :string] [:size :int]]",
        effects=("filesystem",),
        filesystem=(_ROOT,),
        data=label,
        retry_safe=True,
        handler=files and files.read_file,  # type: ignore[arg-type]  # every call is an `Invocation`
    )
    write = Capability(
        "files.write",
        "Create or replace a file of the workspace",
        f"[:map [:path :string] [:content :string] {_ENCODING}]",
        "[:map [:path :string] [:size :int] [:created :bool]]",
        effects=("filesystem", "state"),
        risk="medium",
        approvals=("filesystem",),
        filesystem=(_ROOT,),
        data=label,
        worst_case=lambda capability, given: Budget(steps=1, storage_mib=len(given["content"].encode()) / _MIB),
        handler=files and files.write_file,  # type: ignore[arg-type]  # every call is an `Invocation`
        prepare=files and files.prepare_write,  # type: ignore[arg-type]  # likewise
    )
    listing = Capability(
        "files.list",
        f"List a directory of the workspace, at most {MOST_LISTED} entries of it",
        "[:map [:path {:optional true} :string] [:recursive {:optional true} :bool]]",
        "[:map [:entries [:vector [:map [:path :string] [:kind :string] [:size :int]]]] [:complete :bool]]",
        effects=("filesystem",),
        filesystem=(_ROOT,),
        data=label,
        retry_safe=True,
        handler=files and files.list_files,  # type: ignore[arg-type]  # every call is an `Invocation`
    )
    return read, write, listing


class _Files:
    """The handlers. Whatever they say of a file, an error too, has the folder's label."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def read_file(self, call: Invocation) -> dict[str, Any]:
        call.raise_label(self._folder.label)
        path = call.input["path"]
        data = await _done(self._read, path)
        try:
            is_text = call.input.get("encoding", "utf-8") == "utf-8"
            return {"content": data.decode() if is_text else base64.b64encode(data).decode(), "size": len(data)}
        except UnicodeDecodeError:
            raise StepFailed("failed", "run", f"{path} is no text in UTF-8", 'ask with "encoding": "base64"') from None

    async def list_files(self, call: Invocation) -> dict[str, Any]:
        call.raise_label(self._folder.label)
        path, recursive = call.input.get("path", "."), call.input.get("recursive", False)
        found = await _done(self._list, path, recursive)
        return {"entries": sorted(found[:MOST_LISTED], key=_path_of), "complete": len(found) <= MOST_LISTED}

    async def prepare_write(self, call: Invocation) -> dict[str, Any]:
        """Return the difference that a call makes, for an approver; `call.prepared` keeps both its sides."""
        data, path = self._given(call), call.input["path"]
        before = await _done(self._read_if_any, path)
        call.prepared = before, data
        return {"files": {path: {"before": _shown(before), "after": _shown(data)}}}

    async def write_file(self, call: Invocation) -> dict[str, Any]:
        (before, data), path = call.prepared, call.input["path"]
        if await _done(self._read_if_any, path) != before:
            raise StepFailed("refused", "run", f"{path} has changed since its difference was shown", "ask again")
        call.charge(storage_mib=len(data) / _MIB)
        await _done(self._write, path, data)
        return {"path": path, "size": len(data), "created": before is None}

    def _given(self, call: Invocation) -> bytes:
        """Return what a call writes, which may be written here, and raise its label. Raises `StepFailed`."""
        label, content = self._folder.label, call.input["content"]
        if not call.labels <= label:
            why = f"the workspace may hold data up to {label}, and this has the label {call.labels}"
            raise StepFailed("refused", "label", why)
        call.raise_label(label)
        try:
            is_text = call.input.get("encoding", "utf-8") == "utf-8"
            data: bytes = content.encode() if is_text else base64.b64decode(content, validate=True)
        except ValueError as error:
            raise StepFailed("invalid", "validate_input", f"the content cannot be written: {error}") from None
        if len(data) > MOST_WRITTEN:
            why = f"the content has {len(data):,} bytes, and {MOST_WRITTEN:,} are the most"
            raise StepFailed("invalid", "validate_input", why)
        return data

    def _read(self, path: str) -> bytes:
        with self._folder.opened(path) as (tree, names):
            data = beneath.read_file(tree.top, "/".join(names), MOST_READ + 1)
            if len(data) > MOST_READ:
                raise FileError(errno.EFBIG, f"{path} has more than {MOST_READ:,} bytes, which are the most")
            return data

    def _read_if_any(self, path: str) -> bytes | None:
        try:
            return self._read(path)
        except FileError as error:
            if error.errno == errno.ENOENT:
                return None
            raise

    def _write(self, path: str, data: bytes) -> None:
        with self._folder.opened(path) as (tree, names), tree.draft(names, None) as descriptor:
            beneath.write_all(descriptor, data)

    def _list(self, path: str, recursive: bool) -> list[dict[str, Any]]:
        """Return the entries of a directory, one more than are listed if there are so many."""
        with self._folder.opened(path) as (tree, names):
            found = islice(tree.list(names, recursive), MOST_LISTED + 1)
            return [{"path": _text(path), "kind": kind, "size": size} for path, kind, size, *_ in found]


async def _done(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work on files in a thread. Raises `StepFailed`."""
    try:
        return await run_blocking(work, *args, **kwargs)
    except InvalidValue as error:
        raise StepFailed("invalid", "validate_input", str(error)) from None
    except FileError as error:
        raise StepFailed("failed", "run", error.strerror or str(error)) from None


def _shown(data: bytes | None) -> str:
    """Return a file's content for an approver: text as it is, all else by its size and digest."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        text = ""
    if data and (not text or "\0" in text or len(data) > MOST_WRITTEN):
        return f"({len(data):,} bytes with the SHA-256 {hashlib.sha256(data).hexdigest()})"
    return text


def _text(path: str) -> str:
    """Return a path as text: bytes in it that are not UTF-8 become U+FFFD."""
    return os.fsencode(path).decode(errors="replace")


def _path_of(entry: dict[str, Any]) -> str:
    return str(entry["path"])
