"""The package index: its addresses, from the settings of uv and pip on this machine, and how a sandbox reaches it.

Where the settings name no index, it is the one that uv takes by itself.
"""

from __future__ import annotations

import configparser
import contextlib
import functools
import ipaddress
import os
import re
import sys
import tomllib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.mounts import FileMount
from actbox.core.secrets import Secret

from .interpreters import find_uv, said_by

_READS = ("GET", "HEAD")
_PLACE = "/opt/index"
_PIP = "the settings of pip"
_UV_DEFAULT = re.compile(r"default package index \(by default: <(\S+)>\)")
MOST_FILE_HOSTS = 16
"""The most hosts to which an index may send for its files."""
MACHINE_SETTINGS = Path("/etc")
"""The directory of the settings that hold for all users."""
_YES = ("1", "true", "yes", "on", "y", "t")


@dataclass(frozen=True, slots=True)
class Index:
    """Where packages come from. Addresses are `http`, `https` or `file`; a path is an address of a directory.

    `default` is the index of simple-repository pages, `extra` are further ones, and `links` are directories or pages
    with wheels. `source` says in words where these were found.
    """

    default: str = ""
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    source: str = ""
    merges: bool = False
    """True if a package may come from any index, as with pip; with uv it comes from the first that has it."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses, the default first."""
        return tuple(address for address in (self.default, *self.extra, *self.links) if address)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a sandbox needs to reach an index: uv's options for it, and entries of a policy."""

    options: tuple[str, ...]
    domains: tuple[AllowedDomain, ...]
    secrets: tuple[Secret, ...]
    mounts: tuple[FileMount, ...]


def find_index(address: str | None = None, source: str = "PackagePolicy.index") -> Index:
    """Return the index at an address, or the one that this machine's settings name. Raises `InvalidValue`.

    `source` says where the address was found.
    """
    if address is not None:
        return Index(default=_checked(address, source), source=source)
    source, found = next(((one, said) for one, said in _settings() if said), ("what uv takes by itself", {}))
    with_pages = "none" not in found
    index = Index(
        default=next(iter(found.get("default", ())), "") or _default_of_uv() if with_pages else "",
        extra=tuple(found.get("extra", ())) if with_pages else (),
        links=tuple(found.get("links", ())),
        source=source,
        merges=source == _PIP,
    )
    for each in index.addresses:
        _checked(each, source)
    if not index.addresses:
        raise InvalidValue(
            f"no package index is configured ({source}): set PackagePolicy(index=…), the environment variable"
            " UV_DEFAULT_INDEX, or the index in the settings of uv or pip"
        )
    return index


def reach(index: Index, file_hosts: Iterable[str] = ()) -> Reach:
    """Return how a sandbox reaches an index: credentials stay at the proxy, directories are mounted read-only.

    `file_hosts` are those to which the index sends for files, as in `https://files.example:443`. They may be on a
    private network if the index's address is, or has the same parent domain.
    """
    domains: dict[str, AllowedDomain] = {}
    secrets: list[Secret] = []
    mounts: dict[Path, FileMount] = {}

    def address_inside(address: str, *, with_files: bool) -> str:
        parts = urlsplit(address)
        if parts.scheme == "file":
            path = Path(url2pathname(parts.path))
            if with_files and path.parent != path.parent.parent:  # pages link to files beside their own directory
                path, name = path.parent, path.name
                return f"{address_inside(path.as_uri(), with_files=False)}/{name}"
            top = next((known for known in mounts if path.is_relative_to(known)), path)
            if top not in mounts:
                mounts[top] = FileMount(top, f"{_PLACE}/{len(mounts)}", "ro")
            return f"file://{mounts[top].mount_path / path.relative_to(top)}"
        assert parts.hostname is not None
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        target = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            value = b64encode(credentials.encode()).decode()
            secrets.append(Secret(f"index{len(secrets)}", value, [target], "Authorization: Basic {}"))
        methods = _READS if parts.username is not None or parts.scheme == "http" else None
        domains.setdefault(target, AllowedDomain(target, methods, private=True))
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))

    options: list[str] = []
    pages = [address for address in (index.default, *index.extra) if address]
    default, extra = (pages[0], pages[1:]) if pages else ("", [])
    options += ["--default-index", address_inside(default, with_files=True)] if default else ["--no-index"]
    if index.merges:
        options += ["--index-strategy", "unsafe-best-match"]
    for address in extra:
        options += ["--index", address_inside(address, with_files=True)]
    for address in index.links:
        options += ["--find-links", address_inside(address, with_files=False).removeprefix("file://")]
    own = {domain.host for domain in domains.values()}
    for target in file_hosts:
        with contextlib.suppress(InvalidValue):  # one that nobody may reach: the resolver says so
            host = AllowedDomain(target).host
            is_private = any(_is_private(one) or _are_neighbours(one, host) for one in own)
            if is_private or not _is_private(host):
                domains.setdefault(target, AllowedDomain(target, _READS, private=is_private))
    return Reach(tuple(options), tuple(domains.values()), tuple(secrets), tuple(mounts.values()))


def without_secrets(text: str) -> str:
    """Return a text without the user information and queries of addresses in it, which may be credentials."""
    return re.sub(r"(\w://)[^\s/?#]*@", r"\1", re.sub(r"(\w://[^\s?#`'\"()<>]*)\?[^\s#`'\"()<>]*", r"\1", text))


def _checked(address: str, source: str) -> str:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:  # whose message may have a part of a password
        raise InvalidValue(
            f"{source}: the address of an index cannot be read; write it as https://packages.example/simple, with"
            " special characters of names and passwords in the form of %2F"
        ) from None
    if parts.scheme not in ("http", "https", "file") or not (parts.hostname or parts.scheme == "file"):
        shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        raise InvalidValue(
            f"{source}: {shown!r} is not the address of an index, such as https://packages.example/simple"
        )
    return address


def _is_private(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False


def _are_neighbours(host: str, other: str) -> bool:
    """Return whether two hosts have the same parent domain, such as `a.corp.example` and `b.corp.example`."""
    parent = host.partition(".")[2]
    return "." in parent and parent == other.partition(".")[2]


@functools.cache
def _default_of_uv() -> str:
    """Return the index that uv takes if nothing names one, as its own help says it, or "". Blocks."""
    try:
        found = _UV_DEFAULT.search(" ".join(said_by([find_uv(), "pip", "compile", "--help"]).split()))
    except SandboxUnavailable:
        return ""
    return found[1] if found else ""


def _settings() -> Iterator[tuple[str, Mapping[str, list[str]]]]:
    """Yield what uv's settings say, then what pip's say; a variable overrides the files, each setting by itself.

    `none` is there if they take no index but the links.
    """
    uv = {**_of_uv_file(MACHINE_SETTINGS / "uv" / "uv.toml"), **_of_uv_file(_config_home() / "uv" / "uv.toml")}
    variables = _of_variables(
        ("UV_DEFAULT_INDEX", "UV_INDEX_URL"), ("UV_INDEX", "UV_EXTRA_INDEX_URL"), "UV_FIND_LINKS", "UV_NO_INDEX"
    )
    yield "the settings of uv", {**uv, **variables}
    pip = _of_variables(("PIP_INDEX_URL",), ("PIP_EXTRA_INDEX_URL",), "PIP_FIND_LINKS", "PIP_NO_INDEX")
    yield _PIP, {**_of_pip_files(), **pip}


def _of_variables(default: Iterable[str], extra: Iterable[str], links: str, none: str) -> dict[str, list[str]]:
    return _present(
        none=[none] if os.environ.get(none, "").lower() in _YES else [],
        default=[os.environ[name] for name in default if os.environ.get(name)],
        extra=[address for name in extra for address in os.environ.get(name, "").split()],
        links=[_as_address(text) for text in os.environ.get(links, "").replace(",", " ").split()],
    )


def _present(**found: list[str]) -> dict[str, list[str]]:
    return {name: addresses for name, addresses in found.items() if addresses}


def _of_uv_file(path: Path) -> dict[str, list[str]]:
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"the settings in {path} cannot be read: {error}") from None
    tables: list[dict[str, Any]] = [one for one in said.get("index", []) if isinstance(one, dict)]
    return _present(
        none=["no-index"] if said.get("no-index") is True else [],
        default=[
            *(str(one["url"]) for one in tables if one.get("default") and "url" in one),
            *([str(said["index-url"])] if "index-url" in said else []),
        ],
        extra=[
            *(str(one["url"]) for one in tables if not one.get("default") and "url" in one),
            *map(str, said.get("extra-index-url", [])),
        ],
        links=[_as_address(str(one)) for one in said.get("find-links", [])],
    )


def _of_pip_files() -> dict[str, list[str]]:
    """Return what pip's files say together; a later file overrides an earlier one, as in pip."""
    named = os.environ.get("PIP_CONFIG_FILE")
    places = [MACHINE_SETTINGS / "pip.conf", Path.home() / ".pip" / "pip.conf", _config_home() / "pip" / "pip.conf"]
    places += [Path(sys.prefix) / "pip.conf", *([Path(named)] if named else [])]
    settings = configparser.RawConfigParser(strict=False)
    try:
        settings.read(places, "utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise InvalidValue(f"the settings of pip cannot be read: {error}") from None
    found: dict[str, list[str]] = {}
    for section in ("global", "install"):
        for name, key in (("default", "index-url"), ("extra", "extra-index-url"), ("links", "find-links")):
            if settings.has_option(section, key):
                words = settings.get(section, key).split()
                found[name] = [_as_address(word) for word in words] if name == "links" else words
        if settings.get(section, "no-index", fallback="").lower() in _YES:
            found["none"] = ["no-index"]
    return found


def _as_address(text: str) -> str:
    return text if "://" in text else Path(text).absolute().as_uri()


def _config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
