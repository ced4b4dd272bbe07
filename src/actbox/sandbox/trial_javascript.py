"""The trials of `trial.py` with their programs in JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from .trial import (
    ISOLATION_TRIALS,
    LIMIT_TRIALS,
    OpenBox,
    Trial,
    TrialReport,
    host_to_reach_for,
    report_on,
    says_beyond,
)

_LANGUAGE: Final = "javascript"


async def try_javascript_limits(open_box: OpenBox) -> list[TrialReport]:
    """Try to exceed each field of `Limits` once, each in its own sandbox, and report which ones are enforced."""
    return [await report_on(trial, open_box, language=_LANGUAGE) for trial in _LIMIT_TRIALS]


async def try_javascript_isolation(open_box: OpenBox) -> list[TrialReport]:
    """Try to reach the host's files, network, processes and mounts, and report which a program is kept from."""
    with host_to_reach_for() as inputs:
        return [await report_on(trial, open_box, inputs, _LANGUAGE) for trial in _ISOLATION_TRIALS]


_OBJECTS: Final = Trial(
    limit="memory_mib",
    what="fill 512 MiB with objects",
    limits={"memory_mib": 256},
    code="""\
const filled = [];
while (filled.length < 2000) filled.push(new Array(2 ** 15).fill(0.5));
console.log('BEYOND')
""",
    went_beyond=says_beyond,
)
_RIGHT_TO_MOUNT: Final = Trial(
    limit="host mounts",
    what="have any right to mount",
    code="""\
const status = require('fs').readFileSync('/proc/self/status', 'utf8');
console.log(/^CapEff:\\t0+$/m.test(status) && /^CapBnd:\\t0+$/m.test(status) ? 'DONE' : 'BEYOND')
""",
    went_beyond=says_beyond,
)
"""Node has no call for `mount`."""

_PROGRAMS: Final[Mapping[str, str]] = {
    "sleep 2 s, 0.5 allowed": "await new Promise(done => setTimeout(done, 2000)); console.log('BEYOND')",
    "compute 3 s, 1 allowed": "while (process.cpuUsage().user < 3e6); console.log('BEYOND')",
    # So small a share that a busy machine, which gives a program little time, is not mistaken for enforcement.
    "compute 0.3 s, 0.05 a second allowed": """\
const used = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e6 };
const began = performance.now(), before = used();
while (used() - before < 0.3 && performance.now() - began < 4000);
const share = (used() - before) / ((performance.now() - began) / 1000);
console.log(share > 0.1 ? 'BEYOND' : 'DONE')
""",
    "fill 512 MiB, 256 allowed": "const filled = Buffer.alloc(512 * 2 ** 20, 1); console.log('BEYOND')",
    "the same in four processes": """\
const { spawn } = require('child_process');
const fill = 'const filled = Buffer.alloc(128 * 2 ** 20, 1); console.log(1); setTimeout(() => filled, 9000)';
const all = Array.from({ length: 4 }, () => spawn(process.execPath, ['-e', fill]));
const filled = await Promise.all(all.map(child => new Promise(done => {
  child.stdout.once('data', () => done(1)); child.once('exit', () => done(0)) })));
for (const child of all) child.kill('SIGKILL');
console.log(filled.every(Boolean) ? 'BEYOND' : 'DONE')
""",
    "keep 40 alive, 16 allowed": """\
const { spawn } = require('child_process');
const all = Array.from({ length: 40 }, () => spawn('sleep', ['9'], { stdio: 'ignore' }));
const started = await Promise.allSettled(all.map(child => new Promise((done, fail) => {
  child.once('spawn', done); child.once('error', fail) })));
for (const child of all) child.kill('SIGKILL');
console.log(started.every(child => child.status === 'fulfilled') ? 'BEYOND' : 'DONE')
""",
    "open 80 at once, 40 allowed": """\
for (let n = 0; n < 80; n++) require('fs').openSync('/dev/null');
console.log('BEYOND')
""",
    "write 3 MiB, 1 allowed": "require('fs').writeFileSync('trial', Buffer.alloc(3 * 2 ** 20)); console.log('BEYOND')",
    "write 12 MiB, 4 allowed": """\
for (let n = 0; n < 4; n++) require('fs').writeFileSync(`trial-${n}`, Buffer.alloc(3 * 2 ** 20, 1));
console.log('BEYOND')
""",
    "write 10 MiB to several places, 4 allowed": """\
let written = 0;
for (const place of ['/dev/shm', '/tmp', '/workspace', '/workspace/output', '.']) {
  try { require('fs').writeFileSync(`${place}/trial-${written}`, Buffer.alloc(2 * 2 ** 20, 1)); written += 2 } catch {}
}
console.log(written > 4 ? 'BEYOND' : 'DONE')
""",
    "print 1 MB, 10 kB allowed": "for (let n = 0; n < 100; n++) console.log('x'.repeat(9_999))",
    "call 8 times, 3 allowed": "for (let n = 0; n < 8; n++) await actbox_trial('x')",
    "send 80 kB in 8 calls, 30 allowed": "for (let n = 0; n < 8; n++) await actbox_trial('x'.repeat(10_000))",
    "send 400 kB, 100 allowed": "try { await actbox_trial('x'.repeat(400_000)) } catch { console.log('DONE') }",
    "leave 8, 3 allowed": """\
for (let n = 0; n < 8; n++) require('fs').writeFileSync(`output/${n}`, 'x');
console.log('DONE')
""",
    "leave 3 MiB, 1 allowed": """\
for (let n = 0; n < 4; n++) require('fs').writeFileSync(`output/${n}`, 'x'.repeat(750 * 1024));
console.log('DONE')
""",
    "read a file of this user": """\
try { console.log(require('fs').readFileSync(host_file).length ? 'BEYOND' : 'DONE') }
catch { console.log('DONE') }
""",
    "connect to a host port": """\
console.log(await new Promise(done => require('net').connect(host_port, '127.0.0.1')
  .on('connect', () => done('BEYOND')).on('error', () => done('DONE'))));
process.exit(0)
""",
    # Inside, its number may be another process's: only the start time identifies it.
    "see the process outside": """\
try {
  process.kill(host_process, 0);
  const stat = host_started && require('fs').readFileSync(`/proc/${host_process}/stat`, 'utf8');
  console.log((stat && stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]) === host_started ? 'BEYOND' : 'DONE')
} catch { console.log('DONE') }
""",
}


def _in_javascript(trial: Trial) -> Trial:
    """Return a trial with its program in JavaScript."""
    return replace(trial, code=_PROGRAMS[trial.what])


_LIMIT_TRIALS: Final = (*map(_in_javascript, LIMIT_TRIALS), _OBJECTS)
_ISOLATION_TRIALS: Final = (*map(_in_javascript, ISOLATION_TRIALS[:-1]), _RIGHT_TO_MOUNT)
