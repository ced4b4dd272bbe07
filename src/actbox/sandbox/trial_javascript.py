"""What a sandbox keeps from programs in JavaScript: the trials of `trial.py`, in that language."""

from __future__ import annotations

from typing import Final

from .trial import OpenBox, Trial, TrialReport, host_to_reach_for, report_on, says_beyond

_LANGUAGE: Final = "javascript"


async def try_javascript_limits(open_box: OpenBox) -> list[TrialReport]:
    """Reach each field of `Limits` once, in a sandbox of its own, and report which of them hold."""
    return [await report_on(trial, open_box, language=_LANGUAGE) for trial in _LIMIT_TRIALS]


async def try_javascript_isolation(open_box: OpenBox) -> list[TrialReport]:
    """Reach for the host's files, network, processes and mounts, and report which of them a program is kept from."""
    with host_to_reach_for() as inputs:
        return [await report_on(trial, open_box, inputs, _LANGUAGE) for trial in _ISOLATION_TRIALS]


_LIMIT_TRIALS = (
    Trial(
        limit="wall_seconds",
        what="sleep 2 s, 0.5 allowed",
        limits={"wall_seconds": 0.5},
        code="await new Promise(done => setTimeout(done, 2000)); console.log('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="cpu_seconds",
        what="compute 3 s, 1 allowed",
        limits={"cpu_seconds": 1},
        code="while (process.cpuUsage().user < 3e6); console.log('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="cpus",
        what="compute 0.3 s, 0.05 a second allowed",
        limits={"cpus": 0.05},
        # So small a share that a busy machine, which may leave a program little, is not taken for an enforcer.
        code="""\
const used = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e6 };
const began = performance.now(), before = used();
while (used() - before < 0.3 && performance.now() - began < 4000);
const share = (used() - before) / ((performance.now() - began) / 1000);
console.log(share > 0.1 ? 'BEYOND' : 'DONE')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="memory_mib",
        what="fill 512 MiB, 256 allowed",
        limits={"memory_mib": 256},
        code="const filled = Buffer.alloc(512 * 2 ** 20, 1); console.log('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="memory_mib",
        what="the same in objects",
        limits={"memory_mib": 256},
        code="""\
const filled = [];
while (filled.length < 2000) filled.push(new Array(2 ** 15).fill(0.5));
console.log('BEYOND')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="memory_mib",
        what="the same in four processes",
        limits={"memory_mib": 256},
        code="""\
const { spawn } = require('child_process');
const fill = 'const filled = Buffer.alloc(128 * 2 ** 20, 1); console.log(1); setTimeout(() => filled, 9000)';
const all = Array.from({ length: 4 }, () => spawn(process.execPath, ['-e', fill]));
const filled = await Promise.all(all.map(child => new Promise(done => {
  child.stdout.once('data', () => done(1)); child.once('exit', () => done(0)) })));
for (const child of all) child.kill('SIGKILL');
console.log(filled.every(Boolean) ? 'BEYOND' : 'DONE')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="processes",
        what="keep 40 alive, 16 allowed",
        limits={"processes": 16},
        code="""\
const { spawn } = require('child_process');
const all = Array.from({ length: 40 }, () => spawn('sleep', ['9'], { stdio: 'ignore' }));
const started = await Promise.allSettled(all.map(child => new Promise((done, fail) => {
  child.once('spawn', done); child.once('error', fail) })));
for (const child of all) child.kill('SIGKILL');
console.log(started.every(child => child.status === 'fulfilled') ? 'BEYOND' : 'DONE')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="open_files",
        what="open 80 at once, 40 allowed",
        limits={"open_files": 40},
        code="for (let n = 0; n < 80; n++) require('fs').openSync('/dev/null'); console.log('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="file_mib",
        what="write 3 MiB, 1 allowed",
        limits={"file_mib": 1},
        code="require('fs').writeFileSync('trial', Buffer.alloc(3 * 2 ** 20)); console.log('BEYOND')",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="workspace_mib",
        what="write 12 MiB, 4 allowed",
        limits={"workspace_mib": 4},
        code="""\
for (let n = 0; n < 4; n++) require('fs').writeFileSync(`trial-${n}`, Buffer.alloc(3 * 2 ** 20, 1));
console.log('BEYOND')
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="output_bytes",
        what="print 1 MB, 10 kB allowed",
        limits={"output_bytes": 10_000},
        code="for (let n = 0; n < 100; n++) console.log('x'.repeat(9_999))",
        went_beyond=lambda result, _: len(result.stdout.encode()) > 10_000,
    ),
    Trial(
        limit="tool_calls",
        what="call 8 times, 3 allowed",
        limits={"tool_calls": 3},
        code="for (let n = 0; n < 8; n++) await actbox_trial('x')",
        went_beyond=lambda _, received: len(received) > 3,
    ),
    Trial(
        limit="tool_bytes",
        what="send 80 kB in 8 calls, 30 allowed",
        limits={"tool_bytes": 30_000},
        code="for (let n = 0; n < 8; n++) await actbox_trial('x'.repeat(10_000))",
        went_beyond=lambda _, received: sum(received) > 30_000,
    ),
    Trial(
        limit="message_bytes",
        what="send 400 kB, 100 allowed",
        limits={"message_bytes": 100_000},
        code="try { await actbox_trial('x'.repeat(400_000)) } catch { console.log('DONE') }",
        went_beyond=lambda _, received: bool(received),
    ),
    Trial(
        limit="artifacts",
        what="leave 8, 3 allowed",
        limits={"artifacts": 3},
        code="for (let n = 0; n < 8; n++) require('fs').writeFileSync(`output/${n}`, 'x'); console.log('DONE')",
        went_beyond=lambda result, _: len(result.artifacts) > 3,
    ),
    Trial(
        limit="artifact_mib",
        what="leave 3 MiB, 1 allowed",
        limits={"artifact_mib": 1},
        code="""\
for (let n = 0; n < 4; n++) require('fs').writeFileSync(`output/${n}`, 'x'.repeat(750 * 1024));
console.log('DONE')
""",
        went_beyond=lambda result, _: sum(artifact.size for artifact in result.artifacts) > 2**20,
    ),
)

_ISOLATION_TRIALS = (
    Trial(
        limit="host files",
        what="read a file of this user",
        code="""\
try { console.log(require('fs').readFileSync(host_file).length ? 'BEYOND' : 'DONE') }
catch { console.log('DONE') }
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="host network",
        what="connect to a host port",
        code="""\
console.log(await new Promise(done => require('net').connect(host_port, '127.0.0.1')
  .on('connect', () => done('BEYOND')).on('error', () => done('DONE'))));
process.exit(0)
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="host processes",
        what="see the process outside",
        # Its number may be another process inside: only the time at which it started tells.
        code="""\
try {
  process.kill(host_process, 0);
  const stat = host_started && require('fs').readFileSync(`/proc/${host_process}/stat`, 'utf8');
  console.log((stat && stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]) === host_started ? 'BEYOND' : 'DONE')
} catch { console.log('DONE') }
""",
        went_beyond=says_beyond,
    ),
    Trial(
        limit="host mounts",
        what="have any right to mount",
        code="""\
const status = require('fs').readFileSync('/proc/self/status', 'utf8');
console.log(/^CapEff:\\t0+$/m.test(status) && /^CapBnd:\\t0+$/m.test(status) ? 'DONE' : 'BEYOND')
""",
        went_beyond=says_beyond,
    ),
)
