"""What a program may do: limits, file mounts, allowed domains and secrets, all frozen and checked when made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from .errors import InvalidValue

MountMode = Literal["ro", "rw", "overlay"]

WORKSPACE = PurePosixPath("/workspace")
INPUT = PurePosixPath("/input")
OUTPUT = PurePosixPath("/output")

# A mount over one of these would replace what the sandbox itself is made of.
_RESERVED = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run may use. Each has an enforcer, which an engine names in its `traits`.

    A run always has all of these: the defaults hold where nothing is said.
    """

    wall_seconds: float = field(
        default=60.0, metadata={"unit": "seconds", "about": "time from start to end, tools included"}
    )
    cpu_seconds: float = field(
        default=60.0, metadata={"unit": "seconds", "about": "processor time of all the run's processes"}
    )
    memory_mib: int = field(default=1024, metadata={"unit": "MiB", "about": "memory of all the run's processes"})
    processes: int = field(default=64, metadata={"unit": "processes and threads", "about": "alive at once"})
    open_files: int = field(default=256, metadata={"unit": "descriptors", "about": "open at once in one process"})
    file_mib: int = field(default=256, metadata={"unit": "MiB", "about": "size of one file"})
    workspace_mib: int = field(
        default=512,
        metadata={"unit": "MiB", "about": "all files in /workspace; as much again in /tmp, and 64 MiB in /dev/shm"},
    )
    output_bytes: int = field(default=10_000_000, metadata={"unit": "bytes", "about": "stdout and stderr together"})
    tool_calls: int = field(default=10_000, metadata={"unit": "calls", "about": "tool calls in one run"})
    message_bytes: int = field(
        default=16 * 2**20,
        metadata={
            "unit": "bytes",
            "about": "one message on the channel: a tool's arguments or result, the value",
        },
    )
    artifacts: int = field(default=200, metadata={"unit": "files", "about": "artifacts collected from one run"})
    artifact_mib: int = field(default=256, metadata={"unit": "MiB", "about": "all artifacts of one run together"})

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            number = isinstance(value, (int, float) if spec.type == "float" else int) and not isinstance(value, bool)
            if not number or not 0 < value < float("inf"):
                kind = "number" if spec.type == "float" else "whole number"
                raise InvalidValue(
                    f"Limits.{spec.name} must be a {kind} of {spec.metadata['unit']} above zero, not {value!r}"
                )

    def to_dict(self) -> dict[str, float]:
        """Return every limit by name."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}


@dataclass(frozen=True, slots=True)
class FileMount:
    """A file or folder of the host that a program sees.

    `mode` is `ro` (the program can read), `rw` (it can also change the host's own files) or `overlay` (it can change
    what it sees; the changes are thrown away when the run ends). A relative `mount_path` lies below `/input`.
    Unpacks as the pair `(host_path, mount_path)`.

    Raises `InvalidValue` where the host path is missing or the mount path would hide the sandbox's own folders.
    """

    host_path: Path
    mount_path: PurePosixPath
    mode: MountMode = "ro"

    def __init__(self, host_path: str | Path, mount_path: str | PurePosixPath, mode: MountMode = "ro") -> None:
        if not str(host_path) or "\0" in str(host_path):
            raise InvalidValue(f"FileMount needs a host path, not {str(host_path)!r}")
        host = Path(host_path).expanduser().absolute()
        try:
            host = host.resolve(strict=True)
        except (OSError, RuntimeError):
            raise InvalidValue(f"FileMount: there is no {host} on this machine") from None
        if mode not in get_args(MountMode):
            raise InvalidValue(f"FileMount({str(host)!r}): mode must be 'ro', 'rw' or 'overlay', not {mode!r}")
        if not (host.is_file() or host.is_dir()):
            raise InvalidValue(f"FileMount: {host} is neither a file nor a folder")
        if mode == "overlay" and not host.is_dir():
            raise InvalidValue(f"FileMount({str(host)!r}): overlay takes a folder; mount a single file 'ro' or 'rw'")
        object.__setattr__(self, "host_path", host)
        object.__setattr__(self, "mount_path", _mount_path(mount_path))
        object.__setattr__(self, "mode", mode)

    def __iter__(self) -> Iterator[str]:
        return iter((str(self.host_path), str(self.mount_path)))


def _mount_path(given: str | PurePosixPath) -> PurePosixPath:
    text = str(given)
    if not text or "\0" in text:
        raise InvalidValue(f"FileMount needs a mount path, not {text!r}")
    path = PurePosixPath(text)
    path = PurePosixPath("/", *path.parts[1:]) if path.is_absolute() else INPUT / path
    if ".." in path.parts:
        raise InvalidValue(f"FileMount: the mount path {text!r} must not contain '..'")
    # /input and /output are the same places as /workspace/input and /workspace/output: one spelling inside.
    for alias in (INPUT, OUTPUT):
        if path.is_relative_to(WORKSPACE / alias.name):
            path = alias / path.relative_to(WORKSPACE / alias.name)
    if len(path.parts) < 2 or path.parts[1] in _RESERVED:
        raise InvalidValue(
            f"FileMount: {text!r} is the sandbox's own; mount below /input or in a folder of your own such as /data"
        )
    if path in (WORKSPACE, INPUT, OUTPUT):
        raise InvalidValue(
            f"FileMount: {text!r} is a folder that every sandbox has; mount below it, such as {path}/data"
        )
    return path


_HOST_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_METHOD = re.compile(r"[A-Z][A-Z-]*")


@dataclass(frozen=True, slots=True)
class AllowedDomain:
    """A host that a program may reach, and how.

    `target` is a host name (`api.example.com`, or `*.example.com` for its subdomains), optionally with a scheme and a
    port, which both restrict; without a port only 80 and 443 are meant. `methods` are HTTP methods, `None` for all.
    Normalised here, once: `host` is lower-case IDNA, `methods` upper-case. `str()` gives the normalised target.

    Raises `InvalidValue` for a path, query or user info in the target, and for an empty list of methods.
    """

    target: str
    methods: tuple[str, ...] | None
    host: str
    scheme: Literal["http", "https"] | None
    port: int | None

    def __init__(self, target: str, methods: Iterable[str] | None = None) -> None:
        host, scheme, port = _parse_target(target)
        literal = f"[{host}]" if ":" in host else host
        text = (f"{scheme}://" if scheme else "") + literal + (f":{port}" if port is not None else "")
        object.__setattr__(self, "target", text)
        object.__setattr__(self, "methods", _parse_methods(target, methods))
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "scheme", scheme)
        object.__setattr__(self, "port", port)

    def __str__(self) -> str:
        return self.target

    @property
    def ports(self) -> frozenset[int]:
        """The ports that this entry opens."""
        if self.port is not None:
            return frozenset({self.port})
        return {"http": frozenset({80}), "https": frozenset({443})}.get(self.scheme or "", frozenset({80, 443}))


def _parse_target(target: str) -> tuple[str, Literal["http", "https"] | None, int | None]:
    def wrong(why: str) -> InvalidValue:
        return InvalidValue(f"AllowedDomain({target!r}): {why}")

    if not isinstance(target, str) or not target.strip():
        raise wrong("give a host name such as 'api.example.com'")
    text = target.strip()
    if any(c.isspace() or ord(c) < 32 for c in text) or "\\" in text:
        raise wrong("a host name has no spaces, control characters or backslashes")
    try:
        parts = urlsplit(text if "://" in text else "//" + text)
        port = parts.port
    except ValueError as error:
        raise wrong(str(error)) from None
    scheme = parts.scheme.lower()
    if scheme not in ("", "http", "https"):
        raise wrong(f"the scheme must be http or https, not {scheme!r}")
    if "@" in parts.netloc:
        raise wrong("user info does not belong in an allow-list; use a Secret")
    if parts.path not in ("", "/") or parts.query or parts.fragment or "?" in text or "#" in text:
        raise wrong("entries are for whole hosts; leave out the path, query and fragment")
    if parts.netloc.endswith(":") or port == 0:
        raise wrong("the port must be a number from 1 to 65535")
    host = _normal_host(parts.hostname or "", wrong)
    return host, ("http" if scheme == "http" else "https") if scheme else None, port


def _normal_host(name: str, wrong: Any) -> str:
    if ":" in name:  # an IPv6 literal; urlsplit has taken the brackets off
        import ipaddress

        try:
            return str(ipaddress.IPv6Address(name))
        except ValueError:
            raise wrong(f"{name!r} is not an IPv6 address") from None
    wildcard = name.startswith("*.")
    bare = name.removeprefix("*.").rstrip(".")
    if not bare or "*" in bare:
        raise wrong("give a host name; a '*' may stand only as the whole first label ('*.example.com')")
    try:
        ascii_name = bare.lower().encode("idna").decode("ascii") if not bare.isascii() else bare.lower()
    except UnicodeError:
        raise wrong(f"{bare!r} is not a host name") from None
    if len(ascii_name) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in ascii_name.split(".")):
        raise wrong(f"{bare!r} is not a host name")
    return ("*." if wildcard else "") + ascii_name


def _parse_methods(target: str, methods: Iterable[str] | None) -> tuple[str, ...] | None:
    if methods is None:
        return None
    if isinstance(methods, str):
        raise InvalidValue(f"AllowedDomain({target!r}): methods is a list such as ['GET'], not the text {methods!r}")
    names = []
    for method in methods:
        name = method.strip().upper() if isinstance(method, str) else ""
        if not _METHOD.fullmatch(name):
            raise InvalidValue(f"AllowedDomain({target!r}): {method!r} is not an HTTP method")
        if name not in names:
            names.append(name)
    if not names:
        raise InvalidValue(f"AllowedDomain({target!r}): the list of methods is empty; leave it out to allow all")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that requests to some hosts carry and that the program itself never sees.

    `header` is a whole header line with `{}` where the value goes. The value is left out of `repr`.
    """

    name: str
    value: str = field(repr=False)
    domains: tuple[str, ...]
    header: str

    def __init__(self, name: str, value: str, domains: Sequence[str], header: str = "Authorization: Bearer {}") -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
            raise InvalidValue(f"Secret: the name {name!r} must be a word such as 'github'")
        if not isinstance(value, str) or not value or any(c in value for c in "\r\n\0"):
            raise InvalidValue(f"Secret({name!r}): the value must be one non-empty line of text")
        if isinstance(domains, str) or not domains:
            raise InvalidValue(f"Secret({name!r}): domains is a non-empty list such as ['api.example.com']")
        if not re.fullmatch(r"[A-Za-z0-9-]+: [^\r\n\0]+", header) or header.count("{}") != 1:
            raise InvalidValue(f"Secret({name!r}): header must look like 'Authorization: Bearer {{}}', not {header!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "domains", tuple(AllowedDomain(d).target for d in domains))
        object.__setattr__(self, "header", header)


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
        allowed = {domain.host for domain in self.domains}
        for secret in self.secrets:
            for domain in secret.domains:
                if AllowedDomain(domain).host not in allowed:
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
