"""What a hostile program in JavaScript tries, and that the walls stop it.

Each attempt says itself how far it got: it ends with a text that begins with `ESCAPED` or with `STOPPED`. Those that are
`bare` are also made by a Node that nothing encloses, where they have to get through: else they would prove nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, Limits, Policy, Program, Sandbox
from actbox.sandbox.engines.node.binary import find_node
from tests.conftest import engine_check

SECRET = "a-secret-of-the-host"


@dataclass(frozen=True)
class Attempt:
    what: str
    code: str
    bare: bool = True


# Each is the body of an async function that returns what it got, or throws where it got nothing. `host` has what there
# is on the host.
ATTEMPTS = [
    Attempt("read a file of the host", "return require('fs').readFileSync(host.file, 'utf8')"),
    Attempt("read it through a link", "const fs = require('fs'); const l = `/tmp/l${process.pid}`; fs.symlinkSync(host.file, l); try { return fs.readFileSync(l, 'utf8') } finally { fs.unlinkSync(l) }"),
    Attempt("read it through another process's root", "return require('fs').readFileSync(`/proc/${process.ppid}/root${host.file}`, 'utf8')"),
    Attempt("read it by climbing", "return require('fs').readFileSync('../'.repeat(30) + host.file.slice(1), 'utf8')"),
    Attempt("import it", "return (await import('file://' + host.module)).default"),
    Attempt("require it", "return require(host.module_cjs)"),
    Attempt("read it in a worker", "const { Worker } = require('worker_threads'); return await new Promise((ok, no) => { const w = new Worker(`require('worker_threads').parentPort.postMessage(require('fs').readFileSync(${JSON.stringify(host.file)}, 'utf8'))`, { eval: true }); w.on('message', ok); w.on('error', no) })"),
    Attempt("read it in a shell", "return require('child_process').execSync(`cat ${host.file}`, { stdio: ['ignore', 'pipe', 'ignore'] }).toString()"),
    Attempt("read it in Python", "return require('child_process').execFileSync('python3', ['-c', `print(open(${JSON.stringify(host.file)}).read())`], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()"),
    Attempt("read it in another Node", "return require('child_process').execFileSync(process.execPath, ['-p', `require('fs').readFileSync(${JSON.stringify(host.file)}, 'utf8')`], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()"),
    Attempt("copy it", "const fs = require('fs'); const c = `/tmp/c${process.pid}`; fs.copyFileSync(host.file, c); try { return fs.readFileSync(c, 'utf8') } finally { fs.unlinkSync(c) }"),
    Attempt("read it by the binding itself", "const { open, read } = process.binding('fs'); const fd = open(host.file, 0, 0o666); if (!(fd > 2)) throw new Error(String(fd)); const b = Buffer.alloc(100); return b.toString('utf8', 0, require('fs').readSync(fd, b))"),
    Attempt("watch the folder of a file of the host", "return 'seen ' + require('fs').readdirSync(require('path').dirname(host.file)).includes('secret.txt') && require('fs').watch(require('path').dirname(host.file)).close() === undefined && host.secret"),
    Attempt("read a variable of the host", "return process.env.ACTBOX_HOST_SECRET || (() => { throw new Error('none') })()"),
    Attempt("read variables of all processes", "const fs = require('fs'); for (const p of fs.readdirSync('/proc')) { try { const e = fs.readFileSync(`/proc/${p}/environ`, 'utf8'); if (e.includes(host.secret)) return host.secret } catch {} } throw new Error('none')"),
    Attempt("read a variable in a report", "const r = JSON.stringify(process.report.getReport()); if (r.includes(host.secret)) return host.secret; throw new Error('none')"),
    Attempt("connect to the host's loopback", "return await new Promise((ok, no) => require('net').connect(host.port, '127.0.0.1').on('data', d => ok(String(d))).on('error', no))"),
    Attempt("connect to it by its other name", "return await new Promise((ok, no) => require('net').connect(host.port, '::ffff:127.0.0.1').on('data', d => ok(String(d))).on('error', no))"),
    Attempt("connect to it in a child", "return require('child_process').execFileSync('python3', ['-c', `import socket; print(socket.create_connection((\"127.0.0.1\", ${host.port})).recv(100).decode())`], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()"),
    Attempt("fetch from the host", "return await (await fetch(`http://127.0.0.1:${host.port}/`)).text()"),
    Attempt("send it a datagram", "const s = require('dgram').createSocket('udp4'); return await new Promise((ok, no) => { s.on('message', m => { s.close(); ok(String(m)) }); s.on('error', no); s.send('hello', host.udp, '127.0.0.1'); setTimeout(() => { s.close(); no(new Error('no answer')) }, 1000) })"),
    Attempt("connect to an abstract socket of the host", "return require('child_process').execFileSync('python3', ['-c', `import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"\\\\0${host.abstract}\"); print(s.recv(100).decode())`], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()"),
    Attempt("signal a process of the host", "process.kill(host.pid, 0); return host.secret"),
    Attempt("see processes of the host", "const fs = require('fs'); for (const p of fs.readdirSync('/proc')) { try { if (fs.readFileSync(`/proc/${p}/cmdline`, 'utf8').includes(host.marker)) return host.secret } catch {} } throw new Error('none')"),
    Attempt("ask the shell for processes of the host", "if (require('child_process').execSync('cat /proc/[0-9]*/cmdline 2>/dev/null; true').toString().includes(host.marker)) return host.secret; throw new Error('none')"),
    Attempt("write beside the host's files", "require('fs').writeFileSync(host.file + '.new', 'x'); return host.secret"),
    Attempt("tell the host's name", "if (require('os').hostname() === host.hostname) return host.secret; throw new Error('another')"),
    # What nobody may do, or should.
    Attempt("write to Node itself", "require('fs').appendFileSync(process.execPath, 'x'); return 'written'", bare=False),
    Attempt("write beside Node", "require('fs').writeFileSync(require('path').dirname(process.execPath) + '/evil', 'x'); return 'written'", bare=False),
    Attempt("write to the system", "const fs = require('fs'); for (const p of ['/etc/passwd', '/usr/bin/env', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/x', '/dev/x', '/x']) { try { fs.writeFileSync(p, 'x'); return p } catch {} } throw new Error('none')", bare=False),
    Attempt("read the host's passwords", "return require('fs').readFileSync('/etc/shadow', 'utf8')", bare=False),
    Attempt("open devices", "const fs = require('fs'); for (const p of ['/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/kvm', '/dev/fuse', '/dev/net/tun', '/dev/tty']) { try { fs.openSync(p, 'r'); return p } catch {} } throw new Error('none')", bare=False),
    Attempt("become another user", "for (const f of [() => process.setuid(0), () => process.setgid(0), () => process.setgroups([0]), () => process.seteuid(0)]) { try { f(); if (process.getuid() === 0) return 'root' } catch {} } throw new Error('none')", bare=False),
    Attempt("take the processors from others", "require('os').setPriority(-10); return 'taken'", bare=False),
    Attempt("end pid 1", "process.kill(1, 'SIGKILL'); await new Promise(ok => setTimeout(ok, 300)); throw new Error('it lives')", bare=False),
    Attempt("look at pid 1", "return require('fs').readFileSync('/proc/1/environ', 'utf8') + require('fs').readdirSync('/proc/1/fd')", bare=False),
    Attempt("write to pid 1", "require('fs').openSync('/proc/1/mem', 'r+'); return 'open'", bare=False),
    Attempt("make namespaces in a child", "return require('child_process').execFileSync('python3', ['-c', 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); r = l.unshare(0x10000000); assert r == 0, os.strerror(ctypes.get_errno()); print(\"made\")'], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()", bare=False),
    Attempt("mount in a child", "return require('child_process').execFileSync('python3', ['-c', 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); r = l.mount(b\"x\", b\"/tmp\", b\"tmpfs\", 0, None); assert r == 0, os.strerror(ctypes.get_errno()); print(\"mounted\")'], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()", bare=False),
    Attempt("use io_uring in a child", "return require('child_process').execFileSync('python3', ['-c', 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); r = l.syscall(425, 8, ctypes.create_string_buffer(120)); assert r >= 0, os.strerror(ctypes.get_errno()); print(\"set up\")'], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()", bare=False),
    Attempt("trace its parent in a child", "return require('child_process').execFileSync('python3', ['-c', 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); r = l.ptrace(16, os.getppid(), 0, 0); assert r == 0, os.strerror(ctypes.get_errno()); print(\"traced\")'], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()", bare=False),
    Attempt("reach the internet", "return await new Promise((ok, no) => require('net').connect(53, '1.1.1.1').on('connect', () => ok('connected')).on('error', no))", bare=False),
    Attempt("ask for a name", "return JSON.stringify(await require('dns').promises.lookup('example.com'))", bare=False),
    Attempt("ask a resolver for a name", "const r = new (require('dns').promises.Resolver)({ timeout: 300, tries: 1 }); r.setServers(['8.8.8.8']); return JSON.stringify(await r.resolve4('example.com'))", bare=False),
    Attempt("load a library as its own", "const m = { exports: {} }; process.dlopen(m, '/tmp/nothing.node'); return 'loaded'", bare=False),
    Attempt("have a child that is a guest too", "const out = require('child_process').execFileSync(process.execPath, ['-p', 'require(\"fs\").readdirSync(\"/proc/self/fd\").filter(f => f > 2).map(f => { try { return require(\"fs\").readlinkSync(`/proc/self/fd/${f}`) } catch { return \"\" } }).filter(t => t.startsWith(\"socket\")).length'], { stdio: ['ignore', 'pipe', 'ignore'] }).toString(); if (Number(out) > 0) return 'it has ' + out; throw new Error('none')", bare=False),
    Attempt("have capabilities", "const s = require('fs').readFileSync('/proc/self/status', 'utf8'); if (!/CapEff:\\t0{16}/.test(s) || !/CapBnd:\\t0{16}/.test(s) || !/NoNewPrivs:\\t1/.test(s) || !/Seccomp:\\t2/.test(s)) return s; throw new Error('none')", bare=False),
    Attempt("have threads without the filter", "const { Worker } = require('worker_threads'); const s = await new Promise((ok, no) => { const w = new Worker('require(\"worker_threads\").parentPort.postMessage(require(\"fs\").readFileSync(\"/proc/thread-self/status\", \"utf8\"))', { eval: true }); w.on('message', ok); w.on('error', no) }); if (!/Seccomp:\\t2/.test(s)) return s; throw new Error('none')", bare=False),
]  # fmt: skip

_RUN = """
const host = %s;
const tried = (async () => { %s })();
const verdict = await tried.then(got => `ESCAPED: ${String(got).slice(0, 300)}`, e => `STOPPED: ${e?.message ?? e}`.slice(0, 300));
"""


def program_of(attempt: Attempt, host: dict[str, Any]) -> str:
    return _RUN % (json.dumps(host), attempt.code)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What there is on the host to get at: files, servers on its loopback, a process, a variable."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "secret.txt").write_text(SECRET)
    (folder / "secret.mjs").write_text(f"export default {SECRET!r}")
    (folder / "secret.cjs").write_text(f"module.exports = {SECRET!r}")
    marker = f"actbox-marker-{os.getpid()}"
    abstract = f"actbox-{os.getpid()}-abstract"
    server_code = (
        "import socket, sys, selectors\n"
        "tcp = socket.create_server(('127.0.0.1', 0)); udp = socket.socket(type=socket.SOCK_DGRAM)\n"
        "udp.bind(('127.0.0.1', 0)); local = socket.socket(socket.AF_UNIX); local.bind(b'\\0' + sys.argv[2].encode())\n"
        "local.listen(); s = selectors.DefaultSelector()\n"
        "[s.register(x, 1) for x in (tcp, udp, local)]\n"
        "print(tcp.getsockname()[1], udp.getsockname()[1], flush=True)\n"
        "while True:\n"
        "    for key, _ in s.select():\n"
        "        if key.fileobj is udp: udp.sendto(sys.argv[1].encode(), udp.recvfrom(100)[1]); continue\n"
        "        c, _ = key.fileobj.accept(); c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n' + sys.argv[1].encode()); c.close()\n"
    )
    command = ["python3", "-c", server_code, SECRET, abstract, marker]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port, udp = map(int, server.stdout.readline().split())
            yield {
                "file": str(folder / "secret.txt"),
                "module": str(folder / "secret.mjs"),
                "module_cjs": str(folder / "secret.cjs"),
                "secret": SECRET,
                "port": port,
                "udp": udp,
                "abstract": abstract,
                "pid": server.pid,
                "marker": marker,
                "hostname": socket.gethostname(),
            }
        finally:
            server.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked() -> AsyncIterator[Sandbox]:
    found = engine_check("node")
    if not found.works:
        pytest.skip(f"the node engine does not work here: {found.reason}. {found.advice}")
    os.environ["ACTBOX_HOST_SECRET"] = SECRET
    try:
        async with actbox.open_sandbox("node", policy=Policy(limits=Limits(wall_seconds=60.0))) as opened:
            yield opened
    finally:
        del os.environ["ACTBOX_HOST_SECRET"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.what)
async def test_a_program_cannot(attempt: Attempt, attacked: Sandbox, host: dict[str, Any]) -> None:
    result = await attacked.run_alone(program_of(attempt, host) + "\nverdict")
    assert result.success, result
    assert result.value.startswith("STOPPED"), result.value
    assert SECRET not in result.value


@pytest.mark.engines  # a control of the attempts themselves
@pytest.mark.parametrize("attempt", [a for a in ATTEMPTS if a.bare], ids=lambda attempt: attempt.what)
def test_what_nothing_encloses_can(attempt: Attempt, host: dict[str, Any], node_works: None, tmp_path: Path) -> None:
    script = tmp_path / "attempt.mjs"
    head = "import { createRequire } from 'module'; const require = createRequire(import.meta.url);"
    script.write_text(f"{head}{program_of(attempt, host)}\nprocess.stdout.write(verdict)")
    environment = {**os.environ, "ACTBOX_HOST_SECRET": SECRET}
    command = [find_node().path, script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("ESCAPED"), (done.stdout, done.stderr)
    assert SECRET in done.stdout


# What needs more than one program.


@pytest.mark.slow
async def test_a_child_that_goes_its_own_way_ends_with_the_run(box: Sandbox) -> None:
    code = (
        "require('child_process').spawn('sh', ['-c', 'while :; do echo x >> ticks; sleep 0.01; done'],"
        " { detached: true, stdio: 'ignore' }).unref();\n"
        "while (!require('fs').existsSync('ticks')) await new Promise(done => setTimeout(done, 10))"
    )
    assert (await box.run(code)).success
    before = await box.execute("wc -c < ticks")
    await asyncio.sleep(0.1)
    assert (await box.execute("wc -c < ticks")).stdout == before.stdout


@pytest.mark.slow
async def test_an_inspector_that_a_program_opens_is_its_own(box: Sandbox) -> None:
    seen = False
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))  # so that no other process listens there meanwhile
        port = mine.getsockname()[1]
        code = f"require('inspector').open({port}, '0.0.0.0'); console.log('open'); await new Promise(() => {{}})"
        async for event in box.stream(code):
            if isinstance(event, actbox.Output) and event.text == "open\n":
                seen = True
                with socket.socket() as client:
                    client.settimeout(60)
                    assert client.connect_ex(("127.0.0.1", port)) != 0
                break
    assert seen


async def test_a_link_in_the_output_folder_is_not_followed(box: Sandbox, host: dict[str, Any]) -> None:
    code = f"const fs = require('fs'); fs.symlinkSync({json.dumps(host['file'])}, '/output/a'); fs.symlinkSync('/etc/passwd', '/output/b')"
    result = await box.run(code)
    assert result.artifacts == () and result.warnings


def _frame(message: dict[str, Any]) -> str:
    text = json.dumps(message).encode()
    return (struct.pack("!II", len(text), 0) + text).hex()


@pytest.mark.parametrize(
    "frame",
    [
        _frame({"t": "done", "exit": 0, "value": 1, "secret": 2}),
        _frame({"t": "done", "exit": 1, "error": {"kind": "SANDBOX", "message": "the host is at fault"}}),
        _frame({"t": "open", "path": "/etc/shadow"}),
        _frame({"t": "call", "id": -1, "tool": "x", "args": {}}),
        struct.pack("!II", 2**31, 2**31).hex(),
    ],
    ids=["unknown field", "a kind of the host's", "unknown message", "no id", "a giant"],
)
async def test_a_forged_message_ends_the_program(box: Sandbox, frame: str) -> None:
    code = f"require('fs').writeSync(3, Buffer.from('{frame}', 'hex')); await new Promise(d => setTimeout(d, 5000))"
    error = (await box.run(code)).error
    assert error is not None and error.kind is ErrorKind.PROTOCOL


async def test_a_tool_outside_the_toolset_cannot_be_called_by_message(box: Sandbox) -> None:
    called: list[str] = []

    def allowed(text: str) -> str:
        called.append(text)
        return text

    frame = _frame({"t": "call", "id": 77, "tool": "forbidden", "args": {"text": "x"}})
    code = f"require('fs').writeSync(3, Buffer.from('{frame}', 'hex')); await allowed('y')"
    await box.run(Program(code, "javascript"), tools=[allowed])
    assert called in ([], ["y"])


@pytest.mark.slow
async def test_a_child_with_a_larger_heap_has_no_more_memory(node_works: None) -> None:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(memory_mib=256))) as box:
        code = (
            "require('child_process').execFileSync(process.execPath, ['--max-old-space-size=4000', '-e',"
            " 'const all = []; for (;;) all.push(new Array(1e5).fill(1.5))'])"
        )
        error = (await box.run(code)).error
        assert error is not None and (error.kind, error.limit) == (ErrorKind.MEMORY, "memory_mib")


@pytest.mark.slow
async def test_shared_memory_counts(node_works: None) -> None:
    async with actbox.open_sandbox("node", policy=Policy(limits=Limits(memory_mib=256))) as box:
        code = (
            "const all = [];\nfor (let i = 0; i < 400; i++) { all.push(new SharedArrayBuffer(2 ** 20));"
            " new Uint8Array(all.at(-1)).fill(1) }\nawait new Promise(done => setTimeout(done, 600_000))"
        )
        error = (await box.run(code)).error
        assert error is not None and error.kind is ErrorKind.MEMORY
