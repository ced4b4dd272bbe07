"""Packages that a requirement names by an address: commits of Git repositories, and archives outside the index."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from actbox.core.domains import AllowedDomain

from .addresses import revision_of
from .index import Index, Reach
from .locked_files import SOURCE_ENDINGS, Locked
from .requirements import Requirement
from .resolving import CannotResolve, Installer

# Git runs in the sandbox with settings of ours alone; its only way out is the host of the address.
_GIT = """
import os, subprocess
SETTINGS = ["protocol.allow=never", "protocol.https.allow=always", "core.hooksPath=/dev/null", "credential.helper=",
            "fetch.recurseSubmodules=false", "gc.auto=0", "maintenance.auto=false"]
def git(*words):
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
                   "GIT_TERMINAL_PROMPT": "0", "GIT_DIR": "/tmp/repository"}
    command = ["git", *(word for one in SETTINGS for word in ("-c", one)), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
def said(work):
    try:
        return {"said": work()}
    except FileNotFoundError:
        return {"error": "git is not installed on this machine"}
    except subprocess.CalledProcessError as error:
        return {"error": " ".join(error.stderr.split())[-1000:]}
"""
_COMMIT = """
said(lambda: git("ls-remote", "--", url, *names))
"""
_EXPORT = """
def export():
    git("init", "--quiet", "--bare")
    try:
        git("fetch", "--quiet", "--depth=1", "--", url, commit)
    except subprocess.CalledProcessError:  # a server that gives no single commits
        git("fetch", "--quiet", "--", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    git("archive", "--format=tar.gz", "--prefix=source/", "--output", target, commit)
said(export)
"""


@dataclass(frozen=True, slots=True)
class GitAddress:
    """The parts of an address such as `git+https://host/repository@revision#subdirectory=path`."""

    url: str
    revision: str
    subdirectory: str

    @classmethod
    def of(cls, address: str) -> GitAddress:
        """Read an address that `check_address` admits."""
        parts = urlsplit(address)
        path = parts.path.rpartition("@")[0] if "@" in parts.path else parts.path
        return cls(f"https://{parts.netloc}{path}", revision_of(address), subdirectory_of(address))


def subdirectory_of(address: str) -> str:
    """Return the directory of an archive or repository that has the project, "" for its top."""
    (given,) = parse_qs(urlsplit(address).fragment).get("subdirectory", [""])[:1]
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts:
        raise CannotResolve(f"{address} names a subdirectory outside of its project")
    return "" if given in ("", ".") else str(path)


def is_git(address: str) -> bool:
    """Return whether an address is that of a Git repository."""
    return address.startswith("git+")


def is_wheel(address: str) -> bool:
    """Return whether an address is that of a wheel, which needs no build."""
    return not is_git(address) and urlsplit(address).path.endswith(".whl")


def index_at(address: str) -> tuple[Index, Reach]:
    """Return the host of an address as the place that packages come from, and how a sandbox reaches it."""
    host = f"https://{urlsplit(address).netloc}"
    # Servers of a company are in private networks. A host has to have a certificate for its name in any case.
    domain = AllowedDomain(host, ("GET", "HEAD", "POST"), private=True)
    return Index(default=host, source=f"the address {address}"), Reach((), (domain,), (), ())


def source_at(requirement: Requirement, commit: str) -> Locked:
    """Return what has to be fetched for a requirement with an address; `commit` is that of a Git repository.

    For a question, it may be any revision.
    """
    address = requirement.address
    if is_git(address):
        git = GitAddress.of(address)
        source = f"git+{git.url}@{commit}" + (f"#subdirectory={git.subdirectory}" if git.subdirectory else "")
        filename = f"{requirement.normalized}-{commit}.tar.gz"
        if requirement.hashes:
            raise CannotResolve(f"{requirement} has a hash, and a commit has none: leave it out")
        return Locked(requirement.normalized, "", address, filename, "", is_described=True, source=source)
    filename = unquote(PurePosixPath(urlsplit(address).path).name)
    if not filename.endswith((".whl", *SOURCE_ENDINGS)):
        raise CannotResolve(f"{requirement} names neither a wheel nor a source distribution (.tar.gz or .zip)")
    hashes = {one for one in requirement.hashes if one.startswith("sha256:")}
    if found := re.search(r"(?:^|&)sha256=([0-9a-f]{64})(?:&|$)", urlsplit(address).fragment):
        hashes.add(f"sha256:{found[1]}")
    if len(hashes) > 1 or (requirement.hashes and not hashes):
        raise CannotResolve(f"{requirement} has to have one hash, a SHA-256")
    sha256 = hashes.pop().partition(":")[2] if hashes else ""
    return Locked(requirement.normalized, "", address, filename, sha256, is_described=True, source=address)


async def commit_of(installer: Installer, address: str) -> str:
    """Return the commit that a Git address names, by asking its server. Raises `CannotResolve`."""
    git = GitAddress.of(address)
    revision = git.revision or "HEAD"
    names = [f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}", f"refs/heads/{revision}", revision]
    found = await _answer(installer, _COMMIT, {"url": git.url, "names": names}, address)
    commits = {name: commit for commit, _, name in (line.partition("\t") for line in str(found).splitlines())}
    for name in names:
        if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commits.get(name, "")):
            return commits[name]
    raise CannotResolve(f"{address} cannot be had: {revision!r} is no branch, tag or whole commit of it")


async def export(installer: Installer, address: str, commit: str, target: str) -> None:
    """Fetch a commit of a Git repository, and write its files into an archive at a path of the sandbox."""
    url = GitAddress.of(address).url
    await _answer(installer, _EXPORT, {"url": url, "commit": commit, "target": target}, address)


async def _answer(installer: Installer, code: str, inputs: dict[str, object], address: str) -> object:
    found = await installer.evaluate(_GIT + code, inputs, f"{address} cannot be had")
    if not isinstance(found, dict) or "error" in found:
        raise CannotResolve(f"{address} cannot be had: {found['error'] if isinstance(found, dict) else found}")
    return found["said"]
