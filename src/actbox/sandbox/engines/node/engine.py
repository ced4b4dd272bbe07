"""The sandbox of the `node` engine: a `linux` sandbox in which each guest starts Node before its program."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actbox.core.errors import InvalidValue, SandboxUnavailable, Unsupported
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.core.packages import CLEAN, HOST
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.dependencies import NOTHING, Provided, layer_of
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.debt import Debt
from actbox.sandbox.engines.linux.engine import LinuxSandbox, TreeLimits
from actbox.sandbox.engines.linux.interpreter import Base, environment_folders
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.local import GuestStart
from actbox.sandbox.requests import encode_program
from actbox.sandbox.run_end import Ending
from actbox.sandbox.workspace import Workspace
from actbox.tools.typescript import RESERVED_WORDS, javascript_name

from .binary import Node
from .boot import node_command
from .traits import lacking, node_traits
from .warm_guest import WarmGuest

if TYPE_CHECKING:
    from actbox.sandbox.engines.linux.network import Network

# Node's own threads: those of V8, of the inspector, and four that read files and look up names.
_OWN_THREADS: Final = 12
_MOST_PROCESSES: Final = next(spec.metadata["most"] for spec in dataclasses.fields(Limits) if spec.name == "processes")
# The mount point for a Node that lies outside the directories that sandboxes see.
_SHOWN_AT: Final = "/opt/actbox/node"
_SYSTEM_FOLDERS: Final = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin")
_FILE_NAMES: Final = {"javascript": "program.js", "typescript": "program.ts"}
_PYTHON_FILE_NAME: Final = "program.py"
_OUT_OF_HEAP: Final = ("JavaScript heap out of memory", "process out of memory")


class NodeSandbox(LinuxSandbox):
    """A sandbox for JavaScript and TypeScript in their own namespaces, behind a system call filter."""

    _wakes_guests = False
    _has_lanes = False  # its guests become Node, whose pid 1 can make no other

    def __init__(self, policy: Policy, node: Node, network: Network | None = None, debt: Debt | None = None) -> None:
        """Raise `SandboxUnavailable` off Linux. `network` is the access to the policy's domains and secrets."""
        self._node = node
        self._shown_at = str(node.path)
        # Python modules that nothing imports need not be preloaded.
        policy = dataclasses.replace(policy, preload=())
        # Python packages are files for programs here: where only some may be seen, none are.
        self._base = Base(HOST if policy.environment == HOST and policy.packages is None else CLEAN)
        if not _is_seen(node.path, self._base.environment == HOST):
            self._shown_at = _SHOWN_AT
            mount = FileMount(node.path, _SHOWN_AT)
            if mount not in policy.mounts:  # a sibling's policy has it already
                policy = dataclasses.replace(policy, mounts=(*policy.mounts, mount))
        super().__init__(policy, network, debt)
        self.traits = node_traits(self.traits, node, policy.environment_name)
        self._warm_guest = WarmGuest(self._make_warm_guest)
        self._making: Child | None = None
        self._tree_of_node: TreeLimits | None = None

    def _sibling(self) -> NodeSandbox:
        return NodeSandbox(self.policy, self._node, self._network, self._debt)

    def _in_language(self, program: Program | str) -> Program:
        if isinstance(program, Program) and program.language == "typescript" and (lack := lacking(self._node)):
            raise Unsupported(
                f"{lack}: pip install 'actbox[node]' brings one, or open_sandbox('node', node=…) names another"
            )
        program = super()._in_language(program)
        if unusable := sorted(RESERVED_WORDS.intersection(program.inputs)):
            raise InvalidValue(f"Program.inputs: {unusable[0]!r} cannot be the name of a variable in JavaScript")
        if program.name == _PYTHON_FILE_NAME and program.language in _FILE_NAMES:
            program = dataclasses.replace(program, name=_FILE_NAMES[program.language])
        return program

    def _frame(
        self, message: dict[str, Any], variables: Mapping[str, str] | None = None, packages: Provided = NOTHING
    ) -> bytes:
        if message["t"] == "exec":
            return super()._frame(message, variables)
        bounds = {"message_bytes": self.policy.limits.message_bytes, "workspace": self.guest_root}
        if "tools" in message:
            message = message | {
                "tools": [{**spec, "alias": javascript_name(spec["alias"])} for spec in message["tools"]]
            }
        return encode_program(message | bounds)

    # A guest that waits in Node for the next program

    def _prepare_next(self) -> None:
        super()._prepare_next()
        # Proxies belong to a run's event loop, and mounts are checked when a run begins.
        mounts = [mount for mount in self.policy.mounts if str(mount.mount_path) != _SHOWN_AT]
        if self._stock is not None and self._network is None and not mounts:
            self._warm_guest.want(self._stock.later)

    def _make_warm_guest(self) -> Child:
        stock, stored = self._open()
        child = self._waiting_guest(stored) or stock.make(stored.host_id, self._points)
        try:
            start = self._with_environment(GuestStart(stdin=b""))
            packages = [] if start.packages is None else stock.make_packages(start.packages, stored.host_id)
        except BaseException:
            child.discard()
            raise
        mounts = stored.mounts_for(child, packages)
        self._making = child
        return self._begin(child, mounts, start)

    def _with_environment(self, start: GuestStart) -> GuestStart:
        """Return a start with the packages of the named environment, unless a program's own include these."""
        if self._layer is None or start.packages is not None:
            return start
        return dataclasses.replace(start, packages=Path(self._layer.folder))

    def _owe(self, child: Child) -> float:
        return self._debt.look() if child is self._making else super()._owe(child)

    def _guest_at_hand(self, start: GuestStart) -> GuestProcess | None:
        is_usual = not start.command and not start.forkable and start.packages is None
        if is_usual and (child := self._warm_guest.take()) is not None:
            super()._owe(child)
            return child
        return super()._guest_at_hand(self._with_environment(start))

    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        return await super()._start_guest(self._with_environment(start))

    async def _close_workspace(self) -> None:
        self._warm_guest.close()
        await super()._close_workspace()

    def _leave_to_parent(self) -> None:
        self._warm_guest.leave_to_parent()
        super()._leave_to_parent()

    async def _open_workspace(self) -> Workspace:
        limits = self.policy.limits
        processes = min(limits.processes + _OWN_THREADS, _MOST_PROCESSES)
        self._tree_of_node = TreeLimits.of(dataclasses.replace(limits, processes=processes))
        self._layer = await layer_of(self.policy, language="javascript")
        self._warm_guest.open()
        return await super()._open_workspace()

    # Replacing the Python guest by Node

    def _begin(self, child: Child, mounts: list[int], start: GuestStart) -> Child:
        super()._begin(child, mounts, start)
        if not start.command:
            child.explain = _explain
            self._become_node(child)
        return child

    def _become_node(self, child: Child) -> None:
        """Have the guest replace itself by Node, which then reads the first message."""
        command = node_command(self._shown_at, self.policy.limits)
        message = {"t": "exec", "arguments": command, "cwd": self.guest_root, "channel": True}
        frame = bytearray(super()._frame(message))
        assert child.sock is not None
        try:
            child.sock.sendall(frame)
        except OSError as error:
            raise SandboxUnavailable(f"the guest could not become Node: {error.strerror}") from error

    def _base_variables(self) -> Mapping[str, str]:
        folder = os.path.dirname(self._shown_at)
        return {
            **super()._base_variables(),
            "PATH": ":".join(dict.fromkeys([folder, "/usr/local/bin", "/usr/bin", "/bin"])),
            "NODE_REPL_HISTORY": "",
            "UV_USE_IO_URING": "0",  # the filter denies it
        }

    def _tree_limits(self, start: GuestStart) -> TreeLimits:
        if start.command or self._tree_of_node is None:
            return super()._tree_limits(start)
        return self._tree_of_node

    def _guest_limits(self) -> Mapping[str, float]:
        # V8 maps far more memory than it uses, and ends the process if it cannot.
        limits = {name: value for name, value in super()._guest_limits().items() if name != "memory_mib"}
        return {**limits, "processes": limits["processes"] + _OWN_THREADS}


def _is_seen(path: Path, has_environment: bool) -> bool:
    """Return whether a file of the host has the same path in sandboxes, with this process's environment or without."""
    folders = (*_SYSTEM_FOLDERS, *(environment_folders() if has_environment else ()))
    return any(path.is_relative_to(folder) for folder in folders)


def _explain(ending: Ending, stderr: str) -> Ending:
    """Return the ending, with the memory limit if V8 reported that it ran out of memory and aborted."""
    if ending.signal in (signal.SIGABRT, signal.SIGTRAP) and any(words in stderr for words in _OUT_OF_HEAP):
        return dataclasses.replace(ending, limit="memory_mib")
    return ending
