"""Attempts to have, keep or gain rights."""

from __future__ import annotations

import os

from actbox import Policy
from tests.escape.attempt import Bare, Group, NotApplicable, Verdict
from tests.escape.ground import Ground

GROUP = Group(
    "privileges",
    Bare.NOTHING_THERE,
    harmful=frozenset(
        [
            "make a set-user-id program of root's",
            "give a program capabilities",
        ]
    ),
)
_SETS = "{line.split()[0]: int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('Cap')}"
_RUN = "import subprocess\nrun = lambda *words: subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip()\n"

GROUP.programs(
    {
        "be without no_new_privs": "verdict('NoNewPrivs:\\t1' not in open('/proc/self/status').read())",
        "be without a filter": "verdict('Seccomp:\\t2' not in open('/proc/self/status').read())",
        "start a program without a filter": _RUN
        + "found = run('grep', 'Seccomp:', '/proc/self/status')\nverdict(not found.endswith('2'), found)",
        "start a program without no_new_privs": _RUN
        + "found = run('grep', 'NoNewPrivs', '/proc/self/status')\nverdict(not found.endswith('1'), found)",
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {"have a capability": f"sets = {_SETS}\nverdict(any(sets.values()), sets)"},
    Bare.GETS_THROUGH_AS_ROOT,
    forkable_may=True,
)
GROUP.programs(
    {
        "start a program with a capability": _RUN
        + "found = run('grep', 'Cap', '/proc/self/status')\nverdict(any(int(l.split()[1], 16) for l in found.splitlines()), found)",
        "be root": "verdict(os.getuid() == 0 or os.geteuid() == 0)",
        "be root in a program that it starts": _RUN + "verdict(run('id', '-u') == '0')",
        "be in root's group": "verdict(0 in (os.getgid(), os.getegid()), os.getgid())",
        "become root": "refused(lambda: os.setuid(0))",
        "become root by saved id": "refused(lambda: os.setresuid(0, 0, 0))",
        "become another user": "refused(lambda: os.setresuid(1, 1, 1))",
        "join root's group": "refused(lambda: os.setgroups([0]))",
        "take root's group": "refused(lambda: os.setresgid(0, 0, 0))",
        "be root to file systems only": (
            "call('setfsuid', 0)\nfound = call('setfsuid', -1)[0]\nverdict(found == 0, found)"
        ),
        "give a file to root": "open('mine', 'w').close()\nrefused(lambda: os.chown('mine', 0, 0))",
        "be on the host's user id": (
            "found = open('/proc/self/uid_map').read().split()\nverdict(found[0] == '0', found)"
        ),
        "keep capabilities over a change of ids": "denied(call('prctl', 8, 1, 0, 0, 0))",
        "change what root may do": "denied(call('prctl', 28, 1, 0, 0, 0))",
        "drop what bounds capabilities": "denied(call('prctl', 24, 0, 0, 0, 0))",
    },
    Bare.GETS_THROUGH_AS_ROOT,
)
GROUP.programs(
    {
        "raise ambient capabilities": "denied(call('prctl', 47, 2, 21, 0, 0))",
        "get a capability back": (
            "header, sets = struct.pack('II', 0x20080522, 0), struct.pack('IIIIII', *[0xffffffff] * 6)\n"
            "denied(call('capset', header, sets))"
        ),
        "become root by a program": _RUN
        + "if not any(os.access(p, os.X_OK) for p in ('/usr/bin/su', '/bin/su')): not_applicable('there is no su')\n"
        "verdict(run('su', '-c', 'id -u') == '0')",
        "become root by any set-user-id program that there is": _RUN
        + "import stat\nfolders = ('/usr/bin', '/usr/sbin', '/usr/lib', '/usr/libexec')\n"
        "found = [e.path for f in folders if os.path.isdir(f) for e in os.scandir(f)"
        " if e.is_file(follow_symlinks=False) and e.stat().st_mode & stat.S_ISUID]\n"
        "if not found: not_applicable('there is no set-user-id program')\n"
        "child = subprocess.Popen(['sh', '-c', 'exec \"$0\" </dev/null >/dev/null 2>&1 & grep Uid /proc/$!/status', found[0]],"
        " stdout=subprocess.PIPE, text=True)\nids = child.communicate()[0].split()[1:]\nverdict('0' in ids, (found[0], ids))",
        "make a set-user-id program of root's": _RUN
        + "import contextlib, shutil\nshutil.copy('/usr/bin/id', '/tmp/id')\nwith contextlib.suppress(OSError): os.chmod('/tmp/id', 0o4755)\nverdict(run('/tmp/id', '-u') == '0')",
        "give a program capabilities": (
            "import shutil\nshutil.copy('/usr/bin/id', '/tmp/id')\n"
            "refused(lambda: os.setxattr('/tmp/id', 'security.capability', struct.pack('<IIIII', 0x2000001, 0xffffffff, 0, 0, 0)))"
        ),
        "switch its filter off": "denied(call('prctl', 22, 0, 0, 0, 0), ('EPERM', 'EACCES', 'EINVAL'))",
        "allow all with a second filter": (
            "ctypes, libc = library()\ncode = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000), 8)\n"
            "program = struct.pack('HHIQ', 1, 0, 0, ctypes.addressof(code))\ncall('prctl', 22, 2, program, 0, 0)\n"
            "denied(call('unshare', 0x10000000))"
        ),
        "decide on others' system calls": (
            "program = struct.pack('HHIQ', 1, 0, 0, 0)\ndenied(syscall('seccomp', 1, 8, program))"
        ),
        "take no_new_privs back": "denied(call('prctl', 38, 0, 0, 0, 0), ('EPERM', 'EINVAL'))",
        "be free of speculation's mitigations": "denied(call('prctl', 53, 0, 2, 0, 0))",
        "lock what is secure": "denied(call('prctl', 28, 0x2f, 0, 0, 0))",
        "break out of its own Python by its memory": (
            # Whatever native code may do is what the process may do: there is no wall inside it to be broken.
            "ctypes, libc = library()\nctypes.memmove(ctypes.addressof(buffer(8)), b'anything', 8)\nrefused(lambda: os.setuid(0))"
        ),
    }
)


@GROUP.function("keep the groups of the host", Bare.GETS_THROUGH_AS_ROOT)
async def _(ground: Ground) -> Verdict:
    """Inside they have no names, and the kernel heeds them all the same: any group is one too many."""
    if os.geteuid() != 0:
        raise NotApplicable("an ordinary user can neither join groups nor leave its own")
    before = os.getgroups()
    os.setgroups([0, 42])
    try:
        # What no other attempt preloads, so that the process that sandboxes are made from has the groups too.
        box = await ground.open(Policy(preload=("colorsys",)))
        return await ground.tries(box, "verdict(os.getgroups() != [], os.getgroups())")
    finally:
        os.setgroups(before)
