"""The nursery's main loop: takes requests from the host one by one, forks sandboxes, and reaps them.

Requests and answers are JSON datagrams over a `SOCK_SEQPACKET` socket, with descriptors (`SCM_RIGHTS`). When the host
closes its end, on purpose or by dying, the nursery kills every sandbox and exits.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import sys

from ..guest.beneath import open_folder
from ..guest.main import prepare
from ..guest.rehearsal import rehearse
from . import linux, seccomp
from .attach import SHARED
from .child import Birth, be_child
from .host_mounts import HostMounts, Refused, open_sockets
from .identity import Identity, has_privilege
from .inherited import reset_inherited
from .passing import DescriptorsLost, receive, refuse_descriptors, send
from .places import Places
from .preload import LeftThreads, import_all
from .share import share_memory

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, NoReturn, Tuple

    from .places import Points

    Answer = Tuple[Dict[str, Any], List[int]]

# One rehearsal writes to nearly all pages that a run writes to. After all of them the interpreter has specialized its
# bytecode too; the later ones wait for the first pause.
_REHEARSALS_AT_FIRST, _LATER_REHEARSALS = 1, 19
# The directory of a run, and two in it.
_INODES_OF_A_RUN = 3
_MOST_OWNERS = 16
# How requests begin that name files of the host, or the places of mounts; the longest of these beginnings.
_ABOUT_MOUNTS = (b'{"op": "host_mounts"', b'{"op": "check_host_mounts"', b'{"op": "birthplace"')
_LONGEST_BEGINNING = max(map(len, _ABOUT_MOUNTS))
# Making objects immortal takes a processor for tens of milliseconds. So that no first sandbox waits for it, the
# nursery does it at the first pause of this length after the host's trial and its first run have ended. Until then only
# a longer pause counts, such as that of a host whose first sandbox goes on: a busy host pauses too before it has its
# first answer. Without a pause the nursery does it after this many sandboxes, or before one that may be forked.
_PAUSE_MS, _LONG_PAUSE_MS = 100, 2000
_ENDED_BEFORE_SHARING = 2
_MOST_BEFORE_SHARING = 8


def main(descriptor: int) -> NoReturn:
    """Serve the host at the other end of a socket until the socket is closed."""
    reset_inherited()
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
        self._owner_namespaces: dict[int, int] = {}
        self._births = 0
        self._ends = 0
        self._shares_memory = False
        """True once what is forked from now on shares most of this process's memory."""
        self._standard_path = list(sys.path)
        self._helper: socket.socket | None = None
        """The socket to the process that fulfills requests about files of the host, once there is one."""
        self._answers: dict[str, Callable[..., Answer]] = {
            "prepare": self._prepare,
            "open_workspace": self._open_workspace,
            "close_workspace": self._close_workspace,
            "mounts": self._mounts,
            "host_mounts": self._mounts,
            "check_host_mounts": self._check_mounts,
            "birthplace": self._make_birthplace,
            "forget_names": self._forget_names,
            "spawn": self._spawn,
        }

    def serve(self) -> None:
        # A descriptor that becomes readable when a child ends, so that one poll() waits for both.
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _hear_of_ends()
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        while True:
            found = poll.poll(self._pause_ms())
            if not found or self._births >= _MOST_BEFORE_SHARING:
                self._share()
            for ready, _ in found:
                if ready == wake_read:
                    os.read(wake_read, 4096)
                    self._reap()
                elif not self._answer():
                    return

    def _pause_ms(self) -> int | None:
        """Return how long a pause has to be for sharing memory in it, `None` if that is not to be done."""
        if not self._births or self._shares_memory:
            return None
        return _PAUSE_MS if self._ends >= _ENDED_BEFORE_SHARING else _LONG_PAUSE_MS

    def _share(self) -> None:
        if not self._shares_memory:
            _rehearse(_LATER_REHEARSALS)
            _import_asyncio(self._standard_path)
            share_memory()
            self._shares_memory = True

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
            self._ends += 1

    def _answer(self) -> bool:
        """Have one request answered, here or in the helper; return false at the end of the socket."""
        begins = self._control.recv(_LONGEST_BEGINNING, socket.MSG_PEEK)
        return self._answer_in_helper() if begins.startswith(_ABOUT_MOUNTS) else self._answer_here()

    def _answer_in_helper(self) -> bool:
        """Have a process of its own receive one request and answer it.

        So what such requests name, and what is read of the host to fulfill them, is never in this process's memory,
        which the guests of all sandboxes inherit.
        """
        if self._helper is None:
            self._helper, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                self._help(theirs)
            theirs.close()
            self._children.add(pid)
        self._helper.send(b"x")
        if not self._helper.recv(1):
            raise OSError(errno.ECHILD, "the process for mounts of the host has ended")
        return True

    def _help(self, orders: socket.socket) -> NoReturn:
        """Answer a request whenever the nursery says so, until it has ended."""
        assert self._helper is not None
        try:
            signal.set_wakeup_fd(-1)
            self._helper.close()
            linux.set_name("actbox-mounts")
            while orders.recv(1):
                self._answer_here()
                orders.send(b"x")
        except BaseException:
            sys.excepthook(*sys.exc_info())  # the host reads the last line
            os._exit(1)
        os._exit(0)

    def _answer_here(self) -> bool:
        """Receive one request and answer it; return false at the end of the socket."""
        try:
            data, descriptors = receive(self._control)
        except DescriptorsLost as error:
            send(self._control, {"error": error.strerror}, [])
            return True
        if not data:
            return False
        answer: dict[str, Any] = {}
        sent: list[int] = []
        request = json.loads(data)
        number = request.pop("number")
        try:
            answer, sent = self._answers[request.pop("op")](descriptors, **request)
        except Refused as refusal:
            answer = {"refused": str(refusal)}
        except Exception as error:  # the host decides what a failed request means
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        try:
            send(self._control, {"number": number, **answer}, sent)
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            # Things already made end with their descriptors, or are removed when the host next asks for that.
            send(self._control, {"number": number, "error": error.strerror}, [])
        finally:
            for descriptor in sent:
                os.close(descriptor)
        return True

    def _prepare(
        self,
        descriptors: list[int],
        environment: list[str],
        packages: list[str],
        left: dict[str, list[str]],
        trusted: bool,
        runs_pth: bool,
        preload: list[str],
        variables: dict[str, str],
        kept: bool,
    ) -> Answer:
        """Enter the nursery's namespaces, make what all sandboxes share, and import the preload list.

        `left` is as in `Places`. Only `trusted` packages can be preloaded: this process has all rights. With `runs_pth`
        the `.pth` files of the packages are processed, which may run code.

        This is the first request. With `kept` the descriptors are those of an earlier nursery's answer, its user
        namespace (none under root) and its mount namespace of workspaces (`shelf`), which are used again.
        """
        identity = self._identity
        shelf = os.dup(descriptors[-1]) if kept else -1
        sockets = open_sockets()
        identity.enter(descriptors[0] if kept and not identity.privileged else -1)
        self._places = Places(environment, left, shelf)
        self._host_mounts = HostMounts(self._owner_namespace if identity.privileged else None, sockets)
        self._birthplace = self._places.birthplace([])
        if trusted:
            _import_from(packages, runs_pth)
        try:
            warnings = import_all(preload, lambda name: send(self._control, {"importing": name}, []))
        except LeftThreads:
            return {"left_threads": True}, []
        if not trusted:
            _import_from(packages, runs_pth)
        _prepare_guests()
        _rehearse(_REHEARSALS_AT_FIRST)
        os.environ.clear()
        os.environ.update(variables)  # here, so that no guest does it in its own copies of pages
        gc.enable()  # the process was started without it
        gc.freeze()  # the collector of a sandbox writes to each object that it visits, and now visits none of these
        sys.dont_write_bytecode = True  # for guests, who can write to none of these places
        answer = {"privileged": identity.privileged, "warnings": warnings}
        users = [] if identity.privileged else [os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)]
        return answer, [*users, os.dup(self._places.shelf)]

    def _open_workspace(
        self, descriptors: list[int], name: str, host_id: int, size_mib: int, inodes: int, runs: int
    ) -> Answer:
        """Make a workspace; answer with a descriptor of its directory, which the host keeps.

        As root, `host_id` owns it. If its file system is also for what programs write elsewhere, `runs` is for how many
        simultaneous runs it has directories from the start, even when programs have used up its inodes, and the answer
        has a descriptor of their parent.
        """
        path = self._places.workspace_path(name)
        options = "size=%dm,nr_inodes=%d,mode=0755" % (size_mib, inodes + _INODES_OF_A_RUN * runs)
        with self._places.at(self._places.shelf):
            os.mkdir(path)
            linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
            self._give(path, host_id)
            place = path + "/workspace" if runs else path
            folders = [path + "/runs", place] if runs else []
            for run in range(runs):
                folders += ["%s/runs/%d%s" % (path, run, below) for below in ("", "/tmp", "/shm")]
            for folder in (*folders, place + "/input", place + "/output"):
                os.mkdir(folder, 0o755)
                self._give(folder, host_id)
            opened = [open_folder(place), *([open_folder(path + "/runs")] if runs else [])]
        return {}, opened

    def _close_workspace(self, descriptors: list[int], names: list[str]) -> Answer:
        with self._places.at(self._places.shelf):
            for name in names:
                path = self._places.workspace_path(name)
                with contextlib.suppress(FileNotFoundError):  # an earlier nursery did it, and died before it answered
                    linux.umount(path, linux.MNT_DETACH)
                    os.rmdir(path)
        return {}, []

    def _give(self, path: str, host_id: int) -> None:
        if self._identity.privileged:
            os.chown(path, host_id, host_id)

    def _mounts(
        self, descriptors: list[int], workspace: str, host_id: int, mounts: list[dict[str, Any]], run: str
    ) -> Answer:
        """Answer with a run's mounts: the workspace if one is named, its inputs read-only, then the policy's mounts.

        As root, `host_id` owns what the guest may write. `run` names the directory for what the run writes elsewhere,
        if that shares the workspace's file system, else "".
        """
        made: list[int] = []
        try:
            if workspace:
                self._workspace_mounts(workspace, run, host_id, made)
            for mount in mounts:
                if mount["mode"] == SHARED:
                    self._shared_mount(workspace, run, mount["path"], host_id, made)
                else:
                    made += self._host_mounts.make(mount, host_id)
        except BaseException:
            for descriptor in made:
                os.close(descriptor)
            raise
        return {}, made

    def _check_mounts(self, descriptors: list[int], mounts: list[dict[str, Any]]) -> Answer:
        """Refuse as `_mounts` does if a file or directory of the policy cannot be mounted any more."""
        for mount in mounts:
            self._host_mounts.check(mount)
        return {}, []

    def _owner_namespace(self, host_id: int) -> int:
        """Return a descriptor of `Identity.owner_namespace(host_id)`; the latest ids' namespaces are cached."""
        if host_id not in self._owner_namespaces:
            if len(self._owner_namespaces) >= _MOST_OWNERS:
                os.close(self._owner_namespaces.pop(next(iter(self._owner_namespaces))))
            self._owner_namespaces[host_id] = self._identity.owner_namespace(host_id)
        return os.dup(self._owner_namespaces[host_id])

    def _forget_names(self, descriptors: list[int]) -> Answer:
        """Make the kernel drop its cached names for a sandbox's `/input`, a descriptor; pid 1 has no right to do so."""
        (folder,) = descriptors
        linux.forget_names(folder)
        return {}, []

    def _shared_mount(self, workspace: str, run: str, place: str, host_id: int, made: list[int]) -> None:
        """Add the mount of a directory for what a run writes at a place beside its workspace, such as `/tmp`.

        It is made if need be, and the mount has the flags that the place has with a file system of its own.
        """
        with self._places.at(self._places.shelf):
            folder = "%s/runs/%s" % (self._places.workspace_path(workspace), run)
            path = "%s/%s" % (folder, os.path.basename(place))
            for needed, mode in ((folder, 0o755), (path, 0o1777)):
                if not os.path.exists(needed):
                    os.mkdir(needed)
                self._give(needed, host_id)
                os.chmod(needed, mode)
            made.append(linux.open_tree(linux.AT_FDCWD, path, linux.OPEN_TREE_CLONE))
        attributes = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        attributes |= linux.MOUNT_ATTR_NOEXEC if place == "/dev/shm" else 0
        linux.mount_setattr(made[-1], linux.AT_EMPTY_PATH, attributes, 0)

    def _workspace_mounts(self, name: str, run: str, host_id: int, made: list[int]) -> None:
        with self._places.at(self._places.shelf):
            path = self._places.workspace_path(name) + ("/workspace" if run else "")
            made.append(linux.open_tree(linux.AT_FDCWD, path, linux.OPEN_TREE_CLONE))
            # By descriptor, never by path: links that a guest left in its workspace must not redirect us.
            folder = self._input_folder(path, host_id)
            try:
                made.append(linux.open_tree(folder, "", linux.OPEN_TREE_CLONE | linux.AT_EMPTY_PATH))
            finally:
                os.close(folder)
        attributes = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        linux.mount_setattr(made[-1], linux.AT_EMPTY_PATH, attributes, 0)

    def _input_folder(self, workspace: str, host_id: int) -> int:
        """Open the directory of inputs, making it if it is missing; a link that a guest left there is not followed."""
        path = workspace + "/input"
        try:
            os.mkdir(path, 0o755)
            self._give(path, host_id)
        except FileExistsError:
            pass
        return open_folder(path)

    def _make_birthplace(self, descriptors: list[int], points: Points) -> Answer:
        """Answer with the namespace of a template that has these mount points."""
        return {}, [os.dup(self._places.birthplace(points))]

    def _spawn(
        self,
        descriptors: list[int],
        groups: list[str],
        host_id: int,
        placed: bool,
        tmp_mib: int,
        inodes: int,
        forkable: bool,
    ) -> Answer:
        """Fork a sandbox that waits for a run. As root, its guests are `host_id` outside.

        `groups` names the request's descriptors, which are files of its control group; with `placed` one more is the
        namespace of its template, as `_make_birthplace` answers. The answer carries the host's ends: a pidfd of pid 1,
        its control socket, the guest's channel, stdout and stderr; and whether the sandbox shares most of this
        process's memory.
        """
        if forkable:
            self._share()  # each copy of its guest would write to all the pages that sharing spares it
        counted = "memory_events" in groups
        birth = Birth(
            groups=dict(zip(groups, descriptors)),  # noqa: B905 (there is none before CPython 3.10)
            counted=counted,
            late=[(path, linux.open_tree(linux.AT_FDCWD, place, _LATE)) for place, path in self._places.late],
            readable=self._places.readable,
            identity=self._identity,
            filter_program=seccomp.build(chroot=forkable, counted=counted),
            tmp_mib=tmp_mib,
            inodes=inodes,
            forkable=forkable,
        )
        theirs = [descriptor for _, descriptor in birth.late]
        ours: list[int] = []
        try:
            sync, birth.sync = (end.detach() for end in socket.socketpair())
            theirs.append(birth.sync)
            ours.append(sync)
            for name, kind in (("control", socket.SOCK_SEQPACKET), ("channel", socket.SOCK_STREAM)):
                our_end, their_end = socket.socketpair(socket.AF_UNIX, kind)
                if name == "channel":
                    refuse_descriptors(our_end)
                ours.append(our_end.detach())
                theirs.append(their_end.detach())
                setattr(birth, name, theirs[-1])
            for name in ("stdout", "stderr"):
                read, write = os.pipe2(os.O_CLOEXEC)
                if self._identity.privileged:
                    os.fchown(write, host_id, host_id)  # so that the guest can open it again, as `/dev/stdout`
                ours.append(read)
                theirs.append(write)
                setattr(birth, name, write)
            place = descriptors[-1] if placed else self._birthplace
            pid = self._bear(birth, host_id, place, sync)
            ours.append(linux.pidfd_open(pid))  # before it is reaped, while the pid is certainly its own
            ours.remove(sync)
            os.close(sync)
            return {"pid": pid, "shares_memory": self._shares_memory}, ours
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _bear(self, birth: Birth, host_id: int, place: int, sync: int) -> int:
        """Fork pid 1 of a sandbox in its own namespaces, let it go on, and return its pid as seen here."""
        with self._places.at(place), self._identity.owning(host_id):
            pid = linux.fork_into(birth.namespaces)
            if pid == 0:
                be_child(birth)
        self._children.add(pid)
        self._births += 1
        if self._identity.privileged:
            self._identity.map_child(pid, host_id)
        os.write(sync, b"x")
        return pid


def _hear_of_ends() -> None:
    signal.signal(signal.SIGCHLD, lambda number, frame: None)


def _prepare_guests() -> None:
    """Do what each guest would do for itself; after the preload list, whose modules may have done otherwise."""
    pipe, kept = os.pipe2(os.O_CLOEXEC), [os.dup(1), os.dup(2)]
    for number in (1, 2):
        os.dup2(pipe[1], number)
    prepare()
    for number, descriptor in enumerate(kept, 1):
        os.dup2(descriptor, number)
    for descriptor in (*pipe, *kept):
        os.close(descriptor)
    _hear_of_ends()


def _rehearse(times: int) -> None:
    for _ in range(times):
        rehearse()


_LATE = linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE


def _import_asyncio(path: List[str]) -> None:
    """Import what each session needs, and each program that awaits, from a path without packages.

    Packages may be untrusted, and the standard library tries to import modules that it may lack, such as `_ssl`.
    """
    with_packages, sys.path = sys.path, path
    try:
        import asyncio  # noqa: F401
    finally:
        sys.path = with_packages


def _import_from(folders: list[str], runs_pth: bool) -> None:
    for folder in folders:
        if folder in sys.path:
            continue
        if runs_pth:
            import site

            site.addsitedir(folder)
        else:
            sys.path.append(folder)
