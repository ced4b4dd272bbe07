"""Planted weaknesses: each removes some isolation, so that the attempts which it stops must get through.

An attempt that has never got through anywhere may be one that cannot. Each weakness here takes away what should stand
between attempts and their aim; which attempts it proves stands in `proofs.py`. No others are made where it is planted: they
may not be harmless there. What is named here is, since all other walls stay, and where a guest could write to the host's
files it is given copies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from unittest import mock

from actbox import Artifact, Limits, Policy, Sandbox, Tool
from actbox.content import safe_text
from actbox.sandbox import runs, siblings, workspace
from actbox.sandbox.egress import domain_rules, upstream
from actbox.sandbox.engines.linux import nursery, stock
from actbox.sandbox.guest import beneath, tree
from actbox.sandbox.taint import Taint
from actbox.tools.toolset import Toolset
from tests.escape.attempt import NotApplicable
from tests.escape.changes import (
    A_NETWORK,
    ANSWERED_AS_DONE,
    CAPABILITIES_KEPT,
    COPIES,
    DESCRIPTORS_LEFT,
    DESCRIPTORS_TAKEN,
    GUEST_IS_ROOT,
    HOST_SHOWN,
    LANES_NOT_LOOKED_AT,
    MOUNTS_WRITABLE,
    NO_FILTER,
    NO_LANDLOCK,
    NOT_SEALED,
    PID_1_SHOWN,
    PROJECT_IDS_LEFT,
    RESULTS_BELIEVED,
    TEXTS_LEFT,
    TREES_OPEN,
    UNCOUNTED,
)
from tests.escape.ground import Ground
from tests.escape.planted import Change, changed_nursery, changed_package

Planting = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class Weakness:
    """A planted weakness: the isolation that it removes, and the way to remove it.

    `changes` are made to a copy of the code that the nursery and the guests run, `planting` changes this process, and
    `ground` is what attempts that are functions are given.
    """

    name: str
    takes_away: str
    changes: tuple[Change, ...] = ()
    planting: Planting = contextlib.nullcontext
    ground: type[Ground] = Ground
    only_root: bool = False
    """True if only root can plant it."""
    long: bool = False
    """It takes more than a few seconds."""

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Make sandboxes with this weakness for a block; none may be open before or after."""
        with changed_nursery(self.changes), self.planting():
            yield


@contextlib.contextmanager
def _variables_given() -> Iterator[None]:
    own = {"ACTBOX_TEST_CANARY": os.environ["ACTBOX_TEST_CANARY"]}
    with mock.patch.dict(nursery._VARIABLES, own), mock.patch.dict(nursery.GUEST_VARIABLES, own):
        stock.close_all()
        yield


@contextlib.contextmanager
def _breaches_forgiven() -> Iterator[None]:
    with mock.patch.object(runs.Run, "on_lost", lambda self, error: None):
        yield


@contextlib.contextmanager
def _tools_never_forgotten() -> Iterator[None]:
    """Plant a host that finds a tool by a name that is like its own, and also one that only another run was given."""
    known: dict[str, Tool] = {}
    make = Toolset.__init__

    def remember(self: Toolset, tools: Iterable[Tool] = ()) -> None:
        make(self, tools)
        known.update(self._tools)

    def find(self: Toolset, name: str) -> Tool | None:
        letters = unicodedata.normalize("NFKC", name).strip(" \0").lower()
        return known.get(letters)

    with mock.patch.object(Toolset, "__init__", remember), mock.patch.object(Toolset, "get", find):
        yield


class _InAHurry(Ground):
    """Gives no run more than a second or so: what should end it at once does so sooner, if it does."""

    async def open(self, policy: Policy | None = None, **more: Any) -> Sandbox:
        box = await super().open(policy, **more)
        run = box.run

        async def run_briefly(code: Any, **options: Any) -> Any:
            return await run(code, **{**options, "timeout": 1.5})

        box.run = run_briefly  # type: ignore[method-assign, assignment]
        return box


@contextlib.contextmanager
def _labels_forgotten() -> Iterator[None]:
    with (
        mock.patch.object(Taint, "raise_to", lambda self, label, keep=None: None),
        mock.patch.object(Taint, "check", lambda self, label: None),
    ):
        yield


@contextlib.contextmanager
def _siblings_kept() -> Iterator[None]:
    """Plant siblings that serve the next program, without a label, also if their own has risen."""
    take = siblings.Siblings._take

    def forget_label(self: Any, call: Any) -> Any:
        idle = take(self, call)
        if idle is not None:
            idle.sibling._label_state = Taint(idle.sibling.policy)
        return idle

    with (
        mock.patch.object(Taint, "has_risen", False),
        mock.patch.object(siblings.Siblings, "_take", forget_label),
        mock.patch.object(siblings, "UNTOUCHED_SECONDS", 1000.0),
    ):
        yield


@contextlib.contextmanager
def _terminal_trusted() -> Iterator[None]:
    change = Change(
        "content/safe_text.py", '    return _UNSAFE.sub(_name, text.replace("\\r\\n", "\\n"))\n', "    return text\n"
    )
    with changed_package([change]) as folder, mock.patch.dict(os.environ, PYTHONPATH=folder):
        with mock.patch.object(safe_text, "visible", lambda text: text):
            yield


@contextlib.contextmanager
def _links_followed() -> Iterator[None]:
    def walk(folder: int, left_out: Any) -> Iterator[Any]:
        top = f"/proc/self/fd/{folder}/output"
        for place, _, names in os.walk(top, followlinks=True):
            folder = os.open(place, os.O_RDONLY)
            try:
                for name in names:
                    path = os.path.relpath(os.path.join(place, name), top)
                    with contextlib.suppress(OSError):
                        yield path, folder, os.stat(name, dir_fd=folder)
            finally:
                os.close(folder)

    checked = workspace.Workspace._parts

    def parts_of(self: Any, path: str) -> tuple[str, ...]:
        # Out of the workspace it leads to the folders of the attempts only, and nowhere else on this machine.
        if "\0" not in path and os.path.normpath(path).startswith(tempfile.gettempdir() + "/actbox-escape-"):
            return PurePosixPath(os.path.normpath(path)).parts
        return checked(self, path)

    def write(self: Any, path: str, data: bytes, mode: int | None = None) -> None:
        with self.parent(path, make=True) as (folder, name):
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=folder)
            with open(descriptor, "wb") as file:
                file.write(data)

    def open_anything(folder: int, path: str, flags: int = beneath.FOLDER, mode: int = 0o777) -> int:
        return os.open(path or ".", flags | os.O_CLOEXEC, mode, dir_fd=folder)

    def save(self: Artifact, folder: Path) -> Path:
        target = (folder / self.name.lstrip("/")).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.data)
        return target

    with (
        mock.patch.object(workspace, "_walk", walk),
        mock.patch.object(beneath, "is_empty", lambda folder, path: False),
        mock.patch.object(beneath, "open_beneath", open_anything),
        mock.patch.object(tree, "open_beneath", open_anything),
        mock.patch.object(workspace.Workspace, "_parts", parts_of),
        mock.patch.object(workspace.Workspace, "write", write),
        mock.patch.object(Artifact, "save", save),
    ):
        yield


@contextlib.contextmanager
def _every_place_allowed() -> Iterator[None]:
    with (
        mock.patch.object(domain_rules.Rules, "entry", lambda self, scheme, host, port: self._entries[0]),
        mock.patch.object(domain_rules.Rules, "check_method", lambda self, entry, method, host: None),
        mock.patch.object(upstream, "reach_of", lambda address: "public"),
        mock.patch.object(upstream, "_is_own", lambda address: False),
    ):
        yield


class _WithoutLimits(Ground):
    """Gives every sandbox so much that no attempt reaches its limits, and nothing that this machine could not bear."""

    async def open(self, policy: Policy | None = None, **more: Any) -> Sandbox:
        for name in list(more):
            if name in Limits().to_dict():
                if name not in self.traits.enforced:
                    raise NotApplicable(f"the {self.engine} engine does not enforce {name}")
                del more[name]
                policy = Policy()
        if policy is not None:
            policy = dataclasses.replace(policy, limits=_WIDE)
        return await super().open(policy, **more)


_WIDE = Limits(
    memory_mib=2048,
    processes=256,
    open_files=4096,
    file_mib=512,
    workspace_mib=512,
    output_bytes=100_000_000,
    cpu_seconds=60,
    wall_seconds=60,
    tool_calls=500,
    message_bytes=64 * 2**20,
    artifacts=1000,
    artifact_mib=64,
)


class _OneProcess(Ground):
    """Gives what should be a sandbox with a new process for each run one session, in which all runs are one process."""

    async def open(self, policy: Policy | None = None, **more: Any) -> Any:
        session = (await super().open(policy, **more)).session()
        await session.start()
        return session


WEAKNESSES: tuple[Weakness, ...] = (
    Weakness("no filter", "the filter of system calls", (NO_FILTER,)),
    Weakness(
        "descriptors taken",
        "the filter, and that the host's end of the channel takes no descriptors",
        (NO_FILTER, DESCRIPTORS_TAKEN),
    ),
    Weakness(
        "capabilities kept",
        "the filter, Landlock, and that a guest has no capability in its own user namespace",
        (NO_FILTER, NO_LANDLOCK, *CAPABILITIES_KEPT),
    ),
    Weakness(
        "capabilities kept under root",
        "the same, where nothing was given up yet for want of privilege when the user namespace was made",
        (NO_FILTER, NO_LANDLOCK, *CAPABILITIES_KEPT),
        only_root=True,
    ),
    Weakness(
        "pid 1 shown",
        "the filter, Landlock, and what hides pid 1 and the machine in /proc",
        (NO_FILTER, NO_LANDLOCK, *PID_1_SHOWN),
    ),
    Weakness(
        "root not sealed",
        "Landlock, that the root is read-only, and that a guest is nobody outside; what it can write are copies",
        (NO_LANDLOCK, GUEST_IS_ROOT, NOT_SEALED, *COPIES),
        only_root=True,
    ),
    Weakness(
        "inputs not mounted",
        "the mount that makes a program's inputs read-only",
        (Change("sandbox/nursery/attach.py", "        linux.move_mount(inputs, root + _INPUT)\n", "        pass\n"),),
    ),
    Weakness(
        "host's folders shown",
        "Landlock, that the root has nothing more of the host, and that a guest is nobody outside; all is read-only",
        (NO_LANDLOCK, GUEST_IS_ROOT, HOST_SHOWN),
        only_root=True,
    ),
    Weakness(
        "filter answers as done",
        "what the filter denies: it says that the call has been made, though it has not",
        ANSWERED_AS_DONE,
    ),
    Weakness(
        "lanes not looked at",
        "Landlock, that a lane goes on only as it was at birth and without processes, and that /tmp and the next process id"
        " are new",
        (NO_LANDLOCK, *LANES_NOT_LOOKED_AT),
    ),
    Weakness(
        "limits told late forgotten",
        "that a guest sets also those limits of which it was not told ahead",
        (
            Change(
                "sandbox/guest/main.py",
                """message["limits"].keys() - ahead["limits"]}, used_bytes)""",
                """message["limits"].keys() & ahead["limits"]}, used_bytes)""",
            ),
        ),
    ),
    Weakness(
        "project ids left to guests",
        "that the map of project ids has been written",
        (PROJECT_IDS_LEFT,),
        only_root=True,
    ),
    Weakness(
        "texts not wiped",
        "that pid 1 wipes what it has read of a program, and that the nursery reads nothing of the host's files",
        TEXTS_LEFT,
    ),
    Weakness("a network", "that there is no route: each address of the world is one of the sandbox's own", A_NETWORK),
    Weakness(
        "descriptors left open",
        "Landlock, and that a guest has no descriptors but its own",
        (NO_LANDLOCK, *DESCRIPTORS_LEFT),
    ),
    Weakness("host's variables given", "that a guest has variables of its own", planting=_variables_given),
    Weakness(
        "mounts writable",
        "the filter, Landlock, and that a mount is read-only or an overlay",
        (NO_FILTER, NO_LANDLOCK, *MOUNTS_WRITABLE),
    ),
    Weakness("trees open", "Landlock, and who may enter the trees of copies", (NO_LANDLOCK, *TREES_OPEN)),
    Weakness(
        "breaches forgiven",
        "what ends a guest that breaks the channel's rules",
        planting=_breaches_forgiven,
        ground=_InAHurry,
        long=True,
    ),
    Weakness(
        "tools never forgotten",
        "that a run can call its own tools only, by their very names",
        planting=_tools_never_forgotten,
    ),
    Weakness("terminal trusted", "what spells out control characters", planting=_terminal_trusted),
    Weakness(
        "links followed", "that the host follows no link and no path out of a workspace", planting=_links_followed
    ),
    Weakness("every place allowed", "the rules of the proxy", planting=_every_place_allowed),
    Weakness("results believed", "that a guest takes a tool's result as the data that it is", RESULTS_BELIEVED),
    Weakness("objects not counted", "that pid 1 counts epoll watches and locks of files", (UNCOUNTED,), long=True),
    Weakness("no limits", "the limits of a policy", ground=_WithoutLimits, long=True),
    Weakness("labels forgotten", "that a workspace's label rises with what it receives", planting=_labels_forgotten),
    Weakness(
        "labelled siblings kept",
        "that nothing of a sandbox whose label has risen serves the next program of a call of map",
        planting=_siblings_kept,
    ),
    Weakness("one process for all runs", "that each run has a process of its own", ground=_OneProcess),
)
