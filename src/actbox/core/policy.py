"""What a program may do: limits, file mounts, allowed domains and secrets, all frozen and checked when made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import PurePosixPath
from typing import Any

from .domains import AllowedDomain, target_text
from .errors import InvalidValue
from .limits import Limits
from .mounts import INPUT, FileMount
from .secrets import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the programs of a sandbox may do. Immutable: a run keeps the one that it started with.

    `preload` names modules that programs find imported already where the engine can do that, such as
    `("numpy", "pandas")`: an `import` of one then costs nothing. Elsewhere they are imported when a program says so,
    and a note of the engine's traits says that: it is a hint, which no engine refuses.
    One that cannot be imported ahead is left out, and `ExecutionResult.warnings` of every program says so.

    Raises `InvalidValue` where two mounts share a path, one lies below another that is not at `/input`, two secrets
    share a name or would be one header of one request, or a secret can go to none of the places that are allowed.
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
        object.__setattr__(self, "preload", _module_names(self.preload))


_EXAMPLES = {
    "mounts": "FileMount('/srv/sales', 'sales')",
    "domains": "AllowedDomain('api.example.com')",
    "secrets": "Secret('github', token, ['api.github.com'])",
}


def _values_of(name: str, kind: type, given: object) -> tuple[Any, ...]:
    if isinstance(given, kind):  # a mount could even be read as a list, of its two paths
        raise InvalidValue(
            f"Policy.{name} is a tuple: write ({kind.__name__}(…),) with a comma, or [{kind.__name__}(…)]"
        )
    items = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else (given,)
    for item in items:
        if not isinstance(item, kind):
            # What stands in a secret's place may be its value, which no message shows.
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
    """Raise `InvalidValue` for two secrets of which a request could carry only one, or whose names are one."""
    if one.name == other.name:
        raise InvalidValue(f"Policy.secrets: two secrets are called {one.name!r}; give one of them another name")
    if one.header_name != other.header_name:
        return
    # Hosts that overlap lie one within the other: where each pair of three overlaps, there is a place for all three.
    for a, b in product(one.places(), other.places()):
        if a.overlaps(b) and any(allowed.overlaps(a) and allowed.overlaps(b) for allowed in domains):
            raise InvalidValue(
                f"Policy.secrets: {one.name!r} and {other.name!r} would both be the header {one.header_name!r} of"
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
        # Only the type: what is given may hold passwords.
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
