"""`Policy`: the limits, file mounts, allowed domains and secrets of programs, all frozen and checked when made."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import combinations, product
from pathlib import PurePosixPath
from types import NoneType
from typing import Any, Literal

from .domains import AllowedDomain, target_text
from .errors import InvalidValue
from .labels import PUBLIC, Label, clearance_of, label_of
from .lazy_dataclass import dataclass
from .limits import Limits
from .mounts import INPUT, FileMount
from .packages import HOST, Environment, PackagePolicy, check_environment_name
from .secrets import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits and permissions of a sandbox's programs. Immutable: a run keeps the one that it started with.

    `preload` names modules that the engine imports before programs, if it can, such as `("numpy", "pandas")`: a
    program's `import` of one then costs nothing. It is a hint that no engine refuses; an engine that cannot preload
    notes it in its traits, and imports the modules when a program does. A module that cannot be preloaded is left out,
    and `ExecutionResult.warnings` of every program says so.

    `environment` is the interpreter and the packages that programs see: `"host"` those of this process, `"clean"` the
    interpreter and its standard library alone, another name or an `Environment` those of a lock, which is built when it
    is first used. `"auto"`, for `actbox.run` alone, is the named environment that has most of the program's
    dependencies. `packages` says which packages beyond it programs may have; without it they may have none.

    `egress_max` is the highest label with which a program may send anything out: to a domain, in the arguments of a
    tool, or into an `rw` mount, unless these have a clearance of their own (`cleared`). `None` is no limit. A model is
    an exit too, for which `model_cleared` counts in place of `egress_max`: it reads no result above that. `label` is
    the label of whatever programs can read beside the labelled mounts, tools and domains: the environment, its
    packages, the variables. `docs/labels.md` describes labels.

    `namespaces` is about the namespaces, on Linux, in which programs run: with `"run"` each run has new ones. With
    `"lane"` an engine may keep those of a run that left nothing behind for the next run of the same open sandbox, which
    is faster; each run has a fresh process behind fresh walls either way (`docs/security.md`). A run that used the
    network is followed by one in new namespaces, and so is each run with `Limits.disk_mib`. An engine that knows no
    such choice refuses `"run"`.

    Raises `InvalidValue` if an `rw` mount is not cleared for what the policy's own labels say that programs read; if
    two mounts share a path, one lies inside another that is not at `/input`, two secrets share
    a name or would set the same header of a request, or a secret can go to none of the allowed places. In `variables`,
    directories in `PYTHONPATH` must lie below `/workspace` or a mount, and `PIP_TARGET` is refused.
    """

    limits: Limits = field(default_factory=Limits)
    mounts: tuple[FileMount, ...] = ()
    domains: tuple[AllowedDomain, ...] = ()
    secrets: tuple[Secret, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    environment: str | Environment = HOST
    packages: PackagePolicy | None = None
    egress_max: Label | str | None = None  # these are a `Label` once the policy is made
    label: Label | str = PUBLIC
    model_cleared: Label | str | None = None
    namespaces: Literal["lane", "run"] = "lane"

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Limits):
            raise InvalidValue(f"Policy.limits must be Limits(…), not {self.limits!r}")
        for name, kind in (("mounts", FileMount), ("domains", AllowedDomain), ("secrets", Secret)):
            object.__setattr__(self, name, _values_of(name, kind, getattr(self, name)))
        seen: set[PurePosixPath] = set()
        for mount in self.mounts:
            if mount.mount_path in seen:
                raise InvalidValue(f"Policy.mounts: two mounts at {mount.mount_path}")
            seen.add(mount.mount_path)
        for path in sorted(seen):
            for above in seen.intersection(path.parents) - {INPUT}:
                raise InvalidValue(
                    f"Policy.mounts: {path} lies below {above}, where something else is mounted; mount it elsewhere"
                )
        for secret in self.secrets:
            for place in secret.places():
                if not any(allowed.overlaps(place) for allowed in self.domains):
                    raise InvalidValue(_why_secret_cannot_go(secret, place, self.domains))
        for one, other in combinations(self.secrets, 2):
            _check_apart(one, other, self.domains)
        object.__setattr__(self, "variables", check_variables(self.variables))
        self.check_imports(self.variables)
        object.__setattr__(self, "preload", _module_names(self.preload))
        if not isinstance(self.environment, Environment):
            check_environment_name(self.environment)
        if self.namespaces not in ("lane", "run"):
            raise InvalidValue(f"Policy.namespaces is 'lane' or 'run', not {self.namespaces!r}")
        if not isinstance(self.packages, (PackagePolicy, NoneType)):
            raise InvalidValue(f"Policy.packages must be PackagePolicy(…), not {self.packages!r}")
        object.__setattr__(self, "egress_max", clearance_of(self.egress_max, "Policy.egress_max"))
        object.__setattr__(self, "label", label_of(self.label, "Policy.label"))
        object.__setattr__(self, "model_cleared", clearance_of(self.model_cleared, "Policy.model_cleared"))
        if refusal := self.why_not_writable(self.read_label):
            raise InvalidValue(f"Policy.mounts: {refusal}; give it cleared={str(self.read_label)!r}, or mount it 'ro'")

    @property
    def read_label(self) -> Label:
        """The label that programs have from their start: that of the policy, joined with those of its mounts."""
        return Label(self.label, *(mount.label for mount in self.mounts))

    def clearance(self, own: Label | None) -> Label | None:
        """Return the clearance of something that has this clearance of its own, if any; `None` is no limit."""
        return clearance_of(self.egress_max, "Policy.egress_max") if own is None else own

    @property
    def model_clearance(self) -> Label | None:
        """The highest label of a result that a model may read; `None` is no limit."""
        return self.clearance(clearance_of(self.model_cleared, "Policy.model_cleared"))

    def why_not_writable(self, label: Label) -> str:
        """Return the sentence about an `rw` mount that programs with a label must not write to, "" if there is none."""
        for mount in self.mounts:
            most = self.clearance(mount.cleared)
            if mount.mode == "rw" and most is not None and not label <= most:
                return (
                    f"programs that have read data labelled {label} could write it to {mount.mount_path}, which is"
                    f" cleared up to {most}"
                )
        return ""

    @property
    def has_labels(self) -> bool:
        """True if the policy has a label above `public`, or a clearance."""
        labelled: tuple[FileMount | AllowedDomain, ...] = (*self.mounts, *self.domains)
        return (
            self.egress_max is not None
            or self.model_cleared is not None
            or self.label != PUBLIC
            or any(one.label != PUBLIC or one.cleared is not None for one in labelled)
        )

    @classmethod
    def strict(cls) -> Policy:
        """Return the policy for programs that nobody has read: little of everything, and no network.

        Programs have one processor, 512 MiB of memory, 100 MiB for all files together, 30 seconds and 64 descriptors;
        `dataclasses.replace` changes any of it.
        """
        limits = Limits(
            wall_seconds=30.0,
            cpu_seconds=30.0,
            cpus=1.0,
            memory_mib=512,
            open_files=64,
            file_mib=100,
            workspace_mib=100,
            disk_mib=100,
            artifact_mib=100,
        )
        return cls(limits=limits)

    @property
    def environment_name(self) -> str:
        """The name of the environment."""
        return self.environment.name if isinstance(self.environment, Environment) else self.environment

    def check_imports(self, variables: Mapping[str, str], root: str = "/workspace") -> None:
        """Raise `InvalidValue` for `PIP_TARGET`, and for a `PYTHONPATH` outside the workspace and the mounts.

        `root` is the working directory, to which relative directories in `PYTHONPATH` belong.
        """
        if "PIP_TARGET" in variables:
            raise InvalidValue("PIP_TARGET has no effect: programs use the packages of the environment; leave it out")
        places = (root, "/workspace", "/input", "/output", *(str(mount.mount_path) for mount in self.mounts))
        for folder in variables.get("PYTHONPATH", "").split(":"):
            path = PurePosixPath(posixpath.normpath(posixpath.join(root, folder)))
            if not any(path.is_relative_to(place) for place in places):
                raise InvalidValue(f"PYTHONPATH: {folder!r} lies neither below /workspace nor below a mount")


_EXAMPLES = {
    "mounts": "FileMount('/srv/sales', 'sales')",
    "domains": "AllowedDomain('api.example.com')",
    "secrets": "Secret('github', token, ['api.github.com'])",
}


def _values_of(name: str, kind: type, given: object) -> tuple[Any, ...]:
    if isinstance(given, kind):  # a single mount is iterable too, as its two paths
        raise InvalidValue(
            f"Policy.{name} is a tuple: write ({kind.__name__}(…),) with a comma, or [{kind.__name__}(…)]"
        )
    items = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else (given,)
    for item in items:
        if not isinstance(item, kind):
            # An object in place of a secret may be the secret's value, which no message may show.
            shown = type(item).__name__ if kind is Secret else repr(item)
            example = f"AllowedDomain({item!r})" if kind is AllowedDomain and isinstance(item, str) else _EXAMPLES[name]
            raise InvalidValue(f"Policy.{name} takes {kind.__name__} values, not {shown}: write [{example}]")
    return items


def _why_secret_cannot_go(secret: Secret, place: AllowedDomain, domains: tuple[AllowedDomain, ...]) -> str:
    (port,) = place.ports
    goes = f"Secret({secret.name!r}) goes to {place} on port {port}, which Policy.domains does not allow"
    near = [allowed for allowed in domains if allowed.shares_host(place)]
    if not near:
        return f"{goes}; add AllowedDomain({place.target!r})"
    narrower = near[0].host if place.host.startswith("*.") else place.host
    instead = target_text(near[0].scheme, narrower, near[0].port)
    return (
        f"{goes}: it has {', '.join(map(str, near))}; write {instead!r} in the secret's domains,"
        f" or AllowedDomain({place.target!r}) in the policy's"
    )


def _check_apart(one: Secret, other: Secret, domains: tuple[AllowedDomain, ...]) -> None:
    """Raise `InvalidValue` for two secrets that have the same name or would set the same header of one request."""
    if one.name == other.name:
        raise InvalidValue(f"Policy.secrets: two secrets are called {one.name!r}; give one of them another name")
    if one.header_name != other.header_name:
        return
    # Two hosts overlap only if one contains the other, so if each pair of three overlaps, all three share a place.
    for a, b in product(one.places(), other.places()):
        if a.overlaps(b) and any(allowed.overlaps(a) and allowed.overlaps(b) for allowed in domains):
            raise InvalidValue(
                f"Policy.secrets: {one.name!r} and {other.name!r} would both set the header {one.header_name!r} of"
                f" requests to {max(a, b, key=lambda place: place.specificity)}; give each hosts or a header of its own"
            )


def _module_names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidValue(f"Policy.preload is a list such as ['numpy'], not {names!r}")
    unique = tuple(dict.fromkeys(names))
    for name in unique:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise InvalidValue(f"Policy.preload: {name!r} is not the name of a module")
    return unique


def check_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of environment variables, or raise `InvalidValue` naming the one that cannot be set."""
    if not isinstance(variables, Mapping):
        # The message names only the type: the values may hold passwords.
        raise InvalidValue(f"environment variables are a dict such as {{'LANG': 'C'}}, not {type(variables).__name__}")
    for name, value in variables.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InvalidValue(f"{name!r} cannot be the name of an environment variable")
        if not isinstance(value, str) or "\0" in value:
            raise InvalidValue(f"the environment variable {name} must be text without NUL, not {value!r}")
        try:
            f"{name}{value}".encode()
        except UnicodeEncodeError:
            raise InvalidValue(
                f"the environment variable {name!r} has a lone surrogate, which is no character"
            ) from None
    return dict(variables)
