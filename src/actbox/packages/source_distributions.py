"""Source distributions of an index: lists those of a package, and offers them to uv, which chooses among them.

uv is never told to build. It gets a stand-in for each source distribution: a wheel with nothing but metadata. If it
chooses one, a wheel is built from that source distribution, and uv resolves again with the metadata of the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion

from actbox.sandbox.dependencies import Target

from .index import Index, reach
from .locked_files import SOURCE_ENDINGS, Locked, StandIn
from .resolving import Installer, fitting_tags

_MOST_STAND_INS = 1000
# Lists the files of a package as its index has them: by pages in JSON or HTML (PEP 503, PEP 691), or in a directory.
_LIST = """
import hashlib, json, os, re, urllib.parse, urllib.request
from html.parser import HTMLParser
ACCEPTED = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
class Page(HTMLParser):
    def handle_starttag(self, tag, attributes):
        said = dict(attributes)
        if tag == "a" and said.get("href"):
            url, _, fragment = urllib.parse.urljoin(self.base, said["href"]).partition("#")
            name = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
            sha256 = re.search("sha256=([0-9a-f]{64})", fragment)
            files.append({"filename": name, "url": url, "sha256": sha256[1] if sha256 else "",
                          "python": said.get("data-requires-python") or "", "yanked": "data-yanked" in said})
def of_page(address):
    if address.startswith("file:"):
        address += "index.html"
    request = urllib.request.Request(address, headers={"Accept": ACCEPTED})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            body, kind, base = answer.read(2**26), answer.headers.get_content_type(), answer.url
    except OSError:
        return
    if not kind.endswith("json"):
        page = Page()
        page.base = base
        return page.feed(body.decode("utf-8", "replace"))
    for one in json.loads(body)["files"]:
        files.append({"filename": one["filename"], "url": urllib.parse.urljoin(base, one["url"]),
                      "sha256": one.get("hashes", {}).get("sha256", ""), "size": one.get("size") or -1,
                      "python": one.get("requires-python") or "", "released": one.get("upload-time") or "",
                      "yanked": one.get("yanked", False) is not False})
def of_directory(path):
    for file in os.listdir(path):
        if re.sub("[-_.]+", "-", file).lower().startswith(name + "-"):
            with open(f"{path}/{file}", "rb") as content:
                sha256 = hashlib.file_digest(content, "sha256").hexdigest()
            files.append({"filename": file, "url": f"file://{path}/{file}", "sha256": sha256})
files = []
for index in indexes:
    of_page(f"{index.rstrip('/')}/{name}/")
    if files and not merges:
        break
for link in links:
    of_directory(link) if link.startswith("/") else of_page(link)
files
"""


def installed_stand_in(installed: tuple[str, str]) -> StandIn:
    """Return what stands for an installed package, given its name and version: it requires nothing more."""
    name, version = installed
    file = Locked(name, version, "", f"{name}-{version}.tar.gz", "")
    return StandIn(file, f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode())


async def list_sources(
    installer: Installer, index: Index, name: str, python: str, target: Target | None
) -> list[StandIn]:
    """Return the source distributions of a package, one for each version without a wheel that fits, newest first.

    They are those of the first index that has the package, or of all if the index merges them. Withdrawn ones, those
    without a hash and those for other versions of Python are left out. Raises `CannotResolve`.
    """
    options = reach(index).options
    pairs = list(pairwise(options))
    pages = {option: [page for other, page in pairs if other == option] for option, _ in pairs}
    indexes = [*pages.get("--index", ()), *pages.get("--default-index", ())]
    name = canonicalize_name(name)
    inputs = {"indexes": indexes, "links": pages.get("--find-links", []), "name": name, "merges": index.merges}
    found = await installer.evaluate(_LIST, inputs, f"the files of {name} cannot be listed")
    assert isinstance(found, list)
    return _chosen(name, found, python, fitting_tags(python, target))


def _chosen(name: str, files: Iterable[dict[str, Any]], python: str, tags: Iterable[Tag]) -> list[StandIn]:
    sources, ready, fitting = {}, set(), frozenset(tags)
    for one in files:
        filename = str(one["filename"])
        try:
            if filename.endswith(".whl"):
                owner, version, _, tags_of_wheel = parse_wheel_filename(filename)
                if owner == name and not fitting.isdisjoint(tags_of_wheel):
                    ready.add(version)
                continue
            if not filename.endswith(SOURCE_ENDINGS):
                continue
            owner, version = parse_sdist_filename(filename)
            fits = SpecifierSet(str(one.get("python", ""))).contains(f"{python}.99")
        except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion, InvalidSpecifier):
            continue
        sha256 = str(one["sha256"])
        if owner == name and fits and not one.get("yanked") and re.fullmatch("[0-9a-f]{64}", sha256):
            size, released = int(one.get("size", -1)), str(one.get("released", ""))
            sources[version] = Locked(name, str(version), str(one["url"]), filename, sha256, size, released, True)
    newest = sorted((version for version in sources if version not in ready), reverse=True)[:_MOST_STAND_INS]
    return [StandIn(sources[one], f"Metadata-Version: 2.1\nName: {name}\nVersion: {one}\n".encode()) for one in newest]
