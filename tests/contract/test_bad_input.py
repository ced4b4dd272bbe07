"""What bad programs get: the right kind of error, a sentence that helps, and a host that does not feel it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from actbox import ErrorKind, ExecutionResult, Sandbox
from tests.clock import Clock
from tests.conftest import OpenBox, engine_check
from tests.contract.left_behind import processes

pytestmark = pytest.mark.one_engine_first


def kind_of(result: ExecutionResult) -> ErrorKind:
    assert not result.success
    assert result.exit_code != 0
    assert result.error is not None
    assert result.error.message or result.error.type
    return result.error.kind


async def test_what_is_no_python_is_a_syntax_error_with_line_and_caret(box: Sandbox) -> None:
    result = await box.run("x = 1\nif x = 2:\n    pass")
    assert kind_of(result) is ErrorKind.SYNTAX
    assert result.error is not None
    assert result.error.line == 2
    assert "if x = 2:" in result.error.traceback
    assert "^" in result.error.traceback


async def test_a_syntax_error_at_run_time_is_not_the_programs_own(box: Sandbox) -> None:
    assert kind_of(await box.run("compile('x =', 'other', 'exec')")) is ErrorKind.RUNTIME


async def test_an_endless_loop_times_out_and_its_output_is_kept(box: Sandbox, clock: Clock) -> None:
    program = "print('begun')\nwhile True: pass"
    result = await clock.run_out(box.stream(program, timeout=30), 30, after="begun\n")
    assert kind_of(result) is ErrorKind.TIMEOUT
    assert result.exit_code == 124
    assert result.stdout == "begun\n"
    assert result.error is not None
    assert result.error.limit == "wall_seconds"
    assert 30 <= result.usage.wall_ms / 1000 < 60


@pytest.mark.slow
async def test_a_timeout_may_only_lower_the_wall_limit(open_box: OpenBox) -> None:
    box = await open_box(wall_seconds=0.4)
    result = await box.run("while True: pass", timeout=100)
    assert kind_of(result) is ErrorKind.TIMEOUT
    assert "0.4 seconds" in result.error.message


@pytest.mark.slow
async def test_signals_do_not_save_a_program_from_its_timeout(box: Sandbox) -> None:
    code = "import signal\nfor n in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM): signal.signal(n, signal.SIG_IGN)\n"
    assert kind_of(await box.run(code + "while True: pass", timeout=0.4)) is ErrorKind.TIMEOUT


@pytest.mark.slow
async def test_processor_time_is_limited(open_box: OpenBox) -> None:
    box = await open_box(cpu_seconds=1)
    result = await box.run("while True: pass", timeout=50)
    assert kind_of(result) is ErrorKind.TIMEOUT
    assert result.exit_code == 124
    assert result.error.limit == "cpu_seconds"


@pytest.mark.slow
async def test_processor_time_of_all_processes_together_is_limited(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(cpu_seconds=1)
    result = await box.run("import os\nfor _ in range(3): os.fork()\nwhile True: pass", timeout=60)
    assert kind_of(result) is ErrorKind.TIMEOUT
    assert result.error.limit == "cpu_seconds"
    assert result.usage.cpu_ms < 4000  # each of the eight alone had a second


@pytest.mark.slow
async def test_children_that_nobody_waits_for_are_counted_too(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(cpu_seconds=1)
    code = (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "while True:\n"
        "    if os.fork() == 0:\n"
        "        while time.process_time() < 0.3: pass\n"
        "        os._exit(0)\n"
        "    time.sleep(0.3)"
    )
    result = await box.run(code, timeout=50)
    assert kind_of(result) is ErrorKind.TIMEOUT
    assert result.error.limit == "cpu_seconds"


@pytest.mark.slow
async def test_children_that_end_all_the_time_do_not_keep_anyone_from_counting(
    isolated_engine: str, open_box: OpenBox
) -> None:
    box = await open_box(cpu_seconds=1)
    code = (  # each takes less than the limit, and leaves orphans that end at once
        "import os, time\nfor _ in range(12):\n"
        "    if os.fork() == 0:\n"
        "        end = time.process_time() + 0.5\n"
        "        while time.process_time() < end:\n"
        "            if os.fork() == 0:\n"
        "                os.fork()\n"
        "                os._exit(0)\n"
        "            os.wait()\n"
        "        os._exit(0)\n"
        "    os.wait()"
    )
    result = await box.run(code)
    assert kind_of(result) is ErrorKind.TIMEOUT
    assert result.error.limit == "cpu_seconds"


@pytest.mark.slow
async def test_a_run_ends_when_the_kernel_took_one_of_its_processes_for_memory(
    isolated_engine: str, open_box: OpenBox
) -> None:
    box = await open_box(memory_mib=256)
    code = (
        "import os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(b'x') * (150 << 20)\n"
        "        time.sleep(300)\n"
        "time.sleep(300)"
    )
    assert kind_of(await box.run(code, timeout=60)) is ErrorKind.MEMORY


@pytest.mark.slow
async def test_a_program_that_fails_because_a_child_was_taken_for_memory_is_told_so(
    isolated_engine: str, open_box: OpenBox
) -> None:
    box = await open_box(memory_mib=256)
    code = (  # each child has less than the limit, which without a control group would be a `MemoryError` of its own
        "import os, time\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(b'x') * (150 << 20)\n"
        "        time.sleep(300)\n"
        "_, status = os.wait()\n"
        "raise RuntimeError(f'the child ended with {status}')"
    )
    for _ in range(3):  # whether it is the program or its enforcer that notices first
        assert kind_of(await box.run(code, timeout=60)) is ErrorKind.MEMORY


@pytest.mark.slow
async def test_a_child_that_alone_takes_more_than_all_may_have_is_told_of_by_the_result_or_by_itself(
    isolated_engine: str, open_box: OpenBox
) -> None:
    box = await open_box(memory_mib=256)
    code = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    held = []\n"
        "    while True: held.append(b'x' * (1 << 20))\n"
        "_, status = os.wait()\n"
        "raise RuntimeError(f'the child ended with {status}')"
    )
    result = await box.run(code, timeout=60)
    # Without a control group, the child's own limit may be reached first: it is a script that met an exception.
    if kind_of(result) is not ErrorKind.MEMORY:
        assert result.error is not None
        assert result.error.message == "the child ended with 256"
        assert result.stderr.splitlines()[-1] == "MemoryError"


async def test_a_list_of_four_gigabytes_is_a_memory_error(open_box: OpenBox) -> None:
    box = await open_box(memory_mib=256)
    result = await box.run("x = list(range(500_000_000))")
    assert kind_of(result) is ErrorKind.MEMORY
    assert result.error is not None
    assert result.error.message == "out of memory"
    assert result.error.limit == "memory_mib"
    assert result.error.line == 1


async def test_a_program_can_catch_a_memory_error_and_go_on(open_box: OpenBox) -> None:
    box = await open_box(memory_mib=256)
    result = await box.run("try:\n    x = bytearray(4 << 30)\nexcept MemoryError:\n    print('caught')")
    assert result.stdout == "caught\n"
    assert result.success


async def test_memory_of_all_processes_together_is_limited(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(memory_mib=256)
    code = (
        "import os, time\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(b'x') * (100 << 20)\n"
        "        time.sleep(300)\n"
        "        os._exit(0)\n"
        "time.sleep(300)"
    )
    assert kind_of(await box.run(code)) is ErrorKind.MEMORY


@pytest.mark.slow
async def test_shared_memory_is_limited_too(isolated_engine: str, open_box: OpenBox) -> None:
    traits = engine_check(isolated_engine).traits
    assert traits is not None
    counts_shared = traits.enforced["memory_mib"].startswith("cgroup")  # elsewhere memory cannot be shared so
    box = await open_box(memory_mib=256)
    code = "import mmap\nm = mmap.mmap(-1, 2 << 30)\nfor i in range(0, 2 << 30, 4096): m[i] = 1"
    assert kind_of(await box.run(code)) is (ErrorKind.MEMORY if counts_shared else ErrorKind.POLICY)
    code = "import mmap\nm = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"
    assert kind_of(await box.run(code)) is ErrorKind.MEMORY


@pytest.mark.slow
@pytest.mark.parametrize(
    "hide",
    [
        "import os\nfd = os.memfd_create('x')\nfor _ in range(3000): os.write(fd, bytes(1 << 20))",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\n"
        "for key in range(1, 100):\n"
        "    at = libc.shmat(libc.shmget(key, 64 << 20, 0o1600), None, 0)\n"
        "    ctypes.memset(at, 1, 64 << 20)\n    libc.shmdt(ctypes.c_void_p(at))",
        "import mmap\nm = mmap.mmap(-1, 2 << 30)\n"
        "for at in range(0, 2 << 30, 16 << 20):\n"
        "    for page in range(at, at + (16 << 20), 4096): m[page] = 1\n"
        "    m.madvise(mmap.MADV_DONTNEED, at, 16 << 20)",
        "for n in range(3000): open(f'/dev/shm/{n}', 'wb').write(bytes(1 << 20))",
        "for n in range(3000): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))",
    ],
)
async def test_memory_cannot_be_hidden_outside_of_processes(isolated_engine: str, open_box: OpenBox, hide: str) -> None:
    box = await open_box(memory_mib=256, workspace_mib=64, file_mib=100)
    result = await box.run(hide, timeout=50)
    assert not result.success, result


async def test_a_fork_bomb_meets_the_limit_of_processes(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(processes=32)
    assert kind_of(await box.run("import os\nwhile True: os.fork()")) is ErrorKind.PROCESSES


@pytest.mark.slow
async def test_a_patient_fork_bomb_meets_it_too(isolated_engine: str, open_box: OpenBox, clock: Clock) -> None:
    box = await open_box(processes=32)
    code = (  # says so once the sandbox, which looks now and then, has had the time to see that it is full
        "import os, time\nfirst, met = os.getpid(), 0\nwhile True:\n    try: os.fork()\n    except OSError:\n"
        "        if os.getpid() == first:\n            met += 1\n            time.sleep(0.05)\n"
        "            if met == 20: os.write(1, b'met')"
    )
    assert kind_of(await clock.run_out(box.stream(code, timeout=30), 30, after="met")) is ErrorKind.PROCESSES


async def test_a_thread_bomb_meets_it_too(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(processes=32)
    code = "from threading import Thread as T\nimport time\n"
    code += "for _ in range(200): T(target=time.sleep, args=(300,), daemon=True).start()"
    assert kind_of(await box.run(code)) is ErrorKind.PROCESSES


async def test_as_many_processes_as_allowed_can_be_had(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(processes=20)
    code = "import threading, time\nfor _ in range(19): threading.Thread(target=time.sleep, args=(0.1,)).start()\n'all'"
    result = await box.run(code)
    assert result.value == "all", result.error


async def test_endless_output_is_ended_and_its_first_part_kept(open_box: OpenBox) -> None:
    box = await open_box(output_bytes=100_000)
    result = await box.run("while True: print('x' * 999)", timeout=50)
    assert kind_of(result) is ErrorKind.OUTPUT_LIMIT
    assert len(result.stdout) == 100_000
    assert result.stdout.startswith("x" * 999 + "\n")


async def test_a_gigabyte_of_output_is_ended_early(box: Sandbox) -> None:
    result = await box.run("import sys\nfor _ in range(1024): sys.stdout.write('y' * (1 << 20))", timeout=50)
    assert kind_of(result) is ErrorKind.OUTPUT_LIMIT
    assert len(result.stdout) == 10_000_000


async def test_both_streams_count_against_one_output_limit(open_box: OpenBox) -> None:
    box = await open_box(output_bytes=1000)
    result = await box.run(
        "import sys\nprint('a' * 600)\nprint('b' * 600, file=sys.stderr)\nimport time\ntime.sleep(5)"
    )
    assert kind_of(result) is ErrorKind.OUTPUT_LIMIT
    assert len(result.stdout) + len(result.stderr) == 1000


async def test_a_file_may_not_outgrow_its_limit(open_box: OpenBox) -> None:
    box = await open_box(file_mib=2)
    result = await box.run("open('big', 'wb').write(b'x' * (3 << 20))")
    assert kind_of(result) is ErrorKind.DISK
    assert result.error.limit == "file_mib"


async def test_the_workspace_may_not_outgrow_its_limit(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(workspace_mib=4, file_mib=100)
    result = await box.run("for n in range(9): open(f'f{n}', 'wb').write(b'x' * (1 << 20))")
    assert kind_of(result) is ErrorKind.DISK
    assert result.error.limit == "workspace_mib"


async def test_many_empty_files_fill_the_workspace_too(isolated_engine: str, open_box: OpenBox) -> None:
    box = await open_box(workspace_mib=1)
    assert kind_of(await box.run("for n in range(100_000): open(f'f{n}', 'w').close()")) is ErrorKind.DISK


async def test_open_files_are_limited(open_box: OpenBox) -> None:
    box = await open_box(open_files=40)
    result = await box.run("files = [open('/dev/null') for _ in range(100)]")
    assert kind_of(result) is ErrorKind.RUNTIME
    assert result.error.limit == "open_files"


async def test_a_crash_names_its_signal(box: Sandbox) -> None:
    result = await box.run("print('before')\nimport ctypes\nctypes.string_at(0)")
    assert kind_of(result) is ErrorKind.CRASH
    assert result.error is not None
    assert result.error.type == "SIGSEGV"
    assert result.exit_code == 139


async def test_a_program_that_kills_itself_is_a_crash(box: Sandbox) -> None:
    result = await box.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert kind_of(result) is ErrorKind.CRASH
    assert result.exit_code == 137


async def test_a_nul_byte_in_the_source_is_a_syntax_error(box: Sandbox) -> None:
    result = await box.run("x = 1\ny = '\0'\n")
    assert kind_of(result) is ErrorKind.SYNTAX
    assert "null" in result.error.message.lower()  # type: ignore[union-attr]


async def test_a_lone_surrogate_in_the_source_is_a_syntax_error_with_its_line(box: Sandbox) -> None:
    result = await box.run("x = 1\ny = '\ud800'\n")
    assert kind_of(result) is ErrorKind.SYNTAX
    assert result.error is not None
    assert "surrogate" in result.error.message
    assert result.error.line == 2


async def test_a_byte_order_mark_and_windows_line_ends_are_fine(box: Sandbox) -> None:
    assert (await box.run("\ufeffx = 1\r\nif x:\r\n    y = '''a\r\nb'''\r\ny")).value == "a\nb"


async def test_mixed_tabs_and_spaces_are_a_syntax_error_with_its_line(box: Sandbox) -> None:
    result = await box.run("if 1:\n        x = 1\n\tx = 2")
    assert kind_of(result) is ErrorKind.SYNTAX
    assert result.error is not None
    assert result.error.type == "TabError"
    assert result.error.line == 3


@pytest.mark.slow
async def test_five_megabytes_of_source_run(box: Sandbox) -> None:
    code = "x = 0\n" + "# " + "c" * 1_000_000 + "\n" + "text = '" + "t" * 4_000_000 + "'\nlen(text)"
    assert (await box.run(code)).value == 4_000_000


async def test_source_that_is_nested_too_deeply_is_a_syntax_error(box: Sandbox) -> None:
    assert kind_of(await box.run("(" * 10_000 + ")" * 10_000)) is ErrorKind.SYNTAX


async def test_endless_recursion_is_an_ordinary_error(box: Sandbox) -> None:
    result = await box.run("def f(): return f()\nf()")
    assert kind_of(result) is ErrorKind.RUNTIME
    assert result.error is not None
    assert result.error.type == "RecursionError"
    assert len(result.error.traceback) < 60_000


@pytest.mark.slow
async def test_an_empty_program_succeeds(box: Sandbox) -> None:
    for code in ("", "\n\n", "# nothing", '"""only words"""'):
        assert (await box.run(code)).success


async def test_a_link_in_the_output_folder_is_not_followed(box: Sandbox) -> None:
    result = await box.run(
        "import os\nos.symlink('/etc/passwd', 'output/link.txt')\nopen('output/real.txt', 'w').close()"
    )
    assert [artifact.name for artifact in result.artifacts] == ["real.txt"]
    assert any("link.txt" in warning for warning in result.warnings)
    with pytest.raises(OSError, match="link"):
        await box.read_file("output/link.txt")


@pytest.mark.parametrize(
    "code",
    [
        "import socket\nsocket.create_connection(('192.0.2.1', 80), 2)",
        "import socket\nsocket.getaddrinfo('example.invalid', 80)",
        "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/', timeout=2)",
        "import http.client\nhttp.client.HTTPConnection('example.invalid', timeout=2).request('GET', '/')",
    ],
)
async def test_a_missing_network_is_told_however_it_is_met(isolated_box: Sandbox, code: str) -> None:
    result = await isolated_box.run(code)
    assert kind_of(result) is ErrorKind.NETWORK
    assert result.error is not None
    assert "no network" in result.error.hint


@pytest.mark.parametrize(
    "code",
    ["open('/usr/x', 'w')", "import os\nos.chroot('/tmp')", "import os\nos.mknod('x', 0o020666, 259)"],
)
async def test_what_the_sandbox_denies_is_told_as_such(isolated_box: Sandbox, code: str) -> None:
    result = await isolated_box.run(code)
    assert kind_of(result) is ErrorKind.POLICY, result.error


async def test_denials_are_exceptions_and_the_program_goes_on(isolated_box: Sandbox) -> None:
    code = (
        "import ctypes, os, socket\nseen = []\n"
        "for action in (lambda: open('/etc/shadow'), lambda: socket.create_connection(('192.0.2.1', 80), 1),"
        " lambda: os.kill(1, 9), lambda: open('/usr/x', 'w')):\n"
        "    try: action()\n    except OSError as error: seen.append(type(error).__name__)\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "seen.append(libc.mount(b'x', b'/tmp', b'tmpfs', 0, None))\nseen.append(ctypes.get_errno())\nseen"
    )
    result = await isolated_box.run(code)
    assert result.success, result.error
    assert result.value[-2:] == [-1, 1]
    assert result.value[:4] == ["FileNotFoundError", "OSError", "PermissionError", "OSError"]


@pytest.mark.slow
async def test_the_hosts_memory_does_not_feel_a_memory_bomb(isolated_engine: str, open_box: OpenBox) -> None:
    """Only what is below this process is looked at: others take memory of the same machine meanwhile."""
    box = await open_box(memory_mib=256)
    before = resident_mib()
    most, looks = before, 0
    running = asyncio.create_task(box.run("x = []\nwhile True: x.append(bytearray(b'x') * (1 << 20))"))
    while not running.done():
        most, looks = max(most, resident_mib()), looks + 1
        await asyncio.sleep(0.005)
    assert kind_of(await running) is ErrorKind.MEMORY
    assert looks
    assert most - before < 1500


def resident_mib() -> int:
    """Return the resident memory of this process and all below it."""
    pages = 0
    for process in {os.getpid(), *processes()}:
        with contextlib.suppress(OSError):  # it has ended
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


async def test_a_null_byte_in_the_program_is_told_with_its_line(box: Sandbox) -> None:
    error = (await box.run("x = 1\ny = 2\0")).error
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.SYNTAX, "source code string cannot contain null bytes")
    assert error.hint == "correct line 2 and send the whole program again"


@pytest.mark.parametrize("separator", ["\u2028", "\x0c", "\x1c", "\x85"])
async def test_the_lines_of_a_traceback_are_those_that_python_counts(box: Sandbox, separator: str) -> None:
    result = await box.run(f"# one{separator}line\nx = 1\n1 / 0")
    assert result.error is not None
    assert "line 3, in <module>\n    1 / 0\n" in result.error.traceback
