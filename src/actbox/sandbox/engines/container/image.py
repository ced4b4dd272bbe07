"""The root of a container: a named image, or an empty one in which the host's own directories are mounted."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.engines.linux.interpreter import environment_folders
from actbox.sandbox.host_python import HOST_PYTHON
from actbox.sandbox.nursery.root import ETC, ETC_FILES, SYSTEM, hidden_in, outermost

from .cache import LABEL, OURS, cache_folder, note_use, remove_unused
from .client import Client, CommandFailed
from .packages import PLACE, folder_for_host, folder_for_image

_FOLDERS = ("proc", "sys", "dev", "home", "run", "var", "var/tmp", "opt")
_WRITABLE = ("tmp", "workspace")
_LINKS = {"input": "/workspace/input", "output": "/workspace/output"}
# Places where an image's interpreter is looked for.
_PYTHONS = ("python3", "python", "/usr/local/bin/python3", "/usr/bin/python3")
_ASK_PYTHON = "import sys; print(sys.executable); print(*sys.version_info[:2])"
_LEAST_PYTHON = (3, 9)


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a container: an image, the host's directories that it shows read-only, and its Python."""

    image: str
    python: str
    mounts: tuple[tuple[str, str], ...] = ()
    """(host path, path inside)."""
    keeps_variables: bool = False
    """True if the image itself sets the environment variables of programs."""
    packages: str = ""
    paths: tuple[str, ...] = ()
    """Directories inside from which programs import, ahead of the interpreter's own."""


def host_root(client: Client, packages: tuple[str, ...] = ()) -> Root:
    """Return a root that shows the host's interpreter, its packages, and `/usr`; its image is made if needed.

    `packages` are requirements that it shows too.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(f"without image= the host's own Linux interpreter is used, and this is {sys.platform}")
    folders = [path for path in outermost(environment_folders()) if os.path.isdir(path)]
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
    root = Root(_image_of(client, made), HOST_PYTHON, tuple(mounts), packages="those of the host's environment")
    return _with_packages(root, packages, folder_for_host(packages)) if packages else root


def named_root(client: Client, image: str, packages: tuple[str, ...] = ()) -> Root:
    """Return a root from an existing image, with the mount points that every sandbox needs.

    `packages` are requirements that it shows too. Raises `SandboxUnavailable` if there is no such image, or no Python
    in it.
    """
    try:
        found = client.json("image", "inspect", image)[0]
    except CommandFailed:
        raise SandboxUnavailable(
            f"there is no image {image!r} here; get it with `{client.name} pull {image}`"
        ) from None
    number = str(found["Id"]).removeprefix("sha256:")
    python = _python_in(client, image, number)
    layer = _tar({})
    name = f"{OURS[1]}{number[:12]}-{hashlib.sha256(layer).hexdigest()[:12]}"
    if not _exists(client, name):
        with tempfile.TemporaryDirectory(prefix="actbox-") as folder:
            Path(folder, "layer.tar").write_bytes(layer)
            Path(folder, "Dockerfile").write_text(f"FROM {image}\nADD layer.tar /\n")
            own = ["--pull=never", "--layers=false"] if client.is_podman else []
            options = ["--network", "none", "--label", f"{LABEL}=layer", *own]
            client.run("build", *options, "--tag", name, folder, seconds=300)
        remove_unused(client, name)
    root = Root(name, python, keeps_variables=True, packages=f"those of the image {image}")
    if not packages:
        return root
    return _with_packages(root, packages, folder_for_image(client, image, number, python, packages))


def _with_packages(root: Root, packages: tuple[str, ...], folder: Path) -> Root:
    return dataclasses.replace(
        root,
        mounts=(*root.mounts, (str(folder), PLACE)),
        packages=f"{root.packages}, and {', '.join(packages)}",
        paths=(PLACE,),
    )


def _python_in(client: Client, image: str, number: str) -> str:
    """Return the path of an image's Python."""
    if number in _known_pythons:
        return _known_pythons[number]
    for candidate in _PYTHONS:
        try:
            said = client.run(
                *("run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"),
                *("--pull=never", "--entrypoint", candidate, image, "-c", _ASK_PYTHON),
            ).splitlines()
        except CommandFailed:
            continue
        if len(said) == 2 and tuple(map(int, said[1].split())) >= _LEAST_PYTHON:
            _known_pythons[number] = said[0]
            return said[0]
    raise SandboxUnavailable(f"the image {image!r} has no Python {'.'.join(map(str, _LEAST_PYTHON))} or later")


_known_pythons: dict[str, str] = {}


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
