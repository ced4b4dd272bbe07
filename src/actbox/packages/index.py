"""The package index: its addresses, from the settings of uv and pip on this machine, and how a sandbox reaches it."""

from __future__ import annotations

import configparser
import ipaddress
import os
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
from actbox.core.errors import InvalidValue
from actbox.core.mounts import FileMount
from actbox.core.secrets import Secret

_READS = ("GET", "HEAD")
_PLACE = "/opt/index"
_PIP = "the settings of pip"


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
    for source, found in _settings():
        index = Index(
            default=next(iter(found.get("default", ())), ""),
            extra=tuple(found.get("extra", ())),
            links=tuple(found.get("links", ())),
            source=source,
            merges=source == _PIP,
        )
        if index.addresses:
            for each in index.addresses:
                _checked(each, source)
            return index
    raise InvalidValue(
        "no package index is configured: set PackagePolicy(index=…), the environment variable UV_DEFAULT_INDEX, or the"
        " index in the settings of uv or pip"
    )


def reach(index: Index) -> Reach:
    """Return how a sandbox reaches an index: credentials stay at the proxy, directories are mounted read-only."""
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
        domains.setdefault(target, AllowedDomain(target, methods, private=_is_private(parts.hostname)))
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
    return Reach(tuple(options), tuple(domains.values()), tuple(secrets), tuple(mounts.values()))


def _checked(address: str, source: str) -> str:
    parts = urlsplit(address)
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


def _settings() -> Iterator[tuple[str, Mapping[str, list[str]]]]:
    """Yield what uv's settings say, then what pip's say; a variable overrides the files, each setting by itself."""
    uv = {**_of_uv_file(Path("/etc/uv/uv.toml")), **_of_uv_file(_config_home() / "uv" / "uv.toml")}
    variables = _of_variables(("UV_DEFAULT_INDEX", "UV_INDEX_URL"), ("UV_INDEX", "UV_EXTRA_INDEX_URL"), "UV_FIND_LINKS")
    yield "the settings of uv", {**uv, **variables}
    pip = _of_variables(("PIP_INDEX_URL",), ("PIP_EXTRA_INDEX_URL",), "PIP_FIND_LINKS")
    yield _PIP, {**_of_pip_files(), **pip}


def _of_variables(default: Iterable[str], extra: Iterable[str], links: str) -> dict[str, list[str]]:
    return _present(
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
    places = [Path("/etc/pip.conf"), Path.home() / ".pip" / "pip.conf", _config_home() / "pip" / "pip.conf"]
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
    return found


def _as_address(text: str) -> str:
    return text if "://" in text else Path(text).absolute().as_uri()


def _config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
