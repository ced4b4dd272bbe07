"""The nursery's own life: it takes requests from the host one by one, forks sandboxes, and reaps them.

Requests and answers are JSON datagrams over a `SOCK_SEQPACKET` socket, with descriptors beside them (`SCM_RIGHTS`).
When the host's end is closed, by intent or because the host has died, every sandbox is ended and the nursery with them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import sys

from ..guest.rehearsal import rehearse
from . import linux, seccomp
from .child import Birth, be_child
from .datagrams import DescriptorsLost, receive, send
from .host_mounts import HostMounts, Refused, open_sockets
from .identity import Identity, has_privilege
from .places import Places
from .preload import LeftThreads, import_all
from .share import share_memory

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, NoReturn, Tuple

    from .places import Points

    Answer = Tuple[Dict[str, Any], List[int]]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# After so many the interpreter has adapted its code to what it does, and does not write to it any more in children.
_REHEARSALS = 20


def main(descriptor: int) -> NoReturn:
    """Serve the host at the other end of a socket, until it is gone."""
    os.umask(0o022)  # guests of another id must be able to enter what is made here, whatever the host's mask is
    linux.set_name("actbox-nursery")
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
        self._identity = Identity(has_privilege())
        self._answers: dict[str, Callable[..., Answer]] = {
            "prepare": self._prepare,
            "open_workspace": self._open_workspace,
            "close_workspace": self._close_workspace,
            "mounts": self._mounts,
            "forget_names": self._forget_names,
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
        try:
            data, descriptors = receive(self._control)
        except DescriptorsLost as error:
            send(self._control, {"error": error.strerror}, [])
            return True
        if not data:
            return False
        answer: dict[str, Any] = {}
        sent: list[int] = []
        try:
            request = json.loads(data)
            answer, sent = self._answers[request.pop("op")](descriptors, **request)
        except Refused as refusal:
            answer = {"refused": str(refusal)}
        except Exception as error:  # the host decides what a failed request means
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        try:
            send(self._control, answer, sent)
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            # What was made ends with its descriptors, or is removed when the host next asks for that.
            send(self._control, {"error": error.strerror}, [])
        finally:
            for descriptor in sent:
                os.close(descriptor)
        return True

    def _prepare(
        self,
        descriptors: list[int],
        environment: list[str],
        packages: list[str],
        preload: list[str],
        variables: dict[str, str],
        kept: bool,
    ) -> Answer:
        """Enter the nursery's namespaces, make what all sandboxes share, import what they start with.

        The first request. `kept` says that the descriptors are those that an earlier nursery answered with: its user
        namespace (none where it was root) and its shelf of workspaces, which are taken up again.
        """
        identity = self._identity
        shelf = os.dup(descriptors[-1]) if kept else -1
        owner_namespace = identity.owner_namespace() if identity.privileged else -1
        sockets = open_sockets()
        identity.enter(descriptors[0] if kept and not identity.privileged else -1)
        self._places = Places(environment, shelf)
        self._host_mounts = HostMounts(identity, owner_namespace, sockets)
        self._variables = variables
        self._birthplace = self._places.birthplace([])
        self._filters = {
            (forkable, counted): seccomp.build(chroot=forkable, counted=counted)
            for forkable in (False, True)
            for counted in (False, True)
        }
        for folder in packages:
            if folder not in sys.path:
                import site

                site.addsitedir(folder)
        try:
            warnings = import_all(preload, lambda name: send(self._control, {"importing": name}, []))
        except LeftThreads:
            return {"left_threads": True}, []
        for _ in range(_REHEARSALS):
            rehearse()
        share_memory()
        sys.dont_write_bytecode = True  # for guests, who see nothing that they could write to
        answer = {"privileged": identity.privileged, "host_id": identity.host_id, "warnings": warnings}
        users = [] if identity.privileged else [os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)]
        return answer, [*users, os.dup(self._places.shelf)]

    def _open_workspace(self, descriptors: list[int], name: str, size_mib: int, inodes: int) -> Answer:
        """Make a workspace; answer with its folder, which the host keeps."""
        path = self._places.workspace_path(name)
        options = "size=%dm,nr_inodes=%d,mode=0755" % (size_mib, inodes)
        with self._places.at(self._places.shelf):
            os.mkdir(path)
            linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
            self._give(path)
            for folder in ("input", "output"):
                os.mkdir("%s/%s" % (path, folder), 0o755)
                self._give("%s/%s" % (path, folder))
            workspace = os.open(path, _FOLDER)
        return {}, [workspace]

    def _close_workspace(self, descriptors: list[int], names: list[str]) -> Answer:
        with self._places.at(self._places.shelf):
            for name in names:
                path = self._places.workspace_path(name)
                with contextlib.suppress(FileNotFoundError):  # an earlier nursery did it, and died before it said so
                    linux.umount(path, linux.MNT_DETACH)
                    os.rmdir(path)
        return {}, []

    def _give(self, path: str) -> None:
        if self._identity.privileged:
            os.chown(path, self._identity.host_id, self._identity.host_id)

    def _mounts(self, descriptors: list[int], workspace: str, mounts: list[dict[str, Any]]) -> Answer:
        """Answer with what one run attaches: its workspace, if one is named, the inputs in it read-only, its mounts."""
        made: list[int] = []
        try:
            if workspace:
                self._workspace_mounts(workspace, made)
            for mount in mounts:
                made += self._host_mounts.make(mount)
        except BaseException:
            for descriptor in made:
                os.close(descriptor)
            raise
        return {}, made

    def _forget_names(self, descriptors: list[int]) -> Answer:
        """Have names at a sandbox's `/input`, a descriptor, looked up anew: pid 1 has no right to that any more."""
        (folder,) = descriptors
        linux.forget_names(folder)
        return {}, []

    def _workspace_mounts(self, name: str, made: list[int]) -> None:
        with self._places.at(self._places.shelf):
            path = self._places.workspace_path(name)
            made.append(linux.open_tree(linux.AT_FDCWD, path, linux.OPEN_TREE_CLONE))
            # By descriptor, never by path: what a guest did to the names in its workspace must not lead us anywhere.
            folder = self._input_folder(path)
            try:
                made.append(linux.open_tree(folder, "", linux.OPEN_TREE_CLONE | linux.AT_EMPTY_PATH))
            finally:
                os.close(folder)
        attributes = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        linux.mount_setattr(made[-1], linux.AT_EMPTY_PATH, attributes, 0)

    def _input_folder(self, workspace: str) -> int:
        """Open the folder of inputs, making it where it is missing; a guest may have put a link in its place."""
        path = workspace + "/input"
        try:
            os.mkdir(path, 0o755)
            self._give(path)
        except FileExistsError:
            pass
        return os.open(path, _FOLDER)

    def _spawn(
        self,
        descriptors: list[int],
        groups: list[str],
        points: Points,
        tmp_mib: int,
        inodes: int,
        forkable: bool,
    ) -> Answer:
        """Fork a sandbox that waits for a run.

        `groups` names the descriptors that come with the request, which concern its control group. The answer brings
        the host's ends: a handle on pid 1, its control socket, the guest's channel, stdout and stderr.
        """
        counted = "memory_events" in groups
        birth = Birth(
            groups=dict(zip(groups, descriptors)),  # noqa: B905 (there is none before CPython 3.10)
            counted=counted,
            late=[(path, linux.open_tree(linux.AT_FDCWD, place, _LATE)) for place, path in self._places.late],
            readable=self._places.readable,
            identity=self._identity,
            filter_program=self._filters[forkable, counted],
            tmp_mib=tmp_mib,
            inodes=inodes,
            forkable=forkable,
            variables=self._variables,
        )
        theirs = [descriptor for _, descriptor in birth.late]
        ours: list[int] = []
        try:
            sync, birth.sync = (end.detach() for end in socket.socketpair())
            theirs.append(birth.sync)
            ours.append(sync)
            for name, kind in (("control", socket.SOCK_SEQPACKET), ("channel", socket.SOCK_STREAM)):
                our_end, their_end = socket.socketpair(socket.AF_UNIX, kind)
                ours.append(our_end.detach())
                theirs.append(their_end.detach())
                setattr(birth, name, theirs[-1])
            for name in ("stdout", "stderr"):
                read, write = os.pipe2(os.O_CLOEXEC)
                ours.append(read)
                theirs.append(write)
                setattr(birth, name, write)
            pid = self._bear(birth, self._places.birthplace(points) if points else self._birthplace, sync)
            ours.append(linux.pidfd_open(pid))  # before it is reaped, so that it cannot mean another
            ours.remove(sync)
            os.close(sync)
            return {"pid": pid}, ours
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _bear(self, birth: Birth, place: int, sync: int) -> int:
        """Fork pid 1 of a sandbox in its namespaces, let it go on, and return its pid out here."""
        with self._places.at(place):
            pid = linux.fork_into(birth.namespaces)
            if pid == 0:
                be_child(birth)
        self._children.add(pid)
        if self._identity.privileged:
            self._identity.map_child(pid)
        os.write(sync, b"x")
        return pid


_LATE = linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE
