"""The sandbox of the `container` engine: a container of its own, or an agent in an existing one, with a fork a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from actbox.core.errors import InvalidValue, SandboxUnavailable, Unsupported
from actbox.core.mounts import INPUT, OUTPUT, WORKSPACE, FileMount
from actbox.core.packages import CLEAN, HOST
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import PACKAGES, Layer, Provided, image_of, layer_of
from actbox.sandbox.engines.linux.interpreter import base_of
from actbox.sandbox.engines.linux.nursery import GUEST_VARIABLES
from actbox.sandbox.local import GuestStart
from actbox.sandbox.nursery import seccomp
from actbox.sandbox.one_disk import one_disk_mib
from actbox.sandbox.remote.agent import Agent, AgentConfig
from actbox.sandbox.remote.agent_guest import AgentGuest
from actbox.sandbox.remote.interpreter import on_top
from actbox.sandbox.remote.sandbox import AgentSandbox
from actbox.sandbox.remote.workspace import RemoteWorkspace
from actbox.sandbox.session_packages import LayersPlace
from actbox.sandbox.traits import Traits, check_lacking, check_packages
from actbox.sandbox.workspace import Workspace, open_folder

from .client import APART, Client, CommandFailed, find_client
from .container import OWN_PROCESSES, Build, Container
from .control_groups import ALL, controllers
from .existing_container import ExistingContainer
from .image import has_gone, host_root, named_root, python_of
from .mounts import can_hold
from .orphans import reap_once
from .packages import ENVIRONMENT, checked, install, layer_with
from .pool import ContainerPool
from .traits import brought_traits, managed_traits, packages_said

# Installers retry with pauses. One retry is enough to report the reason, and too short to end in a timeout.
_WITHOUT_NETWORK = {"PIP_RETRIES": "1", "UV_OFFLINE": "1"}
# Signals with a queue, and timers, which the kernel counts by user: for all runs of a sandbox together.
_PENDING_SIGNALS = 256
_IMAGE_VARIABLES = {name: GUEST_VARIABLES[name] for name in GUEST_VARIABLES if name != "PATH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The engine's own options; see `open_engine`."""

    image: str | None = None
    runtime: str = ""
    container: str | None = None
    client: str = ""
    packages: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("image", "container"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value or value.startswith("-")):
                raise InvalidValue(f"{name} must be a name such as 'python:3.13', not {value!r}")
        if not isinstance(self.runtime, str) or self.runtime.startswith("-"):
            raise InvalidValue(f"runtime must be a name such as 'runsc', not {self.runtime!r}")
        if self.client not in ("", "podman", "docker"):
            raise InvalidValue(f"client must be 'podman' or 'docker', not {self.client!r}")
        if self.container is not None and (self.image is not None or self.runtime):
            raise InvalidValue("a container that is there already has its own image and runtime")
        object.__setattr__(self, "packages", checked(self.packages))
        if self.container is not None and self.packages:
            raise InvalidValue("nothing is installed in a container that is there already; packages= is for others")


class ContainerSandbox(AgentSandbox):
    """A sandbox whose programs are forks of a warm interpreter in a container."""

    watched = (*AgentSandbox.watched, "processes")
    _has_fixed_limits = False  # a run that begins beside others is allowed theirs too
    _agent_place: Container | ExistingContainer | None = None

    def __init__(self, policy: Policy, options: Options, pool: ContainerPool | None = None) -> None:
        """Raise `Unsupported` for features of a policy that containers lack. `pool` is shared with its siblings."""
        super().__init__(policy)
        check_lacking(policy, "container", "domains", "secrets")
        if options.container is not None:
            check_packages(policy, "container")
        if options.image is not None and policy.environment == CLEAN:
            raise Unsupported("an image is an environment of its own: leave out environment='clean', or image=")
        if options.packages and policy.environment not in (HOST, CLEAN):
            raise InvalidValue(
                f"packages= come on top of the host's packages or an image's; the environment"
                f" {policy.environment_name!r} has a list of its own, so add them to that"
            )
        if any(mount.mode == "overlay" for mount in policy.mounts):
            raise Unsupported("the container engine has no overlay mounts; the linux engine has")
        if any(mount.mount_path == INPUT for mount in policy.mounts):
            raise Unsupported("the container engine mounts below /input, not at it; the linux engine can do both")
        if policy.mounts and options.container is not None:
            raise Unsupported("nothing can be mounted in a container that is there already; the linux engine can")
        self._one_disk_mib = one_disk_mib(policy, "container")
        self._options = options
        self._is_sibling = pool is not None
        self._pool = pool or ContainerPool(self._make)
        self._active: set[AgentGuest] = set()
        self.traits = (
            brought_traits(name=options.container, lowered=(), network="")
            if options.container is not None
            else self._traits_of()
        )
        self._image = options.image or ""
        """The name of the image, once the sandbox is open; "" for the host's own interpreter."""
        self._given: Provided | None = None
        """The packages that were installed for the option `packages=`, in use while the sandbox is open."""
        self._packages = ""
        """The directory on the host with the packages of the environment, or of `packages=`, if there are any."""
        self._search = ""
        """The `PATH` of programs."""

    async def _open_workspace(self) -> RemoteWorkspace:
        if self._options.container is not None:
            return await run_blocking(self._open_brought, self._options.container)
        try:
            if not self._is_sibling:
                await self._find_packages()
            container = self._agent_place = await run_blocking(self._pool.take)
        except BaseException:
            self._forget_given()
            raise
        self._search = container.search
        own = Workspace(open_folder(container.input_folder), "/workspace", at=("input",))
        return self._workspace_of(container.agent(), "/workspace", input_folder=own, is_quiet=self._is_quiet)

    def _open_brought(self, name: str) -> RemoteWorkspace:
        client = find_client(client=self._options.client)
        container = self._agent_place = ExistingContainer(client, name, self._agent_config(alone=False))
        self.traits = brought_traits(name=name, lowered=container.lowered, network=container.network)
        agent = container.agent()
        return self._workspace_of(agent, agent.workspace_path, is_quiet=self._is_quiet)

    async def _find_packages(self) -> None:
        """Find out what programs can import; install what is missing. Raises `SandboxUnavailable`."""
        options, policy = self._options, self.policy
        if not options.image:
            self._image = await run_blocking(image_of, policy)
        image = await self._layer_of_image() if self._image else None
        if options.packages:
            self._given = await install(tuple(options.packages), policy, self.traits, image)
            layer: Layer | None = layer_with(self._given, policy, image)
        else:
            layer = image or await layer_of(policy)
        self._layer, self._packages = layer, ""
        if layer is not None and layer.folder:
            self._layer, self._packages = layer._replace(folder=ENVIRONMENT), layer.folder

    async def _layer_of_image(self) -> Layer:
        """Return what the image has, and the packages of the environment on top of it. Raises `SandboxUnavailable`."""
        options, policy = self._options, self.policy
        client = await run_blocking(find_client, options.runtime, options.client)
        found = await run_blocking(python_of, client, self._image)
        image = found.layer(policy, self._image)
        own = await layer_of(policy, target=found.target)
        return image if own is None else on_top(image, own, policy.environment_name)

    def _is_quiet(self) -> bool:
        return all(guest.ended or guest.is_dismissed for guest in self._active)

    async def _close_workspace(self) -> None:
        container, self._agent_place = self._agent_place, None
        self._active.clear()
        if isinstance(container, Container) and self._is_sibling and not self._taint.has_risen:
            await run_blocking(self._pool.give_back, container)
        elif container is not None:
            await run_blocking(container.remove)
        if not self._is_sibling:
            await run_blocking(self._pool.clear)
            self._forget_given()

    def _forget_given(self) -> None:
        """Let others remove from the package cache what was installed for `packages=`."""
        given, self._given = self._given, None
        if given is not None:
            given.close()

    def _sibling(self) -> ContainerSandbox:
        sibling = ContainerSandbox(self.policy, self._options, self._pool)
        sibling._layer = self._layer
        return sibling

    def _base_variables(self) -> Mapping[str, str]:
        return _WITHOUT_NETWORK

    def _guest_limits(self) -> Mapping[str, float]:
        limits = {**super()._guest_limits(), "pending_signals": _PENDING_SIGNALS}
        if self._options.container is not None:
            del limits["processes"]  # the kernel counts them by user, and the user may have others
        else:
            going_on = sum(not (known.ended or known.is_dismissed) for known in self._active)
            limits["processes"] += OWN_PROCESSES + 2 * going_on
        return limits

    def _guest_at_hand(self, start: GuestStart) -> AgentGuest | None:
        return super()._guest_at_hand(start) if start.session or start.packages is None else None

    async def _start_guest(self, start: GuestStart) -> AgentGuest:
        place, packages = self._agent_place, start.packages
        if start.session or packages is None or not isinstance(place, Container):
            return await super()._start_guest(start)
        await run_blocking(place.late.show, packages)
        try:
            guest = await super()._start_guest(start)
        except BaseException:
            place.late.hide(packages)
            raise
        guest.when_ended(lambda ending: place.late.hide(packages))
        return guest

    def _show_packages(self, message: dict[str, Any], packages: Provided, place: str) -> None:
        if packages.folder is not None:  # runs share the container, so each set has a directory of its own
            place = f"{PACKAGES}/{packages.folder.name}"
            message["variables"] = {"PATH": f"{self._search}:{place}/bin", **message["variables"]}
        super()._show_packages(message, packages, place)

    def _new_session_folder(self) -> LayersPlace:
        place = self._agent_place
        if not isinstance(place, Container):
            raise SandboxUnavailable("the sandbox was stopped while a session was about to begin")
        folder = place.late.new_session_folder()
        return LayersPlace(folder, f"{PACKAGES}/{folder.path.name}/layers")

    def _guest_of(self, agent: Agent, start: GuestStart) -> AgentGuest:
        guest = super()._guest_of(agent, start)
        self._active = {known for known in self._active if not known.ended} | {guest}
        return guest

    # How a container is made

    def _make(self) -> Container:
        build = self._build()
        try:
            return Container(build)
        except CommandFailed:
            if not has_gone(build.client, build.root.image):
                raise
            return Container(self._build())

    def _build(self) -> Build:
        options, policy = self._options, self.policy
        client = find_client(options.runtime, options.client)
        reap_once(client)
        places = [_place_of(mount) for mount in policy.mounts]
        points = tuple((path, mount.host_path.is_dir()) for path, mount in zip(places, policy.mounts, strict=True))
        layer = self._layer
        if self._image:
            root = named_root(client, self._image, self._packages)
        else:
            is_named = policy.environment not in (HOST, CLEAN)
            base = base_of(policy, layer._replace(folder="") if layer is not None and is_named else None)
            root = host_root(client, base, self._packages)
        inputs = f"{WORKSPACE}/input/"
        build = Build(
            client=client,
            runtime=options.runtime,
            root=root,
            limits=policy.limits,
            one_disk_mib=self._one_disk_mib,
            mounts=tuple(zip(policy.mounts, places, strict=True)),
            input_points=tuple(
                (path.removeprefix(inputs), folder) for path, folder in points if path.startswith(inputs)
            ),
            agent=dataclasses.replace(
                self._agent_config(alone=True, keep_variables=root.keeps_variables, search=root.search),
                own_interpreter=not self._image and (layer is None or not layer.python),
                filter_program=b"" if options.runtime in APART else _filter_program(),
            ),
        )
        self.traits = self._traits_of(client)
        return build

    def _traits_of(self, client: Client | None = None) -> Traits:
        """Return the traits of our own containers; before a client is found, only what is certain."""
        runtime = self._options.runtime
        if client is None:
            is_podman, held = self._options.client != "docker", ALL if can_hold() else frozenset()
        else:
            is_podman, held = client.is_podman, controllers(client)
        bounds_files = runtime not in APART and (can_hold() or not is_podman)
        packages = packages_said(self._options.image, self.policy, self._options.packages)
        return managed_traits(
            runtime=runtime,
            packages=packages,
            held=held,
            bounds_files=bounds_files,
            one_disk=runtime not in APART and can_hold(),
        )

    def _agent_config(self, *, alone: bool, keep_variables: bool = True, search: str = "") -> AgentConfig:
        own: dict[str, str] = {"PATH": search} if search and not keep_variables else {}
        paths: tuple[str, ...] = ()
        if self._packages:
            paths = (f"{ENVIRONMENT}/site",)
            own = {"PATH": search, "PYTHONPATH": paths[0]}  # the latter for interpreters that programs start
        return AgentConfig(
            workspace="/workspace" if alone else "",
            preload=self.policy.preload,
            paths=paths,
            variables=(_IMAGE_VARIABLES if keep_variables else GUEST_VARIABLES) | own,
            keep_variables=keep_variables,
            alone=alone,
        )


def _filter_program() -> bytes:
    """Return the system call filter of the `linux` engine's guests; empty on other architectures."""
    try:
        return seccomp.build()
    except NotImplementedError:
        return b""


def _place_of(mount: FileMount) -> str:
    """Return a mount's path in the container, with links resolved."""
    path = mount.mount_path
    for alias in (INPUT, OUTPUT):
        if path.is_relative_to(alias):
            path = PurePosixPath(WORKSPACE, alias.name, path.relative_to(alias))
    return str(path)
