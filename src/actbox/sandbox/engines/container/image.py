"""The root of a container: a named image, or an empty one in which the host's own directories are mounted."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.engines.linux.interpreter import Base, interpreter
from actbox.sandbox.engines.linux.nursery import SYSTEM_PATH
from actbox.sandbox.nursery.root import ETC, ETC_FILES, SYSTEM, hidden_in, outermost
from actbox.sandbox.remote.interpreter import FoundInterpreter

from .cache import LABEL, OURS, cache_folder, note_use, remove_unused
from .client import Client, CommandFailed
from .packages import ENVIRONMENT, image_python

_FOLDERS = ("proc", "sys", "dev", "home", "run", "var", "var/tmp", "opt")
_WRITABLE = ("tmp", "workspace")
_LINKS = {"input": "/workspace/input", "output": "/workspace/output"}


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a container: an image, the host's directories that it shows read-only, and its Python."""

    image: str
    python: str
    mounts: tuple[tuple[str, str], ...] = ()
    """(host path, path inside)."""
    keeps_variables: bool = False
    """True if the image itself sets the environment variables of programs."""
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Directories of which programs see only a part: paths in each, with all below."""
    search: str = ""
    """The `PATH` of programs."""


_HOST = Base()


def host_root(client: Client, base: Base = _HOST, files: str = "") -> Root:
    """Return a root that shows an interpreter of the host, packages, and `/usr`; its image is made if needed.

    `base` is the environment, and `files` a directory of the host with packages to import ahead of it.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(f"without image= the host's own Linux interpreter is used, and this is {sys.platform}")
    found = interpreter(base)
    folders = outermost([path for path in found.folders if os.path.isdir(path)])
    system = ["/usr", *(f"/{name}" for name in SYSTEM if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"))]
    shown = [*system, *(path for path in folders if not path.startswith("/usr/"))]
    etc = [path for name in ETC if os.path.exists(path := f"/etc/{name}")]
    empty = _empty_file()
    hidden = [
        path
        for path in hidden_in(["/usr", "/usr/local", *folders])
        if os.path.isfile(path) and os.path.realpath(path) == path
    ]
    mounts = [(path, path) for path in (*shown, *etc)] + [(empty, path) for path in hidden]
    made = _tar(_system_links())
    return Root(
        _image_of(client, made),
        found.python,
        (*mounts, *_mounts_of(files)),
        left=found.left,
        search=_search(f"{os.path.dirname(found.python)}:{SYSTEM_PATH}", files),
    )


def python_of(client: Client, image: str) -> FoundInterpreter:
    """Return the interpreter of an image. Raises `SandboxUnavailable` if there is no such image, or none in it."""
    return image_python(client, image, _inspected(client, image)[0])


def named_root(client: Client, image: str, files: str = "") -> Root:
    """Return a root from an existing image, with the mount points that every sandbox needs.

    `files` is a directory of the host with packages to import ahead of the image's. Raises `SandboxUnavailable` if
    there is no such image, or no Python in it.
    """
    number, search = _inspected(client, image)
    python = image_python(client, image, number).path
    added = _tar({})
    name = f"{OURS[1]}{number[:12]}-{hashlib.sha256(added).hexdigest()[:12]}"
    if not _exists(client, name):
        with tempfile.TemporaryDirectory(prefix="actbox-") as folder:
            Path(folder, "layer.tar").write_bytes(added)
            Path(folder, "Dockerfile").write_text(f"FROM {image}\nADD layer.tar /\n")
            own = ["--pull=never", "--layers=false"] if client.is_podman else []
            options = ["--network", "none", "--label", f"{LABEL}=layer", *own]
            client.run("build", *options, "--tag", name, folder, seconds=300)
        remove_unused(client, name)
    return Root(name, python, _mounts_of(files), keeps_variables=True, search=_search(search, files))


def _inspected(client: Client, image: str) -> tuple[str, str]:
    """Return the id and the `PATH` of an image. Raises `SandboxUnavailable` if there is no such image."""
    try:
        found = client.json("image", "inspect", image)[0]
    except CommandFailed:
        raise SandboxUnavailable(
            f"there is no image {image!r} here; get it with `{client.name} pull {image}`"
        ) from None
    variables = dict(line.partition("=")[::2] for line in found["Config"].get("Env") or ())
    return str(found["Id"]).removeprefix("sha256:"), variables.get("PATH") or SYSTEM_PATH


def _mounts_of(files: str) -> tuple[tuple[str, str], ...]:
    return ((files, ENVIRONMENT),) if files else ()


def _search(path: str, files: str) -> str:
    """Return a `PATH` in which the scripts of packages stand behind the other programs."""
    return f"{path}:{ENVIRONMENT}/bin" if files else path


def _image_of(client: Client, content: bytes) -> str:
    """Return the name of the image with this content, making it if needed."""
    name = f"{OURS[0]}{hashlib.sha256(content).hexdigest()[:24]}"
    if not _exists(client, name):
        with tempfile.NamedTemporaryFile(prefix="actbox-", suffix=".tar") as file:
            file.write(content)
            file.flush()
            client.run("import", "--change", f"LABEL {LABEL}=host", file.name, name)
        remove_unused(client, name)
    return name


def has_gone(client: Client, image: str) -> bool:
    """Return whether an image that existed has been removed."""
    _known.discard((client.path, image))
    return not _exists(client, image)


_known: set[tuple[str, str]] = set()
"""Images known to exist, each with its command: asking takes as long as making a container."""


def _exists(client: Client, image: str) -> bool:
    if (client.path, image) not in _known:
        try:
            client.run("image", "inspect", "--format", "{{.Id}}", image)
        except CommandFailed:
            return False
        _known.add((client.path, image))
    note_use(client, image)
    return True


def _system_links() -> dict[str, str]:
    return {name: os.readlink(f"/{name}") for name in SYSTEM if os.path.islink(f"/{name}")}


def _tar(links: dict[str, str]) -> bytes:
    """Return a tar file with the directories and links that a root needs; always the same bytes.

    The runtime makes the mount points, before the root becomes read-only.
    """
    entries: dict[str, tuple[int, str | bytes | None]] = dict.fromkeys(_FOLDERS, (493, None))
    entries |= dict.fromkeys(_WRITABLE, (1023, None))
    entries |= {name: (0o777, target) for name, target in {**links, **_LINKS}.items()}
    if links:
        for name, text in ETC_FILES.items():
            entries[f"etc/{name}"] = (0o644, text.encode())
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(entries):
            mode, content = entries[name]
            info = tarfile.TarInfo(name)
            info.mode = mode
            if content is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def _empty_file() -> str:
    """Return the path of an empty file, to be mounted over files that nobody may see."""
    path = cache_folder() / "empty"
    path.touch(mode=0o444)
    return str(path)
