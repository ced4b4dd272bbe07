"""What a program may do: limits, file mounts, allowed domains and secrets, all frozen and checked when made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from .domains import AllowedDomain
from .errors import InvalidValue
from .limits import Limits
from .mounts import FileMount
from .secrets import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the programs of a sandbox may do. Immutable: a run keeps the one that it started with.

    `preload` names modules that programs find imported already where the engine can do that, such as
    `("numpy", "pandas")`: an `import` of one then costs nothing. Elsewhere they are imported when a program says so.

    Raises `InvalidValue` where two mounts share a path, or a secret has no allowed domain to go to.
    """

    limits: Limits = field(default_factory=Limits)
    mounts: tuple[FileMount, ...] = ()
    domains: tuple[AllowedDomain, ...] = ()
    secrets: tuple[Secret, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Limits):
            raise InvalidValue(f"Policy.limits must be Limits(…), not {self.limits!r}")
        for name, kind in (("mounts", FileMount), ("domains", AllowedDomain), ("secrets", Secret)):
            given = getattr(self, name)
            items = tuple(given) if isinstance(given, Iterable) else (given,)
            for item in items:
                if not isinstance(item, kind):
                    raise InvalidValue(f"Policy.{name} takes {kind.__name__} values, not {item!r}")
            object.__setattr__(self, name, items)
        seen: set[PurePosixPath] = set()
        for mount in self.mounts:
            if mount.mount_path in seen:
                raise InvalidValue(f"Policy.mounts: two mounts at {mount.mount_path}")
            seen.add(mount.mount_path)
        for secret in self.secrets:
            for domain in secret.domains:
                target = AllowedDomain(domain)
                if not any(allowed.overlaps(target) for allowed in self.domains):
                    raise InvalidValue(f"Secret({secret.name!r}) is for {domain}, which Policy.domains does not allow")
        object.__setattr__(self, "variables", check_variables(self.variables))
        object.__setattr__(self, "preload", _module_names(self.preload))


def _module_names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidValue(f"Policy.preload is a list such as ['numpy'], not the text {names!r}")
    unique = tuple(dict.fromkeys(names))
    for name in unique:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise InvalidValue(f"Policy.preload: {name!r} is not the name of a module")
    return unique


def check_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of environment variables, or raise `InvalidValue` naming the one that cannot be set."""
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
