"""The lines that are changed in the code of the nursery and of the guests, so that one wall or another is not there."""

from __future__ import annotations

from tests.escape.planted import Change

NO_FILTER = Change("sandbox/nursery/child.py", "        seccomp.install(birth.filter_program)\n")

DESCRIPTORS_TAKEN = Change(
    "sandbox/nursery/passing.py", "        sock.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)\n", "        pass\n"
)

NO_LANDLOCK = Change("sandbox/nursery/landlock.py", "_LEAST_VERSION = 2\n", "_LEAST_VERSION = 1000\n")

CAPABILITIES_KEPT = (
    Change(
        "sandbox/nursery/child.py",
        "        linux.keep_capabilities(frozenset({linux.CAP_SYS_CHROOT}) if birth.forkable else frozenset())\n",
    ),
    Change(
        "sandbox/nursery/child.py",
        "        linux.gain_no_capabilities()  # before the fork, so that the guest need not do it again\n",
    ),
)

UNCOUNTED = Change(
    "sandbox/nursery/watch.py",
    "        return self._objects.passed([process.key for process in processes if not process.is_zombie])\n",
)

LANES_NOT_LOOKED_AT = (
    Change("sandbox/nursery/lane.py", "        reason = self._difference()\n", '        reason = ""\n'),
    Change("sandbox/nursery/lane.py", "        if anew or self._own.is_touched():\n            self._mount_anew()\n"),
    Change("sandbox/nursery/lane.py", "        if anew:\n            self._leave_mounts()\n"),
    Change("sandbox/nursery/lane.py", "        if mounts:\n            self._change_mounts(mounts)\n"),
    Change("sandbox/nursery/lane.py", '        os.pwrite(self._last_pid, b"1", 0)\n'),
    Change(
        "sandbox/nursery/lane.py",
        "        self._was_alone = _is_alone() and not has_left\n",
        "        self._was_alone = True\n",
    ),
    Change(
        "sandbox/nursery/watch.py",
        "            _signal_all(signal.SIGKILL)\n            self._watcher.count_ended",
        "            os.kill(self._pid, signal.SIGKILL)\n            self._watcher.count_ended",
    ),
    Change("sandbox/nursery/lane.py", "not _is_alone() or self._has_met_limit()", "self._has_met_limit()"),
)

TEXTS_LEFT = (
    Change("sandbox/nursery/wiped_text.py", "    TEXT[begin:end] = bytes(end - begin)\n", "    pass\n"),
    Change("sandbox/nursery/server.py", "self._answer_in_helper() if begins", "self._answer_here() if begins"),
)

PROJECT_IDS_LEFT = Change(
    "sandbox/nursery/identity.py", '        _write("/proc/%d/projid_map" % pid, "%d %d 1" % (GUEST_ID, host_id))\n'
)

PID_1_SHOWN = (
    Change("sandbox/nursery/child.py", "        linux.set_dumpable(False)\n", "        linux.set_dumpable(True)\n"),
    Change("sandbox/nursery/machine_files.py", '"subset=pid,hidepid=invisible"', '""'),
)

# Files: what a guest can write are copies in memory, which it owns since it is root outside; nothing of the host's.
GUEST_IS_ROOT = Change(
    "sandbox/nursery/server.py",
    "        request = json.loads(data)\n",
    '        request = json.loads(data)\n        request.update(host_id=0) if "host_id" in request else None\n',
)

NOT_SEALED = Change("sandbox/nursery/root.py", "        _seal(root)\n        return root\n", "        return root\n")

COPIES = (
    Change(
        "sandbox/nursery/root.py",
        "    linux.mount(path, root + path, None, linux.MS_BIND | linux.MS_REC, None)\n",
        '    own = STAGE + "/own" + root + path\n'
        '    for name in ("upper", "work"):\n'
        '        os.makedirs(own + "/" + name)\n'
        '    options = "lowerdir=%s,upperdir=%s/upper,workdir=%s/work" % (path, own, own)\n'
        '    linux.mount("overlay", root + path, "overlay", 0, options)\n',
    ),
    Change(
        "sandbox/nursery/root.py",
        "                linux.mount(source, root + source, None, linux.MS_BIND, None)\n",
        '                with open(source, "rb") as theirs, open(root + source, "wb") as own:\n'
        "                    own.write(theirs.read())\n",
    ),
    Change(
        "sandbox/nursery/root.py",
        '        _make_point(target, False)\n        linux.mount("/dev/" + name, target, None, linux.MS_BIND, None)\n',
        '        os.mknod(target, 0o020666, os.stat("/dev/" + name).st_rdev)\n',
    ),
    Change(
        "sandbox/nursery/root.py",
        'linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0755,size=1m")\n',
        'linux.mount("tmpfs", root, "tmpfs", 0, "mode=0755,size=1m")\n',
    ),
)

HOST_SHOWN = Change(
    "sandbox/nursery/root.py",
    "        _seal(root)\n        return root\n",
    '        for name in ("root", "home", "etc", "run", "boot", "opt", "var/lib", "var/log"):\n'
    '            if os.path.isdir("/" + name):\n'
    '                _bind_folder("/" + name, root)\n'
    "        _seal(root)\n        return root\n",
)

DESCRIPTORS_LEFT = (
    Change(
        "sandbox/nursery/server.py",
        "    control = socket.socket(fileno=descriptor)\n",
        '    control = socket.socket(fileno=descriptor)\n    os.dup2(os.open("/", os.O_PATH), 200)\n',
    ),
    Change(
        "sandbox/nursery/child.py", "        _keep_only([*ends, *late, *birth.groups.values()])\n", "        pass\n"
    ),
    Change(
        "sandbox/nursery/child.py",
        "        linux.close_range(len(own))\n",
        "        linux.close_range(len(own), 199)\n",
    ),
)

# The filter says of what it denies that it has been done. Nothing reaches the kernel, so that this harms nothing, and all
# that is said is said by the filter.
ANSWERED_AS_DONE = (
    Change(
        "sandbox/nursery/bpf.py",
        "    return _ERRNO | code\n",
        "    return _ERRNO | (code if code == 38 else 0)  # ENOSYS leads programs to other calls\n",
    ),
    Change(
        "sandbox/nursery/seccomp.py",
        "        by_name.update((name, returns(KILL)) for name in names.split())\n",
        "        by_name.update((name, returns(refuse(0))) for name in names.split())\n",
    ),
    Change(
        "sandbox/nursery/seccomp.py",
        "        ranges.append((_X32_BIT, returns(KILL)))\n        ranges.append((_X32_BIT << 1, returns(refuse(errno.ENOSYS))))",
        "        ranges.append((_X32_BIT, returns(refuse(0))))\n        ranges.append((_X32_BIT << 1, returns(refuse(0))))",
    ),
    Change(
        "sandbox/nursery/seccomp.py",
        "    ranges.append((HIGHEST + 1, returns(refuse(errno.ENOSYS))))\n    if arch",
        "    ranges.append((HIGHEST + 1, returns(refuse(0))))\n    if arch",
    ),
)

# A network behind the loopback, in the sandbox's own namespace: every address is one where somebody listens.
WORLD = Change(
    "sandbox/nursery/world.py",
    "",
    """import os, socket, struct

def make_world():
    families = [(socket.AF_INET, 254, "0.0.0.0")]
    if os.path.exists("/proc/net/if_inet6"):
        families.append((socket.AF_INET6, 0, "::"))
    for family, scope, _ in families:
        route = struct.pack("BBBBBBBBI", family, 0, 0, 0, 255, 3, scope, 2, 0) + struct.pack("HHI", 8, 4, 1)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
            kernel.send(struct.pack("IHHII", 16 + len(route), 24, 0x605, 1, 0) + route)
            said = struct.unpack_from("i", kernel.recv(4096), 16)[0]
            if said:
                raise OSError(-said, "a route cannot be made")
    if os.fork() == 0:
        held = []
        for family, _, place in families:
            listener = socket.socket(family)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((place, 80))
            listener.listen(50)
            held.append(listener)
        names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        names.bind(("127.0.0.53", 53))
        while True:
            asked, who = names.recvfrom(512)
            end = asked.index(0, 12) + 5
            kind = asked[end - 4 : end - 2]
            answer = {b"\\0\\1": bytes([192, 0, 2, 1]), b"\\0\\x0c": b"\\4some\\4name\\0"}.get(kind, b"")
            head = asked[:2] + struct.pack("!HHHHH", 0x8180, 1, 1 if answer else 0, 0, 0)
            tail = b"\\xc0\\x0c" + kind + struct.pack("!HIH", 1, 60, len(answer)) + answer if answer else b""
            names.sendto(head + asked[12:end] + tail, who)
""",
)

A_NETWORK = (
    WORLD,
    Change(
        "sandbox/nursery/child.py",
        "        linux.bring_loopback_up()\n",
        "        linux.bring_loopback_up()\n        make_world()\n",
    ),
    Change(
        "sandbox/nursery/child.py",
        "from .watch import OneGuest, Watcher, watch\n",
        "from .watch import OneGuest, Watcher, watch\nfrom .world import make_world\n",
    ),
    Change("sandbox/nursery/root.py", '    "resolv.conf": "",\n', '    "resolv.conf": "nameserver 127.0.0.53\\n",\n'),
    Change("sandbox/nursery/root.py", "hosts: files\\n", "hosts: files dns\\n"),
)

# The guest's side: what a tool returns is made tidy, and read for what it might mean.
RESULTS_BELIEVED = (
    Change(
        "sandbox/guest/channel.py",
        '    return answer["value"]\n',
        '    return _believed(answer["value"])\n\n\n'
        "def _believed(value: Any, depth: int = 0) -> Any:\n"
        "    import json\n"
        "    if isinstance(value, bytes):\n"
        '        value = value.decode("latin-1")\n'
        "    if isinstance(value, str):\n"
        "        for read in (json.loads, eval):\n"
        "            with contextlib.suppress(Exception):\n"
        "                return read(value)\n"
        '        return "".join(c for c in value if c.isprintable() and ord(c) < 0x10000 and c != "{")\n'
        "    if isinstance(value, dict):\n"
        '        known = [key for key in value if key.strip("_\\0") in ("t", "error", "blobs", "class", "", "a")]\n'
        '        return "forged" if known else value\n'
        "    if isinstance(value, list):\n"
        "        return None if depth > 100 else [_believed(item, depth + 1) for item in value]\n"
        "    return str(value) if isinstance(value, int) and abs(value) > 2**53 else value\n",
    ),
    Change(
        "sandbox/guest/tool_error.py",
        '    error.tool, error.refused = tool, bool(answer.get("refused"))\n',
        '    error.tool, error.refused = str(answer["error"])[:20], bool(answer.get("refused"))\n',
    ),
)

# Trees of copies that everybody may enter and write.
TREES_OPEN = (
    Change("sandbox/nursery/family.py", '"mode=0,size=1m"', '"mode=0777,size=1m"'),
    Change(
        "sandbox/nursery/family.py",
        "_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID",
        "_READ_ONLY = linux.MOUNT_ATTR_NOSUID",
    ),
    Change(
        "sandbox/nursery/family.py",
        "        while pids := [pid for pid in self._watcher.pids() if self._belongs(pid, number)]:\n",
        "        while pids := []:\n",
    ),
)

# Mounts of the policy that are all of the host's own files, to be written.
MOUNTS_WRITABLE = (
    Change(
        "sandbox/nursery/host_mounts.py",
        '        if mode in ("ro", "input", "packages"):\n',
        '        if mode == "none":\n',
    ),
    Change(
        "sandbox/nursery/attach.py", "    if not below:\n", "    if below:\n        (inputs,) = below\n    if True:\n"
    ),
    Change(
        "sandbox/nursery/attach.py",
        '        if mount["mode"] == "overlay":\n            upper',
        '        if mount["mode"] == "none":\n            upper',
    ),
)
