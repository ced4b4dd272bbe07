"""One sandbox from its start to its end, as run by the process that is its pid 1.

Pid 1 runs our code and lives as long as the sandbox. It builds the sandbox around itself and forks the guest into it;
both then wait. When the host takes the sandbox for a run, pid 1 attaches the run's mounts and lets the guest go on.
From then on it reaps the guest's leftover processes, enforces the limits that no kernel mechanism enforces, and tells
the host how the guest ended. When pid 1 ends, or is killed, the kernel ends everything in the sandbox.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal

from ..guest import main as guest
from ..guest.limits import FIRST_TO_GO, set_oom_score
from . import landlock, linux, seccomp
from .attach import CannotAttach, attach_late, attach_run, attach_shared, mount_own, open_inputs, resize_own
from .control import Control
from .family import Family, mount_trees
from .gate import listen, place_files
from .held_by_sockets import bound_tcp
from .identity import Identity
from .lane import Lane, can_begin, capabilities_for
from .machine_files import MachineFiles
from .places import ROOT
from .root import map_no_zeros
from .watch import OneGuest, Watcher, watch
from .watches import allow_one_more, bound_own

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
# The descriptors of a guest: the three of every process, the channel, a pipe that tells it to go on, and the Landlock
# ruleset that it then enters.
_CHANNEL, _PIPE, _MOST = 3, 4, 6


class Birth:
    """The descriptors and settings with which a sandbox is started."""

    namespaces = _NAMESPACES
    sync: int
    """A socket to the nursery, which reports when it has done its part."""
    control: int
    channel: int
    stdout: int
    stderr: int

    def __init__(
        self,
        groups: Dict[str, int],
        counted: bool,
        late: List[Tuple[str, int]],
        readable: List[str],
        identity: Identity,
        filter_program: bytes,
        tmp_mib: int,
        inodes: int,
        forkable: bool,
    ) -> None:
        self.groups = groups
        """Files of the sandbox's control groups: the guest joins by writing to those whose name begins with `join`."""
        self.counted = counted
        """True if a control group counts its memory; else it gets no kind of memory that pid 1 could not see."""
        self.late = late
        """Mounts of the environment that go below the sandbox's own directories: (path, mount)."""
        self.readable = readable
        """Host directories besides `/usr` that the root shows."""
        self.identity = identity
        self.filter_program = filter_program
        self.tmp_mib = tmp_mib
        self.inodes = inodes
        self.forkable = forkable


def be_child(birth: Birth) -> NoReturn:
    """Run as pid 1 of a new sandbox, already in its own namespaces; never returns."""
    control = Control(birth.control)
    try:
        linux.set_name("actbox-init")
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # The filter keeps a guest from signalling us. Without it the kernel would do so for the guest, which has our
        # user, as the owner of a descriptor (F_SETOWN). So we handle none, and read what has come from a descriptor.
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        late = [descriptor for _, descriptor in birth.late]
        ends = [birth.sync, birth.control, birth.channel, birth.stdout, birth.stderr]
        _keep_only([*ends, *late, *birth.groups.values()])
        linux.set_parent_death_signal(signal.SIGKILL)
        if os.read(birth.sync, 1) != b"x":
            os._exit(1)  # the nursery has ended
        os.setsid()
        os.umask(0o022)
        has_cgroup_namespaces = os.path.exists("/proc/self/ns/cgroup")  # a kernel may be built without them
        birth.identity.become_guest()
        linux.set_parent_death_signal(signal.SIGKILL)  # the change of ids has reset it
        linux.sethostname("actbox")
        linux.bring_loopback_up()
        # For counting processes; made while the host's own /proc is still visible, as the kernel demands.
        proc = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=linux.detached_mount("proc", {}))
        bound_own(proc)
        bound_tcp(proc)
        trees, machine = _build_root(birth)
        rules = landlock.standing_rules(birth.readable, trees)
        linux.gain_no_capabilities()  # before the fork, so that the guest need not do it again
        go_read, go_write = os.pipe()

        def be_guest(ends: List[int], rules: int, ready: int, ahead: Dict[str, Any]) -> NoReturn:
            _be_guest(birth, ends, rules, ready, has_cgroup_namespaces, ahead)

        first = os.fork()
        if first == 0:
            ends = [birth.stdout, birth.stderr, birth.channel]
            _be_guest(birth, ends, rules, go_read, has_cgroup_namespaces)
        kept = [birth.control, proc, go_write, trees, rules, *machine.descriptors, *birth.groups.values(), *late]
        _keep_only([descriptor for descriptor in kept if descriptor >= 0])
        linux.set_dumpable(False)
        groups = {name: file for name, file in birth.groups.items() if not name.startswith("join")}
        _live(first, control, birth, Watcher(proc, groups, machine), go_write, trees, rules, proc, be_guest)
    except CannotAttach as reason:
        control.say({"refused": str(reason)})
        os._exit(1)
    except BaseException as error:
        control.say({"failure": "%s: %s" % (type(error).__name__, error)})
        os._exit(1)


def _build_root(birth: Birth) -> Tuple[int, MachineFiles]:
    """Build the sandbox's root and enter it; return the trees' descriptor and the `/proc` files written for each run.

    The first is the result of `mount_trees` for a sandbox that may be forked, else -1.
    """
    # Our own copy of the template. The mount copied along with the namespace is locked: it cannot be the root, and
    # nothing can be taken out of it.
    linux.mount(ROOT, ROOT, None, linux.MS_BIND | linux.MS_REC, None)
    os.chdir(ROOT)
    mount_own(birth.tmp_mib, birth.inodes)
    if not birth.counted:
        map_no_zeros()
    machine = MachineFiles()
    trees = mount_trees() if birth.forkable else -1
    linux.pivot_root(".", ".")
    linux.umount(".", linux.MNT_DETACH)
    # From here on a path is the guest's path.
    os.chdir("/")
    attach_late(birth.late, below_workspace=False)
    return trees, machine


def _join_groups(birth: Birth, has_cgroup_namespaces: bool) -> None:
    """Join the sandbox's control groups.

    Pid 1 stays outside: it must get its turn when the guest has used up its share.
    """
    for name, descriptor in birth.groups.items():
        if name.startswith("join"):
            os.write(descriptor, b"0")
    if has_cgroup_namespaces:  # whose root is the group of its first process
        linux.unshare(linux.CLONE_NEWCGROUP)


def _be_guest(
    birth: Birth,
    ends: List[int],
    rules: int,
    pipe: int,
    has_cgroup_namespaces: bool,
    ahead: Optional[Dict[str, Any]] = None,
) -> NoReturn:
    """Go on as a guest behind all walls.

    The first one waits until the pipe tells it to go on, and enters Landlock then. Any other does so now, and tells by
    the pipe that all walls stand; `ahead` is what is known of its run, for `guest.main`.
    """
    waits = ahead is None
    try:
        linux.set_name("actbox-guest")
        _join_groups(birth, has_cgroup_namespaces)
        null = os.open("/dev/null", os.O_RDONLY)
        own = [descriptor for descriptor in (null, *ends, pipe, rules) if descriptor >= 0]
        for number, descriptor in enumerate(_out_of_the_way(own)):
            os.dup2(descriptor, number, inheritable=number < _CHANNEL)
        linux.close_range(len(own))
        os.setsid()
        linux.keep_capabilities(frozenset({linux.CAP_SYS_CHROOT}) if birth.forkable else frozenset())
        linux.set_dumpable(True)  # so that it can read its own /proc/self, as every process can
        set_oom_score(FIRST_TO_GO)
        linux.set_no_new_privs()
        seccomp.install(birth.filter_program)
        last = len(own) - 1 if rules >= 0 else rules
        if not waits:
            landlock.enter(last)
            os.write(_PIPE, b"x")
            os.close(_PIPE)
    except BaseException as error:
        _give_up(error)
    if not waits:
        guest.main(_CHANNEL, is_prepared=True, ahead=ahead)
    guest.main(_CHANNEL, _PIPE, lambda: _enter(last), is_prepared=True)


def _enter(rules: int) -> None:
    try:
        landlock.enter(rules)
    except OSError as error:
        _give_up(error)


def _give_up(error: BaseException) -> NoReturn:
    """End a guest that could not be isolated completely, so that no program runs in it."""
    os.write(2, ("the sandbox could not be closed: %s\n" % error).encode())
    os._exit(125)


def _out_of_the_way(descriptors: List[int]) -> List[int]:
    """Return copies of descriptors with numbers above those that a guest uses."""
    return [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _MOST) for descriptor in descriptors]


def _keep_only(descriptors: list[int]) -> None:
    start = 0
    for descriptor in sorted(descriptors):
        if descriptor > start:
            linux.close_range(start, descriptor - 1)
        start = descriptor + 1
    linux.close_range(start)


def _live(
    first: int,
    control: Control,
    birth: Birth,
    watcher: Watcher,
    go: int,
    trees: int,
    rules: int,
    proc: int,
    be_guest: Callable[[List[int], int, int, Dict[str, Any]], NoReturn],
) -> NoReturn:
    """Wait for a run, attach its mounts, let the guest go on, and watch until the guest has ended."""
    late = [path for path, _ in birth.late]
    family = Family(first, control, watcher, trees, late) if birth.forkable else None
    one = OneGuest(first, control, watcher)

    def take(request: Dict[str, Any], descriptors: List[int]) -> None:
        if (request["tmp_mib"], request["inodes"]) != (birth.tmp_mib, birth.inodes):
            resize_own(request["tmp_mib"], request["inodes"])
        if attach_shared(request, descriptors, late):
            watcher.memory.file_systems.clear()  # with the workspace, they have a limit of their own
        overlays = attach_run(request, descriptors)
        watcher.memory.file_systems += overlays
        attach_late(birth.late, below_workspace=True)
        landlock.allow_run(rules, request, descriptors)
        if "files" in request:
            place_files(request["files"], descriptors[-len(request["files"]) :])
        if "hold_input" in request:
            shown = open_inputs()
            control.say({"input": True}, [shown])
            descriptors = [*descriptors, shown]
        if "listen" in request:
            listening = listen(request["listen"])
            control.say({"listening": len(listening)}, listening)
            descriptors = [*descriptors, *listening]
        stays = family is None and "lane" in request and can_begin(proc, late)
        mounted = descriptors[: 2 + len(request["mounts"])] if stays else []
        for descriptor in [*descriptors[len(mounted) :], *(descriptor for _, descriptor in birth.late)]:
            os.close(descriptor)
        if family is None:
            if stays:
                allow_one_more(proc)  # pid 1 watches `/tmp`
            linux.keep_capabilities(capabilities_for(request) if stays else frozenset())
            if stays:
                given = (request, rules, mounted, overlays)
                one.lane = Lane(proc, birth.groups, control, birth.readable, watcher, *given, be_guest)
        else:
            family.note_mounts([mount["path"] for mount in request["mounts"] if mount["mode"] != "input"])
        watcher.machine.begin(**request["machine"])
        watcher.begin(request["watched"], request["owed"])  # the weight must be set before the guest wakes
        with contextlib.suppress(BrokenPipeError):  # the guest has just died, which is reported as any guest's end
            os.write(go, b"x")
        os.close(go)
        if one.lane is None:
            if rules >= 0:
                os.close(rules)
            for name, file in birth.groups.items():
                if name.startswith("join"):
                    os.close(file)

    _rehearse()
    watch(family or one, control, watcher, lambda *asked: one.lane.begin(*asked) if one.lane else take(*asked))


def _rehearse() -> None:
    """Run the code that takes a run once without mounts, so that its pages are written now; it fails at its first step.

    Its memory has been shared with the guest since the fork, and the first write to each page costs microseconds.
    """
    with contextlib.suppress(OSError):
        attach_run(
            json.loads('{"op": "take", "mounts": [], "watched": {}, "owed": 0, "tmp_mib": 1, "inodes": 1}'), [-1, -1]
        )
