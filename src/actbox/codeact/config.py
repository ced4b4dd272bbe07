"""`CodeActConfig`: the tools, files and hosts of an agent's programs; it can change at any time and is frozen for each
run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, Unpack

from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue
from actbox.core.mounts import INPUT, FileMount
from actbox.tools import Approval, Tool, Toolset
from actbox.tools.toolset import alias_of

from .approvals import check_modes
from .capabilities import (
    AllowedDomainInput,
    FileMountInput,
    allowed_domains,
    check_apart,
    check_secrets_go,
    domain_key,
    file_mounts,
    mount_key,
)
from .frozen import FrozenRun
from .instructions import EXECUTE_CODE
from .serial_numbers import new_serial
from .settings import CodeActOptions, CodeActSettings
from .tool_search import Listing

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """An entry of the configuration's tools: one tool, or a server with several.

    `name` is its key, and `get_tools` returns `given`. `tools` is called whenever a run is frozen, and returns the same
    objects until the tools change. `group` is their heading in a listing of many tools.
    """

    name: str
    given: Any
    tools: Callable[[], tuple[Tool, ...]] = field(repr=False)
    group: str = ""

    @classmethod
    def of(cls, given: Tool | Callable[..., Any]) -> ToolEntry:
        """Return the entry of a tool or a host function. Raises `InvalidValue` for an object that cannot be a tool."""
        tool = given if isinstance(given, Tool) else Tool.from_function(given)
        Toolset([tool])  # refuses here a tool that no run could have
        return cls(name=tool.name, given=tool, tools=lambda: (tool,))


class CodeActConfig:
    """The tools, files, hosts and modes of an agent's programs. Safe to use from any thread.

    Changes count for runs that are frozen later; a `FrozenRun` never changes. Tools are keyed by name, mounts by their
    path inside, domains by their normalized target: adding a key again replaces its value in place. Removing normalizes
    keys as adding does; a missing key raises `KeyError`, which lists the existing ones, and nothing is removed. The
    `get_…` methods return new lists.

    `workspace_root` is a directory of the host that programs see read-only at `/input`. `approval_mode` is the mode of
    every run, which tools that require approval can only tighten. `tool_name` is the name of the model's tool for
    running programs. `adapt` converts a framework's tool to an entry.
    """

    def __init__(
        self,
        *,
        tools: Any = None,
        approval_mode: Approval | None = "never_require",
        workspace_root: str | Path | None = None,
        file_mounts: FileMountInput | Iterable[FileMountInput] | None = (),
        allowed_domains: AllowedDomainInput | Iterable[AllowedDomainInput] | None = (),
        tool_name: str = EXECUTE_CODE,
        adapt: Callable[[Any], ToolEntry] = ToolEntry.of,
        **options: Unpack[CodeActOptions],
    ) -> None:
        """`options` are those of `CodeActSettings`. Raises `InvalidValue`."""
        self._settings = CodeActSettings.of(options)
        self._approval_mode: Approval = "never_require" if approval_mode is None else approval_mode
        check_modes(self._approval_mode, self._settings.approval_style)
        if not isinstance(tool_name, str) or not tool_name.isidentifier():
            raise InvalidValue(f"tool_name must be an identifier such as 'execute_code', not {tool_name!r}")
        self._tool_name = tool_name
        self._workspace_root = None if workspace_root is None else _workspace(workspace_root)
        self._adapt = adapt
        self._serial = new_serial()
        self._lock = threading.RLock()
        self._tools: Registry[ToolEntry] = Registry("tool")
        self._mounts: Registry[FileMount] = Registry("file mount at")
        self._domains: Registry[AllowedDomain] = Registry("allowed domain")
        self._version = 0
        self._latest: _Frozen | None = None
        if tools is not None:
            self.add_tools(tools)
        if file_mounts is not None:
            self.add_file_mounts(file_mounts)
        if allowed_domains is not None:
            self.add_allowed_domains(allowed_domains)

    # Settings that do not change

    @property
    def settings(self) -> CodeActSettings:
        """The settings that were given at the start and do not change."""
        return self._settings

    @property
    def approval_mode(self) -> Approval:
        """The mode of every run, which tools that require approval can only tighten."""
        return self._approval_mode

    @property
    def tool_name(self) -> str:
        """The name of the tool by which the model runs programs."""
        return self._tool_name

    @property
    def workspace_root(self) -> FileMount | None:
        """The mount at `/input`."""
        return self._workspace_root

    # Tools

    def add_tools(self, tools: Any, *, group: str = "") -> None:
        """Add one or several tools: `Tool`s, host functions, and objects that `adapt` knows. All are added, or none.

        `group` is their heading in a listing of many tools. Raises `InvalidValue` for an object that cannot be a tool,
        and for a tool with the name of the model's tool for running programs.
        """
        given = [tools] if _is_one(tools) else list(tools)
        entries = [self._adapt(tool) for tool in given]
        for entry in entries:
            if self.tool_name in (entry.name, alias_of(entry.name)):
                raise InvalidValue(
                    f"a tool cannot be called {entry.name!r}, which the model calls to run programs: give the tool"
                    " another name, or this configuration another tool_name"
                )
        if group:
            entries = [replace(entry, group=group) for entry in entries]
        with self._changing():
            self._tools.put({entry.name: entry for entry in entries})

    def get_tools(self) -> list[Any]:
        """Return the tools as they were given, in order."""
        with self._lock:
            return [entry.given for entry in self._tools.values()]

    def remove_tool(self, name: str) -> None:
        """Remove the tool of that name. Raises `KeyError`."""
        self.remove_tools(name)

    def remove_tools(self, *names: str) -> None:
        """Remove the tools of these names, all or none. Raises `KeyError`."""
        with self._changing():
            self._tools.remove(names)

    def clear_tools(self) -> None:
        """Remove all tools: programs then have none, and no `call_tool`."""
        with self._changing():
            self._tools.clear()

    # File mounts

    def add_file_mounts(self, mounts: FileMountInput | Iterable[FileMountInput]) -> None:
        """Add one or several mounts, all or none. Raises `InvalidValue`, also for a mount that lies inside another."""
        added = file_mounts(mounts)
        with self._changing():
            check_apart((self._mounts.snapshot() | added).values())
            self._mounts.put(added)

    def get_file_mounts(self) -> list[FileMount]:
        """Return the mounts, in order; the workspace root is none of them."""
        with self._lock:
            return self._mounts.values()

    def remove_file_mount(self, mount_path: str) -> None:
        """Remove the mount at a path inside, such as `data/users.json`. Raises `KeyError`."""
        self.remove_file_mounts(mount_path)

    def remove_file_mounts(self, *mount_paths: str) -> None:
        """Remove the mounts at these paths, all or none. Raises `KeyError`."""
        with self._changing():
            there = self._mounts.snapshot()
            self._mounts.remove(mount_key(path, there) for path in mount_paths)

    def clear_file_mounts(self) -> None:
        """Remove all mounts; the workspace root stays."""
        with self._changing():
            self._mounts.clear()

    # Allowed domains

    def add_allowed_domains(self, domains: AllowedDomainInput | Iterable[AllowedDomainInput]) -> None:
        """Add one or several allow-list entries, all or none. Raises `InvalidValue` as `AllowedDomain` does."""
        added = allowed_domains(domains)
        with self._changing():
            self._domains.put(added)

    def get_allowed_domains(self) -> list[AllowedDomain]:
        """Return the allow-list entries, in order."""
        with self._lock:
            return self._domains.values()

    def remove_allowed_domain(self, target: str) -> None:
        """Remove the entry of a target. Raises the errors of `remove_allowed_domains`."""
        self.remove_allowed_domains(target)

    def remove_allowed_domains(self, *targets: str) -> None:
        """Remove the entries of these targets, all or none.

        Raises `KeyError`, and `InvalidValue` if a secret would lose its only allowed place.
        """
        keys = [domain_key(target) for target in targets]
        with self._changing():
            left = self._domains.without(keys)
            check_secrets_go(self.settings.secrets, self._domains.values(), left.values())
            self._domains.remove(keys)

    def clear_allowed_domains(self) -> None:
        """Remove all entries: programs then have no network. Raises `InvalidValue` as `remove_allowed_domains` does."""
        with self._changing():
            check_secrets_go(self.settings.secrets, self._domains.values(), ())
            self._domains.clear()

    # One run

    def freeze(self, *, listing: Mapping[str, Any] | Listing | None = None) -> FrozenRun:
        """Return the frozen configuration for a run that begins now. It is rebuilt only after a change.

        `listing` is one of an earlier run of the same conversation, or its JSON form, for so many tools that the
        description only lists them. It replaces the present one, so that the text stays the same, and
        `FrozenRun.changes` describes the differences. Raises `InvalidValue` if tools of several servers share a name.
        """
        pinned = Listing.from_dict(listing) if isinstance(listing, Mapping) else listing
        with self._lock:
            entries = self._tools.values()
            mounts, domains = self._mounts.values(), self._domains.values()
            version, latest = self._version, self._latest
        tools = [(tool, entry.group) for entry in entries for tool in entry.tools()]
        if latest is not None and latest.is_of(version, tools, pinned):
            return latest.run
        if self.workspace_root is not None:
            mounts = [self.workspace_root, *mounts]
        run = FrozenRun.of(
            self.settings,
            tool_name=self.tool_name,
            approval_mode=self.approval_mode,
            tools=tools,
            mounts=tuple(mounts),
            domains=tuple(domains),
            serial=self._serial,
            pinned=pinned,
        )
        with self._lock:
            if self._version == version:
                self._latest = _Frozen(version, tuple(tools), pinned, run)
        return run

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            yield
            self._version += 1


@dataclass(frozen=True, slots=True)
class _Frozen:
    """The latest frozen run, and the state that it was made from."""

    version: int
    tools: tuple[tuple[Tool, str], ...]
    pinned: Listing | None
    run: FrozenRun

    def is_of(self, version: int, tools: Sequence[tuple[Tool, str]], pinned: Listing | None) -> bool:
        return (self.version, self.tools, self.pinned) == (version, tuple(tools), pinned)


def _is_one(tools: object) -> bool:
    return callable(tools) or isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable)


def _workspace(folder: str | Path) -> FileMount:
    mount = FileMount(folder, INPUT)
    if not mount.host_path.is_dir():
        raise InvalidValue(f"workspace_root must be a directory, and {mount.host_path} is none; mount a file instead")
    return mount


class Registry(Generic[T]):
    """A table of entries in the order in which their keys were first added. It has no lock: its owner has one.

    `what` names an entry in messages, such as `tool`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._entries: dict[str, T] = {}

    def put(self, entries: Mapping[str, T]) -> None:
        """Add entries at the end; an entry with a known key replaces the old one in its place."""
        self._entries.update(entries)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove the entries of all these keys, or none.

        Raises `KeyError` for a missing one; the message lists the existing keys.
        """
        self._entries = self.without(keys)

    def without(self, keys: Iterable[str]) -> dict[str, T]:
        """Return the entries that removing these keys would leave, and remove nothing. Raises as `remove` does."""
        wanted = list(dict.fromkeys(keys))
        missing = [key for key in wanted if key not in self._entries]
        if missing:
            there = ", ".join(map(repr, self._entries)) or "none"
            raise KeyError(f"there is no {self._what} {', '.join(map(repr, missing))}; there are: {there}")
        return {key: entry for key, entry in self._entries.items() if key not in wanted}

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def values(self) -> list[T]:
        """Return the entries, in a list of the caller's own."""
        return list(self._entries.values())

    def snapshot(self) -> dict[str, T]:
        """Return the entries by key, in a dict of the caller's own."""
        return dict(self._entries)
