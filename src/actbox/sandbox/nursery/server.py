"""The nursery's own life: it takes requests from the host one by one, forks sandboxes, and reaps them.

Requests and answers are JSON datagrams over a `SOCK_SEQPACKET` socket, with descriptors beside them (`SCM_RIGHTS`).
When the host's end is closed, by intent or because the host has died, every sandbox is ended and the nursery with them.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from . import linux, seccomp
from .child import be_child
from .identity import Identity, has_privilege
from .root import STAGE, Templates

MAX_REQUEST = 256 * 1024
MAX_DESCRIPTORS = 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def main(descriptor: int) -> NoReturn:
    """Serve the host at the other end of a socket, until it is gone."""
    os.umask(0o022)  # guests of another id must be able to enter what is made here, whatever the host's mask is
    control = socket.socket(fileno=descriptor)
    nursery = _Nursery(control)
    try:
        nursery.serve()
    finally:
        nursery.end_children()
    os._exit(0)


class _Nursery:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: set[int] = set()
        self._workspaces: dict[str, int] = {}
        self._identity = Identity(has_privilege())
        self._answers: dict[str, Callable[..., tuple[dict[str, Any], list[int]]]] = {
            "prepare": self._prepare,
            "open_workspace": self._open_workspace,
            "close_workspace": self._close_workspace,
            "spawn": self._spawn,
        }

    def serve(self) -> None:
        # A descriptor that becomes readable when a child ends, so that one poll() waits for both.
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        while True:
            for ready, _ in poll.poll():
                if ready == wake_read:
                    os.read(wake_read, 4096)
                    self._reap()
                elif not self._answer():
                    return

    def end_children(self) -> None:
        for child in self._children:
            os.kill(child, signal.SIGKILL)
        while self._children:
            pid, _ = os.waitpid(-1, 0)
            self._children.discard(pid)

    def _reap(self) -> None:
        while self._children:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._children.discard(pid)

    def _answer(self) -> bool:
        """Take one request and answer it; return whether there was one."""
        data, descriptors = receive(self._control)
        if not data:
            return False
        answer: dict[str, Any] = {}
        sent: list[int] = []
        try:
            request = json.loads(data)
            answer, sent = self._answers[request.pop("op")](descriptors, **request)
        except Exception as error:  # the host decides what a failed request means
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        send(self._control, answer, sent)
        for descriptor in sent:
            os.close(descriptor)
        return True

    def _prepare(self, descriptors: list[int], environment: list[str], packages: list[str]) -> Any:
        """Enter the nursery's namespaces and make what all sandboxes share. The first request."""
        identity = self._identity
        self._owner_namespace = identity.owner_namespace() if identity.privileged else -1
        identity.enter()
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE, None)
        self._templates = Templates(environment)
        linux.set_child_subreaper()
        self._filter = seccomp.build()
        for folder in packages:
            if folder not in sys.path:
                import site

                site.addsitedir(folder)
        return {"privileged": identity.privileged, "host_id": identity.host_id}, []

    def _open_workspace(self, descriptors: list[int], name: str, size_mib: int, inodes: int) -> Any:
        path = "%s/workspace/%s" % (STAGE, name)
        os.makedirs(path)
        options = "size=%dm,nr_inodes=%d,mode=0755" % (size_mib, inodes)
        linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
        self._workspaces[name] = workspace = os.open(path, _FOLDER)
        self._give(workspace)
        for folder in ("input", "output"):
            os.close(self._folder_in(workspace, folder))
        return {}, [os.dup(workspace)]

    def _close_workspace(self, descriptors: list[int], name: str) -> Any:
        os.close(self._workspaces.pop(name))
        path = "%s/workspace/%s" % (STAGE, name)
        linux.umount(path, linux.MNT_DETACH)
        os.rmdir(path)
        return {}, []

    def _folder_in(self, workspace: int, name: str) -> int:
        """Open a folder of a workspace, making it where it is missing; a guest may have put a link in its place."""
        try:
            os.mkdir(name, 0o755, dir_fd=workspace)
        except FileExistsError:
            return os.open(name, _FOLDER, dir_fd=workspace)
        folder = os.open(name, _FOLDER, dir_fd=workspace)
        self._give(folder)
        return folder

    def _give(self, descriptor: int) -> None:
        if self._identity.privileged:
            os.fchown(descriptor, self._identity.host_id, self._identity.host_id)

    def _spawn(self, descriptors: list[int], **request: Any) -> Any:
        """Fork a sandbox. `names` says what each descriptor is: stdin, stdout, stderr, channel, status, cgroups."""
        given = dict(zip(request["names"], descriptors))  # noqa: B905 (there is none before CPython 3.10)
        opened: list[int] = []
        ours, theirs = socket.socketpair()
        try:
            template = self._templates.path_for(_points(request["mounts"]))
            given["workspace"], given["input"] = self._workspace_mounts(request["workspace"], opened)
            mounts = [(mount, self._mount(mount, opened)) for mount in request["mounts"]]
            for place, path in self._templates.late:
                late = {"path": path, "mode": "ro", "is_folder": True}
                mounts.append((late, _open_tree(linux.AT_FDCWD, place, opened, linux.AT_RECURSIVE)))
            maker = os.fork()
            if maker == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self._control.close()
                ours.close()
                be_child(request, given, mounts, template, self._identity, theirs.fileno(), self._filter)
            theirs.close()
            try:
                if self._identity.privileged and ours.recv(1):
                    self._identity.map_child(maker)
                    ours.send(b"x")
                told = ours.recv(20)
            except BaseException:
                ours.close()  # by which the maker learns that it is to end
                raise
            finally:
                os.waitpid(maker, 0)
            if not told:  # it has written down why
                return {"pid": 0}, []
            pid = int(told)
            self._children.add(pid)
            held = linux.pidfd_open(pid)  # before it may go on, and so before it can have ended
            ours.send(b"x")
            return {"pid": pid}, [held]
        finally:
            ours.close()
            theirs.close()
            for descriptor in opened:
                os.close(descriptor)

    def _workspace_mounts(self, name: str, opened: list[int]) -> tuple[int, int]:
        """Return a copy of the workspace to be mounted, and a read-only one of its inputs."""
        folder = self._workspaces[name]
        workspace = _open_tree(folder, "", opened)
        # By descriptor, never by path: what a guest did to the names in its workspace must not lead us anywhere.
        opened.append(self._folder_in(folder, "input"))
        inputs = _open_tree(opened[-1], "", opened)
        attributes = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        linux.mount_setattr(inputs, linux.AT_EMPTY_PATH, attributes, 0)
        return workspace, inputs

    def _mount(self, mount: dict[str, Any], opened: list[int]) -> int:
        descriptor = _open_tree(linux.AT_FDCWD, mount["host_path"], opened, linux.AT_RECURSIVE)
        attributes = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        if mount["mode"] == "ro":
            attributes |= linux.MOUNT_ATTR_RDONLY
        flags = linux.AT_EMPTY_PATH | linux.AT_RECURSIVE
        linux.mount_setattr(descriptor, flags, attributes, 0)
        if self._identity.privileged:
            # A file system that cannot show root's files as the guest's leaves the guest with what others may do.
            with contextlib.suppress(OSError):
                linux.mount_setattr(descriptor, flags, linux.MOUNT_ATTR_IDMAP, 0, userns_fd=self._owner_namespace)
        return descriptor


def _points(mounts: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    return [(mount["path"], mount["is_folder"]) for mount in mounts if not mount["path"].startswith("/workspace/")]


def _open_tree(folder: int, path: str, opened: list[int], flags: int = 0) -> int:
    flags |= linux.OPEN_TREE_CLONE | linux.OPEN_TREE_CLOEXEC | (0 if path else linux.AT_EMPTY_PATH)
    descriptor = linux.open_tree(folder, path, flags)
    opened.append(descriptor)
    return descriptor


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Receive one datagram and the descriptors beside it, which are not inherited by programs."""
    descriptors = array.array("i")
    data, ancillary, _, _ = sock.recvmsg(
        MAX_REQUEST, socket.CMSG_SPACE(MAX_DESCRIPTORS * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return data, list(descriptors)


def send(sock: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    """Send one datagram with descriptors beside it."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sock.sendmsg([json.dumps(message).encode()], rights)
