"""Attempts from a session that may be forked: its guest keeps one capability, CAP_SYS_CHROOT, and its copies one each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import actbox
from actbox import FileMount, Policy
from tests.escape.attempt import Bare, Group, NotApplicable, Verdict, escaped_if, stopped, unproven
from tests.escape.ground import Ground

GROUP = Group(
    "forkable sessions",
    Bare.NOTHING_THERE,
    slow=frozenset(
        ["swap its files for links while they are copied", "plant links where its files are being copied to"]
    ),
)
_SETS = "{line.split(':')[0]: int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('Cap')}"

_AS_ORIGIN_AND_AS_COPY = {
    "have more than the one capability": (
        f"sets = {_SETS}\nverdict(sets['CapEff'] & ~(1 << 18) or sets['CapBnd'] or sets['CapInh'] or sets['CapAmb'], sets)"
    ),
    "give its capability to a program that it starts": (
        "import subprocess\nout = subprocess.run(['grep', 'Cap', '/proc/self/status'], capture_output=True, text=True).stdout\n"
        "verdict(any(int(line.split()[1], 16) for line in out.splitlines()), out)"
    ),
    "leave a root of its own by a folder that is open": (
        "os.makedirs('/tmp/new', exist_ok=True)\noutside = os.open('/', os.O_RDONLY)\nos.chroot('/tmp/new')\n"
        "os.fchdir(outside)\ntry:\n    for _ in range(50): os.chdir('..')\n"
        "    os.chroot('.')\nexcept OSError: pass\nrefused(lambda: open({host_file!r}).read())"
    ),
    "leave a root of its own by a root in a root": (
        "os.makedirs('/tmp/one/two', exist_ok=True)\nos.chroot('/tmp/one')\nos.mkdir('/three')\nos.chroot('/three')\n"
        "try:\n    for _ in range(50): os.chdir('..')\n    os.chroot('.')\nexcept OSError: pass\nrefused(lambda: open({host_file!r}).read())"
    ),
    "change its root to that of pid 1": "refused(lambda: os.chroot('/proc/1/root'))",
    "change its root through a descriptor of pid 1's": "refused(lambda: os.chroot('/proc/1/cwd/..'))",
    "see the trees of copies": "refused(lambda: os.listdir('/var/sessions')[0])",
    "see a tree by its number": "refused(lambda: os.listdir('/var/sessions/1'))",
    "open the trees to all": "refused(lambda: os.chmod('/var/sessions', 0o777))",
    "own the trees": "refused(lambda: os.chown('/var/sessions', os.getuid(), os.getgid()))",
    "replace the trees": "refused(lambda: os.rename('/var/sessions', '/tmp/run'))",
    "plant a tree": "refused(lambda: os.mkdir('/var/sessions/9'))",
    "change its root to the trees": "refused(lambda: os.chroot('/var/sessions') or os.listdir('/')[0])",
    "become root by a program in a root with users of its own": (
        "import shutil, subprocess\nsu = shutil.which('su')\nif su is None: not_applicable('there is no su')\n"
        "os.makedirs('/tmp/jail/etc', exist_ok=True)\nopen('/tmp/jail/etc/passwd', 'w').write('root::0:0:root:/:/bin/sh\\n')\n"
        "shutil.copyfile(su, '/tmp/jail/su')\nos.chmod('/tmp/jail/su', 0o755)\ntry: os.chmod('/tmp/jail/su', 0o4755)\nexcept OSError: pass\nos.chroot('/tmp/jail')\n"
        "try: out = subprocess.run(['/su', '-c', 'id -u'], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout\n"
        "except OSError as error: out = repr(error)\nverdict(out.strip() == '0', out)"
    ),
    "make a device in a root of its own": (
        "os.makedirs('/tmp/jail', exist_ok=True)\nos.chroot('/tmp/jail')\nrefused(lambda: os.mknod('/disk', 0o060666, os.makedev(254, 0)))"
    ),
    "make a namespace from a root of its own": (
        "ctypes, libc = library()\nos.makedirs('/tmp/jail', exist_ok=True)\nos.chroot('/tmp/jail')\ndenied(call('unshare', 0x10020000))"
    ),
    "mount with its capability": "denied(call('mount', b'x', b'/tmp', b'tmpfs', 0, None))",
    "pivot with its capability": "denied(syscall('pivot_root', b'/tmp', b'/tmp'))",
    "make its capability inheritable": (
        "header, sets = struct.pack('II', 0x20080522, 0), struct.pack('IIIIII', 1 << 18, 1 << 18, 1 << 18, 0, 0, 0)\n"
        "denied(call('capset', header, sets))"
    ),
    "read a file of root's with its capability": "refused(lambda: open('/etc/shadow').read())",
}


def _in_a_session(what: str, code: str) -> None:
    async def origin(ground: Ground) -> Verdict:
        return await ground.tries(await ground.open_session(forkable=True), code)

    async def copy(ground: Ground) -> Verdict:
        return await ground.tries(await (await ground.open_session(forkable=True)).fork(), code)

    GROUP.function(f"{what}, as the origin")(origin)
    GROUP.function(f"{what}, as a copy")(copy)


for _what, _code in _AS_ORIGIN_AND_AS_COPY.items():
    _in_a_session(_what, _code)


@GROUP.function("leave its own tree for the origin's files")
async def _(ground: Ground) -> Verdict:
    origin = await ground.open_session(forkable=True)
    await origin.run("open('/workspace/mark', 'w').write('the origin')")
    copy = await origin.fork()
    await copy.run("open('/workspace/mark', 'w').write('the copy')")
    await copy.run(
        "import os\nos.makedirs('/tmp/new', exist_ok=True)\noutside = os.open('/', os.O_RDONLY)\nos.chroot('/tmp/new')\n"
        "os.fchdir(outside)\nfor _ in range(50): os.chdir('..')\nos.chroot('.')"
    )
    await copy.run("os.fchdir(outside)\nos.chroot('.')")
    seen = (
        await copy.run("[sorted(os.listdir('/')), open('/workspace/mark').read(), os.listdir('/var/sessions')]")
    ).value
    roots = (await origin.run("import os\nsorted(os.listdir('/'))")).value
    return escaped_if(seen != [roots, "the copy", []], seen)


@GROUP.function("write into another copy's tree")
async def _(ground: Ground) -> Verdict:
    origin = await ground.open_session(forkable=True)
    copies = [await origin.fork(), await origin.fork()]
    wrote = []
    for session in (origin, *copies):
        for path in (
            "/x",
            "/run/x",
            "/var/sessions/1/x",
            "/var/sessions/2/workspace/mark",
            "/var/sessions/1/tmp/x",
            "/etc/x",
            "/usr/x",
        ):
            if (await session.run(f"open({path!r}, 'w')")).success:
                wrote.append(path)
    return escaped_if(bool(wrote), wrote)


@GROUP.function("say where a mount of a copy goes")
async def _(ground: Ground) -> Verdict:
    given = ground.folder()
    (given / "given").write_text("given")
    origin = await ground.open_session(Policy(mounts=(FileMount(given, "/workspace/a/b/json", "rw"),)), forkable=True)
    await origin.run("import json, os\nos.rename('a', 'old')\nos.makedirs('a')\n")
    await origin.run("os.symlink(os.path.dirname(os.path.dirname(json.__file__)), '/workspace/a/b')")
    copy = await origin.fork()
    look = "os.path.exists(os.path.dirname(json.__file__) + '/given')"
    seen = [(await session.run(look)).value for session in (origin, copy)]
    return escaped_if(seen != [False, False], seen)


@GROUP.function("have a link in the place of its workspace copied")
async def _(ground: Ground) -> Verdict:
    origin = await ground.open_session(forkable=True)
    secret = ground.things["host_file"]
    await origin.run(
        f"import os\nos.symlink({secret!r}, '/workspace/link')\nos.symlink({secret!r}, '/tmp/link')\nos.symlink('/var/sessions', 'up')"
    )
    copy = await origin.fork()
    return await ground.tries(
        copy,
        "found = [name for name in ('/workspace/link', '/tmp/link', '/workspace/up/1') if os.path.exists(name)]\n"
        "verdict(bool(found) or not os.path.islink('/workspace/link'), found)",
    )


@GROUP.function("swap its files for links while they are copied")
async def _(ground: Ground) -> Verdict:
    origin = await ground.open_session(forkable=True)
    secret = ground.things["host_file"]
    await origin.run(
        f"import os\nos.makedirs('d')\nopen('d/secret.txt', 'w').write('own')\nos.symlink({str(Path(secret).parent)!r}, 'l')\n"
        "swapper = os.fork()\nif swapper == 0:\n    while True:\n        for name in ('d', 'l'):\n"
        "            os.rename(name, 'a')\n            os.rename('a', name)"
    )
    seen = []
    for _ in range(5):
        try:
            copy = await origin.fork()
        except actbox.ActboxError as error:
            seen.append(str(error))
            continue
        result = await copy.run("import glob\n[open(p).read() for p in glob.glob('/workspace/*/secret.txt')]")
        seen.append(str(result.value))
        await copy.close()
    return escaped_if(any(ground.things["host_secret"] in text for text in seen), seen)


@GROUP.function("plant links where its files are being copied to")
async def _(ground: Ground) -> Verdict:
    origin = await ground.open_session(forkable=True)
    await origin.run(
        "import os\nos.mkdir('target')\nnames = [f'd{n}' for n in range(300)]\n"
        "for name in names:\n    os.mkdir(name)\n    open(name + '/f', 'w').close()\n"
        "def is_tree(fd):\n    try: return os.readlink(f'/proc/self/fd/{fd}').startswith('/var/sessions/')\n"
        "    except OSError: return False\n"
        "def plant():\n    if os.getppid() != 1 or os.fork(): return\n"
        "    os.fchdir(next(fd for fd in range(64) if is_tree(fd)))\n    os.chroot('.')\n    os.chdir('/workspace')\n"
        "    while True:\n        for name in names:\n"
        "            try: os.symlink('/workspace/target', name)\n            except OSError: pass\n"
        "            try: os.rename(name, 'old-' + name) or os.symlink('/workspace/target', name)\n            except OSError: pass\n"
        "os.register_at_fork(after_in_child=plant)"
    )
    seen, planted = [], 0
    for _ in range(5):
        try:
            copy = await origin.fork()
        except actbox.ActboxError as error:
            seen.append(str(error))
            continue
        planted += (await copy.run("sum(os.path.islink(name) for name in names)")).value or 0
        await copy.close()
    written = (await origin.run("os.listdir('/workspace/target')")).value
    if not planted and not seen:
        return unproven("no link was planted")
    return escaped_if(written != [], (written, seen))


def _hinders(what: str, code: str) -> None:
    """Add a program that leaves what pid 1, which copies it with its capabilities, might wait on or choke on."""

    async def hinders(ground: Ground) -> Verdict:
        origin = await ground.open_session(forkable=True)
        await origin.run("import os, socket\n" + code)
        try:
            copy = await asyncio.wait_for(origin.fork(), 60)
        except TimeoutError:
            return escaped_if(True, "the copy is waited for still")
        except actbox.ActboxError as error:
            return stopped(error)
        return escaped_if((await copy.run("6 * 7")).value != 42)

    GROUP.function(what)(hinders)


_hinders("have a pipe with a name copied", "os.mkfifo('pipe')\nos.mkfifo('/tmp/pipe')")
_hinders("have a socket with a name copied", "s = socket.socket(socket.AF_UNIX)\ns.bind('socket')")
_hinders("have a folder copied that nobody may read", "os.makedirs('locked/in')\nos.chmod('locked', 0)")
_hinders(
    "have folders copied that are very deep",
    "for n in range(300):\n    os.mkdir('d')\n    os.chdir('d')\nos.chdir('/')",
)
_hinders("have a file copied that is mostly a hole", "os.truncate(open('hole', 'w').name, 200 << 20)")
_hinders("have a file copied that nobody may read", "open('tool', 'w').close()\nos.chmod('tool', 0)")


@GROUP.function("use the channel of its origin")
async def _(ground: Ground) -> Verdict:
    called: list[str] = []

    def note(who: str) -> None:
        called.append(who)

    origin = await ground.open_session(forkable=True)
    await origin.run("kept = note", tools=[note])
    copy = await origin.fork()
    result = await copy.run("kept('copy')")
    return escaped_if(bool(called), (called, result.error))


@GROUP.function("have more processes by copies than it may")
async def _(ground: Ground) -> Verdict:
    if "processes" not in ground.traits.enforced:
        raise NotApplicable(f"the {ground.engine} engine does not enforce processes")
    origin = await ground.open_session(Policy(limits=actbox.Limits(processes=8)), forkable=True)
    copies = 0
    try:
        for _ in range(20):
            await origin.fork()
            copies += 1
    except actbox.ActboxError as error:
        return escaped_if(copies > 8, (copies, error))
    return escaped_if(True, copies)


@GROUP.function("outlive its own session in a copy's sandbox")
async def _(ground: Ground) -> Verdict:
    origin = await ground.open_session(forkable=True)
    copy = await origin.fork()
    started = await copy.run(
        "import os\nleft = os.fork()\nif left == 0:\n    os.setsid()\n    import time\n    time.sleep(60)\nleft"
    )
    if not isinstance(started.value, int):
        return unproven(started.error)
    await copy.close()
    await origin.run("import time\ntime.sleep(0.3)")
    return await ground.tries(origin, f"verdict(os.path.exists('/proc/{started.value}'))")
