"""The root that guests see: made once by the nursery as a read-only template, and copied for each guest.

It has the interpreter and its packages, `/usr`, a few files of `/etc` that programs need, five devices, and nothing
else of the host. The child adds what belongs to one run (`/tmp`, `/proc`, the workspace, mounts).
"""

from __future__ import annotations

import os

from . import linux
from .family import TREES
from .gate import FOLDERS
from .identity import GUEST_ID
from .landlock import DEVICES

# A directory that every Linux has and that the nursery does not need; it is hidden in its own mount namespace.
STAGE = "/sys"

ETC = (
    "alternatives",
    "ca-certificates",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "magic",
    "mime.types",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
)
ETC_FILES = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:%d:%d:agent:/workspace:/bin/sh\n"
    % (GUEST_ID, GUEST_ID),
    "group": "root:x:0:\nagent:x:%d:\n" % GUEST_ID,
    "hosts": "127.0.0.1 localhost actbox\n::1 localhost\n",
    "hostname": "actbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n",
    "resolv.conf": "",
}
# Directories of the root that the child covers; an environment below one of them is attached afterwards.
COVERED = ("/tmp", "/dev", "/proc", "/workspace")
# Files at the top of an environment, or in its `etc`, that may hold passwords of package indexes; shown empty.
_HIDDEN = ("pip.conf", "uv.toml", ".pypirc", ".condarc", "condarc", ".netrc", ".env", "npmrc", ".npmrc")
_EMPTY = ("proc", "tmp", "workspace", "dev/shm", "home", "var/tmp", "opt/packages", TREES, *FOLDERS)
SYSTEM = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")


class Templates:
    """Makes template roots, one for each set of extra mount points."""

    def __init__(self, environment: list[str], left: dict[str, list[str]]) -> None:
        """`environment` are the directories of the interpreter and its packages; for `left` see `_leave_only`."""
        linux.mount("tmpfs", STAGE, "tmpfs", linux.MS_NOSUID, "mode=0755")
        with open(STAGE + "/empty", "w"):
            pass
        _leave_only(left)
        found = [path for path in environment if os.path.isdir(path)]
        self._hidden = hidden_in(["/usr", "/usr/local", *found])
        self._environment = outermost(found)
        self._made = 0
        self.late: list[tuple[str, str]] = []
        """Directories of the environment below what the child covers: (path here, path in the sandbox)."""
        for path in self._environment:
            if path.startswith(tuple(cover + "/" for cover in COVERED)):
                place = "%s/late/%d" % (STAGE, len(self.late))
                os.makedirs(place)
                linux.mount(path, place, None, linux.MS_BIND | linux.MS_REC, None)
                self._hide(place, path)
                _seal(place)
                self.late.append((place, path))
        self.readable = [
            *("/" + name for name in SYSTEM if os.path.isdir("/" + name) and not os.path.islink("/" + name)),
            *(path for path in self._environment if not path.startswith(("/usr/", "/workspace/"))),
        ]
        """Host directories besides `/usr` that guests see, at the same paths."""

    def make(self, points: tuple[tuple[str, bool], ...]) -> str:
        """Make a template with these extra mount points: (absolute path, whether it is a directory)."""
        self._made += 1
        root = "%s/template/%d" % (STAGE, self._made)
        os.makedirs(root)
        linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0755,size=1m")
        for name in _EMPTY:
            os.makedirs("%s/%s" % (root, name.lstrip("/")), exist_ok=True)
        _bind_folder("/usr", root)
        for name in SYSTEM:
            if os.path.islink("/" + name):
                os.symlink(os.readlink("/" + name), "%s/%s" % (root, name))
            elif os.path.isdir("/" + name):
                _bind_folder("/" + name, root)
        late = {path for _, path in self.late}
        for path in self._environment:
            if path not in late and not path.startswith("/usr/"):
                _bind_folder(path, root)
        self._hide(root, "")
        self._make_etc(root)
        _make_dev(root)
        os.symlink("/workspace/input", root + "/input")
        os.symlink("/workspace/output", root + "/output")
        os.symlink("/opt/packages/node_modules", root + "/node_modules")  # where Node looks for packages last
        for path, is_folder in points:
            _make_point(root + path, is_folder)
        _seal(root)
        return root

    def _hide(self, here: str, path: str) -> None:
        """Cover hidden files in a directory with an empty file; `here` is its path now, `path` the guest's."""
        for name in self._hidden:
            if name.startswith(path + "/"):
                target = here + name[len(path) :]
                # A link leads to a host file from here; its target as the guest sees it is in the list as well.
                if os.path.isfile(target) and os.path.realpath(target) == target:
                    linux.mount(STAGE + "/empty", target, None, linux.MS_BIND, None)

    def _make_etc(self, root: str) -> None:
        for name, text in ETC_FILES.items():
            with open("%s/etc/%s" % (root, name), "w") as file:
                file.write(text)
        for name in ETC:
            source = "/etc/" + name
            if os.path.isdir(source):
                _bind_folder(source, root)
            elif os.path.isfile(source):
                _make_point(root + source, False)
                linux.mount(source, root + source, None, linux.MS_BIND, None)


def _leave_only(left: dict[str, list[str]]) -> None:
    """Cover directories with what is left of them: paths in each, with all below. The nursery sees no more either."""
    for number, (folder, names) in enumerate(sorted(left.items())):
        if not os.path.isdir(folder):
            continue
        place = "%s/left/%d" % (STAGE, number)
        os.makedirs(place)
        for name in names:
            source = "%s/%s" % (folder, name)
            if os.path.exists(source):  # else it was removed after the host had looked
                _make_point("%s/%s" % (place, name), os.path.isdir(source))
                linux.mount(source, "%s/%s" % (place, name), None, linux.MS_BIND | linux.MS_REC, None)
        linux.mount(place, folder, None, linux.MS_BIND | linux.MS_REC, None)


def map_no_zeros() -> None:
    """Below the working directory, a root, mount `full` over `zero`.

    Both read as endless zeros, but `zero` can be mapped, and a shared mapping of it is memory that nobody counts.
    """
    linux.mount("dev/full", "dev/zero", None, linux.MS_BIND, None)


def _make_dev(root: str) -> None:
    for name in DEVICES:
        target = "%s/dev/%s" % (root, name)
        _make_point(target, False)
        linux.mount("/dev/" + name, target, None, linux.MS_BIND, None)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink("/proc/self/fd" + target, "%s/dev/%s" % (root, name))


def _make_point(path: str, is_folder: bool) -> None:
    if is_folder:
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a"):
            pass


def _bind_folder(path: str, root: str) -> None:
    os.makedirs(root + path, exist_ok=True)
    linux.mount(path, root + path, None, linux.MS_BIND | linux.MS_REC, None)


def _seal(path: str) -> None:
    """Make a tree read-only with all mounts in it; only our five devices work as devices."""
    attributes = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
    linux.mount_setattr(path, linux.AT_RECURSIVE, attributes, 0)
    for name in DEVICES:
        device = "%s/dev/%s" % (path, name)
        if os.path.exists(device):
            linux.mount_setattr(device, 0, 0, linux.MOUNT_ATTR_NODEV)


def hidden_in(folders: list[str]) -> list[str]:
    """Return the paths that may need hiding, and the targets of those that are links."""
    places = [place for folder in map(os.path.abspath, folders) for place in (folder, folder + "/etc")]
    paths = {"%s/%s" % (place, name) for place in places for name in _HIDDEN}
    return sorted(paths | {os.path.realpath(path) for path in paths})


def outermost(paths: list[str]) -> list[str]:
    """Return the paths that do not lie below another of them."""
    kept: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths}):
        if not kept or not path.startswith(tuple(outer + "/" for outer in kept)):
            kept.append(path)
    return kept
