"""Attempts on the host's files, and on what the sandbox shows read-only."""

from __future__ import annotations

import sys

from tests.escape.attempt import Bare, Group

GROUP = Group(
    "files",
    Bare.NOTHING_THERE,
    harmful=frozenset(
        [
            "change the interpreter's library in memory that is shared",
            "make shared memory of the library writable afterwards",
            "open its own program to write it",
            "write through a second name of a descriptor",
            "punch a hole into the library",
            "cut the library short",
            "swap the library for another file",
            "remove the library",
            "set an attribute on the interpreter",
            "touch a device",
            "change who may use a device",
            "replace a device",
            "write the interpreter's library",
            "write a package",
            "write /usr",
            "write /etc/passwd",
            "write a library to be preloaded everywhere",
            "write the root",
            "write the mount points",
            "make the interpreter writable",
            "own the interpreter",
        ]
    ),
)

# A space in a path is written there as an octal number.
_MOUNTED = "paths = [l.split()[1].encode().decode('unicode_escape') for l in open('/proc/self/mounts')]\n"


def _reads(path: str) -> tuple[str, str]:
    return path, f"refused(lambda: open({path!r}, 'rb').read(100)[0])"


def _lists(folder: str) -> tuple[str, str]:
    """List a folder, and the folders in it that lead to the interpreter or its packages: nothing else may be there."""
    return folder, (
        f"libraries = {(sys.prefix, sys.base_prefix)}\n"
        "def others(folder):\n    for name in os.listdir(folder):\n        path = os.path.join(folder, name)\n"
        "        if any(library.startswith(path + '/') for library in libraries): yield from others(path)\n"
        f"        elif path not in libraries: yield path\nrefused(lambda: next(others({folder!r})))"
    )


def _writes(path: str) -> str:
    return f"refused(lambda: open({path!r}, 'ab').write(b'x'))"


GROUP.programs(
    {
        "read a file of the host's by its path": "refused(lambda: open({host_file!r}).read())",
        "list the folder of the tests": "refused(lambda: os.listdir({checkout!r}))",
        "stat a file of the host's": "refused(lambda: os.stat({host_file!r}))",
        "walk out with ..": "refused(lambda: open('/tmp/../../../..' + {host_file!r}).read())",
        "walk out of an open folder": (
            "fd = os.open('/', os.O_RDONLY)\n"
            "refused(lambda: os.open('../../..' + {host_file!r}, os.O_RDONLY, dir_fd=fd))"
        ),
        "walk out of a folder opened as a path only": (
            "fd = os.open('/', os.O_PATH)\nrefused(lambda: os.stat('../../..' + {host_file!r}, dir_fd=fd))"
        ),
        "walk out of a folder that is removed meanwhile": (
            "os.makedirs('a/b')\nos.chdir('a/b')\n"
            "os.rename('../../a/b', '../../b')\nos.rmdir('../a')\n"
            "refused(lambda: open('../' * 30 + {host_file!r}).read())"
        ),
        "walk out through its own root": "refused(lambda: open('/proc/self/root/..' + {host_file!r}).read())",
        "walk out through its own folder": (
            "refused(lambda: open('/proc/self/cwd' + '/..' * 20 + {host_file!r}).read())"
        ),
        "walk out through a thread's root": (
            "refused(lambda: open('/proc/thread-self/root' + '/..' * 20 + {host_file!r}).read())"
        ),
        "follow a link of its own": "os.symlink({host_file!r}, 'link')\nrefused(lambda: open('link').read())",
        "follow a chain of links of its own": (
            "os.symlink({host_file!r}, 'one')\nos.symlink('one', 'two')\nrefused(lambda: open('two').read())"
        ),
        "run a program of the host's by its path": (
            "import subprocess\nrefused(lambda: subprocess.run(['cat', {host_file!r}], check=True, capture_output=True))"
        ),
        "read with a compiled-in path of the loader": (
            "import subprocess\nout = subprocess.run(['cat', {host_file!r}], capture_output=True, text=True,\n"
            "    env={'PATH': '/usr/bin:/bin', 'LD_LIBRARY_PATH': {host_folder!r}}).stdout\n"
            "verdict({host_secret!r} in out, out)"
        ),
        # By the flags of the mounts: being nobody there keeps a guest from writing too, but only where root is the host.
        "have a file system that can be written beside its own": (
            "own = {'/workspace', '/tmp', '/dev/shm', '/proc'}\n"
            f"{_MOUNTED}"
            "def writable(path):\n"
            "    try: return not os.statvfs(path).f_flag & os.ST_RDONLY\n"
            "    except OSError: return False\n"
            "found = [path for path in paths if path not in own and writable(path)]\n"
            "verdict(bool(found) or len(paths) < 5, found)"
        ),
        "send a file of the host's to itself": (
            "def send():\n    ours, theirs = socket.socketpair()\n"
            "    with open({host_file!r}, 'rb') as file: return ours.sendfile(file)\n"
            "refused(send)"
        ),
        "watch a folder of the host's": (
            "watcher, why = call('inotify_init1', 0)\n"
            "denied(call('inotify_add_watch', watcher, {host_folder!r}.encode(), 0xfff), ('ENOENT', 'EPERM', 'EACCES'))"
        ),
    },
    Bare.GETS_THROUGH,
)
GROUP.targets(
    {
        "read the passwords": _reads("/etc/shadow"),
        "read the machine's id": _reads("/etc/machine-id"),
        "read the host's boot parameters": _reads("/proc/cmdline"),
        "read the host's keys": ("/etc/ssh", "refused(lambda: os.listdir('/etc/ssh'))"),
        "list the system's state": ("/var/lib", "refused(lambda: os.listdir('/var/lib'))"),
        "list the host's logs": ("/var/log", "refused(lambda: os.listdir('/var/log'))"),
        "list the boot folder": ("/boot", "refused(lambda: os.listdir('/boot'))"),
        "list /sys": ("/sys/kernel", "refused(lambda: os.listdir('/sys')[0])"),
        "list the devices by their numbers": ("/sys/dev", "refused(lambda: os.listdir('/sys/dev'))"),
        "read the host's list of mounts": ("/etc/fstab", "refused(lambda: open('/etc/fstab').read())"),
    },
    Bare.GETS_THROUGH_AS_ROOT,
)
GROUP.targets(
    {
        "list the host's /root": _lists("/root"),
        "list the host's home folders": _lists("/home"),
        "read the host's memory": _reads("/proc/kcore"),
        "read the kernel's symbols": _reads("/proc/kallsyms"),
        "read the host's control groups": ("/sys/fs/cgroup", "refused(lambda: os.listdir('/sys/fs/cgroup')[0])"),
        "open the docker socket": (
            "/var/run/docker.sock",
            "refused(lambda: socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock'))",
        ),
        "read the host's disk": (
            "/dev/vda",
            "refused(lambda: open('/dev/vda', 'rb').read(512))",
        ),
    }
)
GROUP.programs(
    {
        "reach the host's root through pid 1": "refused(lambda: os.listdir('/proc/1/root'))",
        "reach the host's root through pid 1's folder": "refused(lambda: os.listdir('/proc/1/cwd'))",
        "walk out through its descriptors": (
            "found = []\n"
            "for n in os.listdir('/proc/self/fd'):\n"
            "    try:\n"
            "        found.append(open(f'/proc/self/fd/{n}/../../../..' + {host_file!r}).read())\n"
            "    except OSError:\n"
            "        pass\n"
            "verdict(bool(found), found)"
        ),
        "reach files through what it has mapped": (
            "refused(lambda: open('/proc/self/map_files/' + os.listdir('/proc/self/map_files')[0], 'r+b'))"
        ),
        "hard-link a file of the host's": "refused(lambda: os.link({host_file!r}, 'linked'))",
        "change the interpreter's library in memory that is shared": (
            "import mmap\nrefused(lambda: mmap.mmap(os.open(os.__file__, os.O_RDWR), 0, mmap.MAP_SHARED, mmap.PROT_WRITE))"
        ),
        "make shared memory of the library writable afterwards": (
            "ctypes, libc = library()\nfd = os.open(os.__file__, os.O_RDONLY)\nlibc.mmap.restype = ctypes.c_void_p\n"
            "address = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))\n"
            "denied(call('mprotect', ctypes.c_void_p(address), ctypes.c_size_t(4096), 3))"
        ),
        # Nobody can write a program that runs, but whether it could be written at all is found out before.
        "open its own program to write it": (
            "try:\n    open('/proc/self/exe', 'r+b')\nexcept OSError as error:\n"
            "    verdict(error.errno == errno.ETXTBSY, repr(error))\nelse:\n    verdict(True)"
        ),
        "write through a second name of a descriptor": (
            "fd = os.open(os.__file__, os.O_RDONLY)\nrefused(lambda: os.open(f'/proc/self/fd/{fd}', os.O_RDWR))"
        ),
        "punch a hole into the library": ("refused(lambda: os.posix_fallocate(os.open(os.__file__, os.O_RDWR), 0, 1))"),
        "cut the library short": "refused(lambda: os.truncate(os.__file__, os.path.getsize(os.__file__)))",
        # Nothing comes of it where it is allowed, and where it is not it is refused all the same.
        "swap the library for another file": ("refused(lambda: os.rename(os.__file__, os.__file__))"),
        "remove the library": "refused(lambda: os.unlink(os.path.dirname(os.__file__) + '/antigravity.py'))",
        "set an attribute on the interpreter": (
            "refused(lambda: os.setxattr(os.path.realpath(sys.executable), 'user.planted', b'x'))"
        ),
        "touch a device": "refused(lambda: os.utime('/dev/full', (1, 1)))",
        "change who may use a device": "refused(lambda: os.chmod('/dev/full', 0o600))",
        "replace a device": "refused(lambda: os.unlink('/dev/full'))",
        "write the interpreter's library": "refused(lambda: open(os.__file__, 'ab'))",
        "write a package": (
            "import sysconfig\nrefused(lambda: open(sysconfig.get_paths()['purelib'] + '/planted.py', 'w'))"
        ),
        "write /usr": _writes("/usr/bin/planted"),
        "write /etc/passwd": _writes("/etc/passwd"),
        "write a library to be preloaded everywhere": _writes("/etc/ld.so.preload"),
        "write the root": "refused(lambda: os.mkdir('/planted'))",
        "write the mount points": (
            "made = []\nfor folder in ('/home', '/run', '/var/tmp', '/dev'):\n"
            "    try: made.append(os.mkdir(folder + '/planted') or folder)\n    except OSError: pass\n"
            "verdict(bool(made), made)"
        ),
        "have a file system with programs that change the user": (
            f"{_MOUNTED}"
            "found = [p for p in paths if not os.statvfs(p).f_flag & os.ST_NOSUID]\nverdict(bool(found), found)"
        ),
        "have a file system with devices": (
            f"{_MOUNTED}paths = [path for path in paths if not path.startswith('/dev/')]\n"
            "found = [p for p in paths if not os.statvfs(p).f_flag & os.ST_NODEV]\nverdict(bool(found), found)"
        ),
        "make the interpreter writable": "refused(lambda: os.chmod(os.path.realpath(sys.executable), 0o777))",
        "own the interpreter": (
            "path = os.path.realpath(sys.executable)\nrefused(lambda: os.chown(path, os.getuid(), os.getgid()))"
        ),
        "hard-link a file of the root": "refused(lambda: os.link('/etc/hostname', '/etc/linked'))",
        "write the inputs": _writes("/input/planted"),
        "replace the inputs": "refused(lambda: os.rename('/workspace/input', '/workspace/moved'))",
        "make the inputs writable": "refused(lambda: os.chmod('/workspace/input', 0o777))",
        "write the inputs by their other name": _writes("/workspace/input/planted"),
    }
)
