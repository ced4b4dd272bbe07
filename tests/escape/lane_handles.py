"""Attempts against lanes by descriptors that a program gives to one beside it, and a look at all that /proc shows."""

from __future__ import annotations

import asyncio

from actbox import Policy, Sandbox
from tests.escape.attempt import Verdict, escaped_if, unproven
from tests.escape.ground import Ground, need_counted_memory
from tests.escape.lanes import GROUP, lane_is_ready, with_a_lane, with_overlay
from tests.escape.program import source_of, verdict_of

# A program gives the root of its lane away, by a local socket in the workspace, and ends; nothing of it is left.
_GIVE_ROOT_AWAY = (
    "import array, os, socket, time\n"
    "while not os.path.exists('/workspace/socket'): time.sleep(0.005)\n"
    "held = [os.open('/', os.O_PATH), os.open('/proc/self/ns/mnt', os.O_RDONLY)]\n"
    "with socket.socket(socket.AF_UNIX) as one:\n"
    "    one.connect('/workspace/socket')\n"
    "    one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', held))])\n"
    "    while not os.path.exists('/workspace/given'): time.sleep(0.005)\n"
)
_TRY_UNTIL_ENOUGH = (
    "got = set()\n"
    "while not os.path.exists('/workspace/enough'):\n"
    "    for act in acts:\n        try: got.add(str(act()))\n        except OSError: pass\n"
    "    time.sleep(0.005)\n"
    "verdict(bool(got), got)"
)
_TAKE_ROOT = (
    "import time\n"
    "with socket.socket(socket.AF_UNIX) as server:\n"
    "    server.bind('/workspace/socket')\n    server.listen()\n    one, _ = server.accept()\n"
    "with one: _, held, _, _ = socket.recv_fds(one, 1, 2)\n"
    "os.fchdir(held[0])\nopen('/workspace/given', 'w').close()\n"
    "def talk():\n    with socket.socket(socket.AF_UNIX) as one:\n        one.connect('tmp/place/socket')\n        return 'it answered'\n"
    "acts = [talk, lambda: os.listdir('tmp/place'), lambda: open('tmp/place/word').read(),\n"
    "        lambda: os.chmod('tmp/place', 0o777), lambda: os.listdir('dev/shm/place')]\n" + _TRY_UNTIL_ENOUGH
)
_WORK_IN_TMP = (
    "import os, shutil, socket\nfor place in ('/tmp/place', '/dev/shm/place'):\n"
    "    shutil.rmtree(place, ignore_errors=True)\n    os.mkdir(place)\n"
    "open('/tmp/place/word', 'w').write('mine')\n"
    "server = socket.socket(socket.AF_UNIX)\nserver.bind('/tmp/place/socket')\nserver.listen()\nserver.settimeout(0.3)\n"
    "try: server.accept()\nexcept TimeoutError: pass"
)


async def _with_two_lanes(ground: Ground, policy: Policy | None = None) -> Sandbox:
    """Open a sandbox that has lanes for two runs at once."""
    box = await with_a_lane(ground, policy)
    for _ in range(2):
        await asyncio.gather(*(box.run("import time\ntime.sleep(0.1)") for _ in range(2)))
        await lane_is_ready(box)
    return box


@GROUP.function("reach a later run's /tmp from a run beside it, by a descriptor that an earlier one gave away")
async def _(ground: Ground) -> Verdict:
    box = await _with_two_lanes(ground)
    beside = asyncio.create_task(box.run(source_of(_TAKE_ROOT, ground.things), timeout=30))
    given = await box.run(_GIVE_ROOT_AWAY, timeout=10)
    for _ in range(2):
        await lane_is_ready(box)
        worked = await box.run(_WORK_IN_TMP)
        if given.error or worked.error:
            beside.cancel()
            return unproven([given.error, worked.error])
    await box.run("open('/workspace/enough', 'w').close()")
    return verdict_of(await beside)


_GIVE_OVERLAY_AWAY = _GIVE_ROOT_AWAY.replace("os.open('/', os.O_PATH)", "os.open('/data', os.O_PATH)")
_TAKE_OVERLAY = (
    _TAKE_ROOT.split("def talk", maxsplit=1)[0]
    + "acts = [lambda: open('word').read(), lambda: open('sub/word').read(), lambda: os.stat('new').st_ino]\n"
    "got = set()\n"
    "while not os.path.exists('/workspace/enough'):\n"
    "    for act in acts:\n        try: got.add(str(act()))\n        except OSError: pass\n"
    "    for name in ('left', 'sub/left'):\n"
    "        try: open(name, 'w').write('planted')\n        except OSError: pass\n"
    "    time.sleep(0.005)\n"
    "verdict(bool(got), got)"
)
_WORK_IN_OVERLAY = (
    "import os, time\nos.makedirs('/data/sub', exist_ok=True)\n"
    "for name in ('/data/word', '/data/sub/word', '/data/new'): open(name, 'w').write('mine')\n"
    "time.sleep(0.3)\nsorted(os.listdir('/data')) + os.listdir('/data/sub')"
)


@GROUP.function("reach a later run's overlay from a run beside it, by a descriptor that an earlier one gave away")
async def _(ground: Ground) -> Verdict:
    box = await _with_two_lanes(ground, with_overlay(ground))
    beside = asyncio.create_task(box.run(source_of(_TAKE_OVERLAY, ground.things), timeout=30))
    given = await box.run(_GIVE_OVERLAY_AWAY, timeout=10)
    worked = []
    for _ in range(2):
        await lane_is_ready(box)
        worked.append(await box.run(_WORK_IN_OVERLAY))
    await box.run("open('/workspace/enough', 'w').close()")
    seen = verdict_of(await beside)
    if given.error or any(result.error for result in worked):
        return unproven([given.error, *(result.error for result in worked)])
    planted = [result.value for result in worked if result.value != ["mark", "new", "sub", "word", "word"]]
    return escaped_if(True, planted) if planted else seen


# A program gives away whatever could act on the process that has its number next, or on its network, and ends.
_GIVE_HANDLES_AWAY = (
    "import array, fcntl, os, signal, socket, time\n"
    "while not os.path.exists('/workspace/socket'): time.sleep(0.005)\n"
    "held = [os.pidfd_open(os.getpid()), socket.socket().detach(), socket.socket(socket.AF_INET6).detach()]\n"
    "for who in (os.getpid(), -os.getpid(), 1, -1):\n    for number in (signal.SIGUSR1, signal.SIGKILL):\n"
    "        read, write = os.pipe()\n        held += [read, write]\n"
    "        try: fcntl.fcntl(read, fcntl.F_SETOWN, who)\n        except PermissionError as error: print(error)\n"
    "        fcntl.fcntl(read, 10, int(number))\n"
    "        fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\n"
    "with socket.socket(socket.AF_UNIX) as one:\n"
    "    one.connect('/workspace/socket')\n"
    "    one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', held))])\n"
    "    while not os.path.exists('/workspace/given'): time.sleep(0.005)\n"
)
_USE_HANDLES = (
    "import select, signal, time\n"
    "with socket.socket(socket.AF_UNIX) as server:\n"
    "    server.bind('/workspace/socket')\n    server.listen()\n    one, _ = server.accept()\n"
    "with one: _, (pidfd, tcp, tcp6, *pipes), _, _ = socket.recv_fds(one, 1, 32)\n"
    "open('/workspace/given', 'w').close()\nselect.select([pidfd], [], [])  # until that process has ended\n"
    "ways = [(socket.socket(fileno=tcp), '127.0.0.1'), (socket.socket(fileno=tcp6), '::1')]\n"
    "got = set()\n"
    "while not os.path.exists('/workspace/enough'):\n"
    "    for read, write in zip(pipes[::2], pipes[1::2]):\n        os.write(write, b'x')\n        os.read(read, 1)\n"
    "    for way, name in ways:\n"
    "        try: got.add(str(way.connect((name, 4714))))\n        except OSError: pass\n"
    "    try: got.add(str(signal.pidfd_send_signal(pidfd, signal.SIGKILL)))\n    except OSError: pass\n"
    "verdict(bool(got), got)"
)


@GROUP.function("act on a later run from a run beside it, by descriptors that an earlier one gave away")
async def _(ground: Ground) -> Verdict:
    box = await _with_two_lanes(ground)
    beside = asyncio.create_task(box.run(source_of(_USE_HANDLES, ground.things), timeout=30))
    given = await box.run(_GIVE_HANDLES_AWAY, timeout=10)
    listen = (
        "import socket, time\nservers = [socket.socket(family) for family in (socket.AF_INET, socket.AF_INET6)]\n"
        "for server, name in zip(servers, ('127.0.0.1', '::1')):\n    server.bind((name, 4714))\n    server.listen()\n"
        "time.sleep(0.05)\n'whole'"
    )
    worked = []
    for _ in range(6):
        await lane_is_ready(box)
        worked.append(await box.run(listen))
    await box.run("open('/workspace/enough', 'w').close()")
    seen = verdict_of(await beside)
    if given.error:
        return unproven(given.error)
    broken = [result.error for result in worked if result.value != "whole"]
    return escaped_if(True, broken) if broken else seen


_GIVE_PROCESSES_AWAY = _GIVE_ROOT_AWAY.replace("os.open('/', os.O_PATH)", "os.open('/proc', os.O_RDONLY)")
_LOOK_AT_PROCESSES = (
    _TAKE_ROOT.split("os.fchdir", maxsplit=1)[0] + "open('/workspace/given', 'w').close()\n"
    "names = ('stat', 'status', 'cmdline', 'comm', 'mem', 'maps', 'cwd', 'root/tmp', 'fd', 'fdinfo', 'net/unix')\n"
    "acts = [lambda: [name for name in os.listdir(held[0]) if name.isdigit()] or os.open('2/nothing', os.O_PATH)]\n"
    "acts += [lambda name=name: os.open('2/' + name, os.O_RDONLY, dir_fd=held[0]) for name in names]\n"
    "acts += [lambda name=name: os.readlink('2/' + name, dir_fd=held[0]) for name in ('cwd', 'exe', 'fd/0')]\n"
    + _TRY_UNTIL_ENOUGH
)


@GROUP.function("see the processes of a later run from a run beside it, by a descriptor that an earlier one gave away")
async def _(ground: Ground) -> Verdict:
    box = await _with_two_lanes(ground)
    beside = asyncio.create_task(box.run(source_of(_LOOK_AT_PROCESSES, ground.things), timeout=30))
    place = "\nos.readlink('/proc/self/ns/pid')"
    runs = [await box.run(_GIVE_PROCESSES_AWAY + place, timeout=10)]
    for _ in range(2):
        await lane_is_ready(box)
        runs.append(await box.run("import os, time\ntime.sleep(0.1)" + place))
    await box.run("open('/workspace/enough', 'w').close()")
    seen = verdict_of(await beside)
    if len({run.value for run in runs}) > 1 or runs[0].error:
        return unproven(["it was another lane", *(run.error for run in runs)])
    return seen


# What of /proc says what the kernel has of the process, of one instant, or of all networks of the machine.
_OWN_OR_EVERYBODYS = (
    "auxv environ io maps mem numa_maps pagemap sched schedstat smaps smaps_rollup stack stat statm status syscall timers "
    "wchan autogroup arch_status mountinfo mounts mountstats clear_refs kpagecount net/netlink net/netstat net/protocols "
    "net/ptype net/rt6_stats net/rt_acct net/snmp net/snmp6 net/sockstat net/sockstat6 net/softnet_stat net/unix "
    "net/ipv6_route"
)
_LOOK_AT_ALL = (
    f"import os\nseen, own = {{}}, set({_OWN_OR_EVERYBODYS!r}.split())\n"
    "def look(path):\n    try:\n        with open(path, 'rb') as file: return file.read(9999).decode('latin1')\n"
    "    except OSError as error: return error.errno\n"
    "for folder, folders, names in os.walk('/proc/self'):\n"
    "    folders[:] = [name for name in folders if name not in ('task', 'fd', 'fdinfo', 'map_files', 'cwd', 'root', 'ns')]\n"
    "    for path in (os.path.join(folder, name) for name in names):\n"
    "        if path.removeprefix('/proc/self/') not in own: seen[path] = look(path)\n"
    "limits = seen['/proc/self/limits'].splitlines()\n"  # less that of data, in which the process's own memory counts
    "seen['/proc/self/limits'] = [limit for limit in limits if not limit.startswith('Max data size')]\n"
    "for folder in ('/', '/dev', '/etc', '/run', '/home', '/opt', '/var/tmp'):\n"
    "    for name in ('', *os.listdir(folder)):\n"
    "        if name in ('tmp', 'proc', 'shm', 'workspace'): continue\n"
    "        status = os.lstat(os.path.join(folder, name))\n"
    "        seen[folder, name] = [status.st_mode, status.st_nlink, status.st_uid, status.st_size, status.st_atime_ns,\n"
    "                              status.st_mtime_ns, status.st_ctime_ns]\n"
    "{str(key): value for key, value in seen.items()}"
)
_TOUCH_ALL = (
    "import os, socket, struct\n"
    "for folder, folders, names in os.walk('/proc/self'):\n"
    "    folders[:] = [name for name in folders if name not in ('task', 'fd', 'fdinfo', 'map_files', 'cwd', 'root')]\n"
    "    for path in (os.path.join(folder, name) for name in names):\n"
    "        for text in ('1\\n', '5 7 1\\n', 'deny\\n', 'monotonic 5 5\\n'):\n"
    "            try: os.write(os.open(path, os.O_WRONLY), text.encode())\n            except OSError: pass\n"
    "made = [socket.socket(f, k) for f in (1, 2, 10) for k in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]\n"
    "for one in made:\n    for level in (0, 1, 6, 17, 41):\n        for option in range(1, 80):\n"
    "            try: one.setsockopt(level, option, struct.pack('i', 1))\n            except OSError: pass\n"
    "for family, name in ((2, '8.8.8.8'), (2, '224.0.0.1'), (10, '2001::1'), (10, 'ff02::1%lo')):\n"
    "    with socket.socket(family, socket.SOCK_DGRAM) as one:\n"
    "        try: one.sendto(b'x', (name, 80))\n        except OSError: pass\n"
    "for folder in ('/', '/dev', '/etc', '/run', '/home', '/opt', '/var/tmp'):\n    for name in ('', *os.listdir(folder)):\n"
    "        path = os.path.join(folder, name)\n"
    "        for act in (lambda: os.utime(path, (1, 1)), lambda: os.chmod(path, 0o777), lambda: open(path, 'wb'),\n"
    "                    lambda: os.mkdir(path + '/left'), lambda: os.rename(path, path + '-aside')):\n"
    "            try: act()\n            except OSError: pass\n"
)


@GROUP.function("leave anything that /proc or the root shows")
async def _(ground: Ground) -> Verdict:
    need_counted_memory()  # so many acts take long
    box = await with_a_lane(ground)
    place = "import os\nos.readlink('/proc/self/ns/pid')"
    before = [await box.run(_LOOK_AT_ALL) for _ in range(3) if not await lane_is_ready(box)]
    if any(result.value is None for result in before):
        return unproven([result.error for result in before])
    await lane_is_ready(box)
    lane = (await box.run(place)).value
    await lane_is_ready(box)
    touched = await box.run(_TOUCH_ALL)
    await lane_is_ready(box)
    after = (await box.run(_LOOK_AT_ALL)).value
    await lane_is_ready(box)
    if touched.error is not None or (await box.run(place)).value != lane:
        return unproven([touched.error, "it was another lane"])
    restless = {key for result in before for key in result.value if result.value[key] != before[0].value.get(key)}
    left = {key: value for key, value in after.items() if key not in restless and before[0].value.get(key) != value}
    return escaped_if(bool(left), left)
