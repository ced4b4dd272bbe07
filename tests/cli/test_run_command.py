"""`actbox run`, as a shell sees it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.conftest import run_out
from tests.conftest import engine_check
from tests.waiting import wait_until

pytestmark = pytest.mark.one_engine_first

NEEDED_KEYS = {"stdout", "stderr", "exit_code", "success", "value", "error", "artifacts", "usage", "sandbox"}


def start(*arguments, **options):
    return subprocess.Popen([sys.executable, "-m", "actbox", *arguments], stdin=subprocess.DEVNULL, **options)


def test_both_streams_come_out_where_they_belong_and_the_value_does_not(actbox, on_engine):
    done = actbox("run", *on_engine, "-c", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n41 + 1")
    assert (done.returncode, done.stdout) == (0, b"out\n")
    assert b"err\n" in done.stderr
    assert b"42" not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_exit_code_is_the_programs_own_and_needs_no_explanation(actbox, on_engine):
    done = actbox("run", *on_engine, "-c", "raise SystemExit(7)")
    assert done.returncode == 7
    assert b"EXIT" not in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.slow
def test_an_exception_shows_the_programs_own_frames_on_stderr(actbox, on_engine):
    done = actbox("run", *on_engine, "-c", "def half(x):\n    return 1 / x\nhalf(0)")
    assert done.returncode == 1
    shown = done.stderr.decode()
    assert 'File "program.py", line 3' in shown and 'File "program.py", line 2, in half' in shown
    assert shown.rstrip().endswith("ZeroDivisionError: division by zero")
    assert "actbox/" not in shown


@pytest.mark.slow
def test_a_hint_follows_the_failure(actbox, on_engine):
    done = actbox("run", *on_engine, "-c", "import no_such_package")
    assert done.returncode == 1
    assert done.stderr.decode().rstrip().splitlines()[-1].startswith("hint: no_such_package is not installed")


@pytest.mark.slow
def test_a_timeout_keeps_what_was_printed_and_gives_124(on_engine, tmp_path):
    arguments = ["run", *on_engine, "--timeout", "30", "-c", "print('so far', flush=True)\nwhile True: pass"]
    file = tmp_path / "stdout"
    with file.open("wb") as stdout:
        done = run_out(*arguments, file=file, words=b"so far", stdout=stdout)
    assert (done.returncode, file.read_bytes()) == (124, b"so far\n")
    assert b"after 30 seconds" in done.stderr


@pytest.mark.slow
def test_a_timeout_above_the_default_is_not_cut_by_the_default_cpu_limit(actbox, on_engine):
    code = "import resource\nprint(resource.getrlimit(resource.RLIMIT_CPU)[0])"
    assert int(actbox("run", *on_engine, "--timeout", "300", "-c", code).stdout) >= 300


@pytest.mark.slow
def test_memory_is_bounded_in_mib(actbox, on_engine):
    code = "x = bytearray(400 * 2**20)"
    assert actbox("run", *on_engine, "--memory", "800", "-c", code).returncode == 0
    done = actbox("run", *on_engine, "--memory", "200", "-c", code)
    assert done.returncode != 0
    assert b"MemoryError" in done.stderr or b"MEMORY" in done.stderr


@pytest.mark.slow
def test_a_file_is_run_under_its_own_name(actbox, on_engine, tmp_path):
    (tmp_path / "report.py").write_text("print('ok')\nnope")
    done = actbox("run", *on_engine, str(tmp_path / "report.py"))
    assert done.stdout == b"ok\n"
    assert b'File "report.py", line 2' in done.stderr
    assert str(tmp_path).encode() not in done.stderr


@pytest.mark.slow
def test_a_dash_reads_the_program_from_standard_input(actbox, on_engine):
    assert actbox("run", *on_engine, "-", input=b"print('piped')").stdout == b"piped\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [b"\xef\xbb\xbfprint('\xc3\xa9')", b"print('\xc3\xa9')\r\n", b"# -*- coding: latin-1 -*-\nprint('\xe9')"],
    ids=["byte order mark", "CRLF", "coding comment"],
)
def test_a_file_is_decoded_as_python_would(actbox, on_engine, tmp_path, source):
    (tmp_path / "program.py").write_bytes(source)
    assert actbox("run", *on_engine, str(tmp_path / "program.py")).stdout == "é\n".encode()


@pytest.mark.slow
def test_inputs_are_bound_as_variables(actbox, on_engine):
    done = actbox("run", *on_engine, "--input", "rows=[1, 2]", "--input", 'name="a=b"', "-c", "print(sum(rows), name)")
    assert done.stdout == b"3 a=b\n"


@pytest.mark.slow
def test_mounts_show_what_their_mode_says(actbox, isolated, isolated_engine, tmp_path):
    has_overlays = "overlay" in engine_check(isolated_engine).traits.mounts
    for name in ("shown", "shared", "covered"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").write_text(name)
    code = """
import pathlib
for folder in ("/data/shown", "/data/shared", "/data/covered", "/input/relative"):
    file = pathlib.Path(folder, "data")
    text = file.read_text()
    try:
        file.write_text("changed")
        print(text, "changed")
    except OSError:
        print(text, "kept")
"""
    done = actbox(
        "run", *isolated, "-c", code,
        "--mount", f"{tmp_path}/shown:/data/shown",
        "--mount", f"{tmp_path}/shared:/data/shared:rw",
        "--mount", f"{tmp_path}/covered:/data/covered:{'overlay' if has_overlays else 'ro'}",
        "--mount", f"{tmp_path}/shown:relative:ro",
    )  # fmt: skip
    covered = "covered changed" if has_overlays else "covered kept"
    assert done.stdout.decode().splitlines() == ["shown kept", "shared changed", covered, "shown kept"]
    assert [(tmp_path / name / "data").read_text() for name in ("shown", "shared", "covered")] == [
        "shown",
        "changed",
        "covered",
    ]


@pytest.mark.slow
def test_artifacts_are_saved_and_named(actbox, on_engine, tmp_path):
    code = "import os\nos.makedirs('output/sub')\nopen('output/sub/a.txt', 'w').write('kept')"
    folder = tmp_path / "new" / "folder"
    done = actbox("run", *on_engine, "--output", str(folder), "-c", code)
    assert done.returncode == 0
    assert (folder / "sub" / "a.txt").read_text() == "kept"
    assert f"saved {folder}/sub/a.txt" in done.stderr.decode()


@pytest.mark.slow
def test_artifacts_that_nobody_asked_for_are_mentioned(actbox, on_engine):
    done = actbox("run", *on_engine, "-c", "open('output/a.txt', 'w').write('lost')")
    assert done.returncode == 0
    assert b"a.txt" in done.stderr and b"--output" in done.stderr


@pytest.mark.slow
def test_an_artifact_that_cannot_be_saved_is_said_and_fails_the_command(actbox, on_engine, tmp_path):
    (tmp_path / "a").mkdir()  # where a file should go
    done = actbox("run", *on_engine, "--output", str(tmp_path), "-c", "open('output/a', 'w').write('x')")
    assert done.returncode == 125
    assert b"a could not be saved" in done.stderr


@pytest.mark.slow
def test_an_artifact_does_not_leave_the_folder_through_a_link(actbox, on_engine, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "elsewhere")
    code = "import os\nos.makedirs('output/link')\nopen('output/link/a', 'w').write('x')"
    assert actbox("run", *on_engine, "--output", str(tmp_path / "out"), "-c", code).returncode == 125
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_unisolated_run_says_so(actbox):
    done = actbox("run", "--sandbox", "process", "--allow-unisolated", "-c", "print(1)")
    assert done.stdout == b"1\n"
    warning = "warning: no isolation: a program can read and change whatever its account can ("
    assert warning + "none: programs run as this user on this machine)" in done.stderr.decode()


@pytest.mark.parametrize("engine", ["node", "rtfs"])
def test_a_python_file_is_no_program_of_another_language(actbox, tmp_path, engine):
    (tmp_path / "a.py").write_text("1")
    done = actbox("run", "--sandbox", engine, str(tmp_path / "a.py"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"actbox: the {engine} engine runs " in done.stderr.decode()
    assert done.stderr.decode().endswith("the language of this Program: --language python\n")


# --json


def document(done) -> dict:
    """The one strict JSON document that stdout must be."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    assert done.stdout.count(b"\n") == 1 and done.stdout.endswith(b"\n")
    return json.loads(done.stdout.decode("utf-8", "strict"), parse_constant=refuse)


def test_json_is_one_document_and_nothing_else(actbox, on_engine):
    done = actbox("run", *on_engine, "--json", "-c", "print('hi')\nopen('output/a', 'w').write('x')\n[1, 'two']")
    found = document(done)
    assert set(found) >= NEEDED_KEYS
    assert (found["stdout"], found["value"], found["success"], found["error"]) == ("hi\n", [1, "two"], True, None)
    times = {"wall_ms", "cpu_ms", "queue_ms", "approval_ms", "install_ms"}
    assert set(found["usage"]) == {*times, "max_rss_bytes", "tool_calls", "sent_bytes", "received_bytes"}
    assert [artifact["name"] for artifact in found["artifacts"]] == ["a"]
    assert found["sandbox"] == on_engine[1]
    assert done.stderr == b""


@pytest.mark.slow
def test_json_of_a_failure_has_its_kind_and_keeps_the_exit_code(actbox, on_engine):
    done = actbox("run", *on_engine, "--json", "-c", "print('so far')\n1/0")
    found = document(done)
    assert done.returncode == found["exit_code"] == 1
    assert found["stdout"] == "so far\n"
    assert set(found["error"]) >= {"kind", "type", "message", "line", "traceback", "hint"}
    assert (found["error"]["kind"], found["error"]["line"]) == ("RUNTIME", 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        r"float('nan')",
        r"{'a': [float('inf')]}",
        r"'\ud800'",
        r"import sys; sys.stdout.buffer.write(b'\xff\xed\xa0\x80'); sys.stdout.flush()",
        r"print('a\x00\x1b\u2028')",
    ],
    ids=["nan", "nested infinity", "surrogate value", "bytes that are no UTF-8", "control characters"],
)
def test_json_is_strict_whatever_the_program_made(actbox, on_engine, code):
    done = actbox("run", *on_engine, "--json", "-c", code)
    assert document(done)["exit_code"] == done.returncode


@pytest.mark.slow
def test_json_says_why_there_is_no_sandbox(actbox):
    done = actbox("run", "--sandbox", "process", "--json", "-c", "1")
    found = document(done)
    assert done.returncode == found["exit_code"] == 125
    assert found["error"]["kind"] == "SANDBOX" and not found["success"]


# As it happens


@pytest.mark.slow
def test_output_appears_as_it_is_printed(on_engine):
    running = start("run", *on_engine, "-c", "import time\nprint('first', flush=True)\ntime.sleep(50)", stdout=-1)
    try:
        assert running.stdout.readline() == b"first\n"
        assert running.poll() is None
    finally:
        running.terminate()
        running.communicate(timeout=40)


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_run_quietly(on_engine):
    code = "import time\nwhile True: print('x' * 100, flush=True); time.sleep(0.01)"
    with start("run", *on_engine, "-c", code, stdout=-1, stderr=-1) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(timeout=40) == 128 + 13
        assert b"Traceback" not in running.stderr.read()


def live_children() -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            state, parent = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # no process, or one that has just gone
            continue
        if parent == str(os.getpid()) and state != "Z":
            found.add(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(2, 130), pytest.param(15, 143, marks=pytest.mark.long), pytest.param(1, 129, marks=pytest.mark.long)],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_a_signal_ends_the_run_and_leaves_nothing_behind(on_engine, tmp_path, orphans_come_here, number, exit_code):
    before = live_children()
    code = "import os, time\nif os.fork() == 0: os.setsid()\nprint('up', flush=True)\ntime.sleep(600)"
    options = {"env": {**os.environ, "TMPDIR": str(tmp_path)}, "start_new_session": True}
    running = start("run", *on_engine, "-c", code, stdout=-1, stderr=-1, **options)
    assert running.stdout.readline() == b"up\n"
    running.send_signal(number)
    _, stderr = running.communicate(timeout=40)
    assert running.returncode == exit_code
    assert b"Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []
    wait_until(lambda: live_children() <= before)  # what was killed may be on its way out


@pytest.mark.slow
def test_ctrl_c_works_while_nobody_reads_the_output(on_engine):
    code = "import time\nprint('x' * 1_000_000, flush=True)\ntime.sleep(60)"
    running = start("run", *on_engine, "-c", code, stdout=-1, stderr=-1)
    size = fcntl.fcntl(running.stdout, fcntl.F_GETPIPE_SZ) - 4096  # a page may be left
    wait_until(lambda: int.from_bytes(fcntl.ioctl(running.stdout, termios.FIONREAD, bytes(4)), sys.byteorder) >= size)
    running.send_signal(2)
    assert running.wait(timeout=40) == 130
    running.communicate()


@pytest.fixture
def orphans_come_here():
    """Processes that lose their parent become children of this one, so that none gets away unseen."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    yield
    libc.prctl(36, 0, 0, 0, 0)


# Terminals


def on_terminal(*arguments: str) -> str:
    """What a terminal gets to see."""
    ours, theirs = pty.openpty()
    running = start(*arguments, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        shown += piece
    os.close(ours)
    running.wait(timeout=40)
    return shown.decode().replace("\r\n", "\n")


HOSTILE = r"print('\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\x9b2J')"


@pytest.mark.slow
def test_a_guest_cannot_drive_the_terminal(on_engine):
    shown = on_terminal("run", *on_engine, "-c", HOSTILE)
    assert "\x1b[31mred\x1b[0m ^[]0;title^G ^[[2J\\x9b2J\n" in shown


@pytest.mark.slow
def test_a_guests_error_message_cannot_drive_the_terminal(on_engine):
    shown = on_terminal("run", *on_engine, "-c", r"raise ValueError('\x1b]0;title\x07')")
    assert "ValueError: ^[]0;title^G" in shown and "\x1b]" not in shown


@pytest.mark.slow
def test_what_goes_into_a_file_is_not_changed(actbox, on_engine):
    assert (
        actbox("run", *on_engine, "-c", HOSTILE).stdout
        == "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\x9b2J\n".encode()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--option", "image=x"], "no option 'image'"),
        (["--option", "image"], "NAME=VALUE"),
        (["--sandbox", "auto", "--option", "image=x"], "name the engine"),
    ],
)
def test_an_option_that_the_engine_does_not_have_is_named(actbox, options, said):
    sandbox = [] if "--sandbox" in options else ["--sandbox", "rtfs", "--language", "rtfs"]
    done = actbox("run", "-c", "1", *sandbox, *options)
    assert done.returncode == 2
    assert said in done.stderr.decode()
