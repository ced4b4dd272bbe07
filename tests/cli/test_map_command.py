"""`actbox map`, as a shell sees it."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.conftest import run_out
from tests.cli.test_run_command import live_children, orphans_come_here  # noqa: F401 (a fixture)
from tests.waiting import wait_until

pytestmark = pytest.mark.one_engine_first

RESULT_KEYS = {"id", "stdout", "stderr", "exit_code", "success", "value", "error", "artifacts", "usage", "sandbox"}


def write_lines(path: Path, *lines: object) -> str:
    """Write a JSONL file; a line that is bytes is written as it is."""
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )
    return str(path)


def results_in(path: Path) -> list[dict]:
    """The results of a file in which every line must be whole."""
    text = path.read_bytes()
    assert not text or text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results.jsonl"


def test_every_line_becomes_a_result_with_its_id(actbox, on_engine, tmp_path, out):
    file = write_lines(
        tmp_path / "in.jsonl",
        {"id": "sum", "code": "print('hi')\na + b", "inputs": {"a": 1, "b": 2}, "expected": 3},
        {"id": 7, "code": "1 / 0"},
        {"code": "'no id'"},
    )
    done = actbox("map", file, "--out", str(out), *on_engine)
    assert (done.returncode, done.stdout) == (0, b"")
    results = {result["id"]: result for result in results_in(out)}
    assert set(results) == {"sum", 7, "line 3"}
    assert set(results["sum"]) >= RESULT_KEYS
    assert (results["sum"]["value"], results["sum"]["stdout"]) == (3, "hi\n")
    assert results[7]["error"]["kind"] == "RUNTIME"
    assert results["line 3"]["value"] == "no id"
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("3 programs in ") and "2 succeeded, 1 failed" in last and str(out) in last


@pytest.mark.slow
def test_in_order_the_results_are_the_order_of_the_programs(actbox, on_one_engine, tmp_path, out):
    lines = [{"id": n, "code": f"import time\ntime.sleep({0.5 if n == 0 else 0})"} for n in range(8)]
    done = actbox("map", write_lines(tmp_path / "in", *lines), "--out", str(out), "--ordered", *on_one_engine)
    assert done.returncode == 0
    assert [result["id"] for result in results_in(out)] == list(range(8))


@pytest.mark.long  # nor does what runs them: tests/sandbox/test_parallel.py
def test_as_they_come_a_slow_program_does_not_hold_up_the_next(actbox, on_one_engine, tmp_path, out):
    lines = [{"id": n, "code": f"import time\ntime.sleep({3 if n == 0 else 0})"} for n in range(4)]
    options = ["--concurrency", "2", "--unordered", *on_one_engine]
    assert actbox("map", write_lines(tmp_path / "in", *lines), "--out", str(out), *options).returncode == 0
    assert [result["id"] for result in results_in(out)][-1] == 0


@pytest.mark.slow
def test_a_dash_reads_standard_input(actbox, on_one_engine, out):
    done = actbox(
        "map", "-", "--out", str(out), *on_one_engine, input=b'{"id": 1, "code": "5"}\n\n{"id": 2, "code": "6"}'
    )
    assert done.returncode == 0
    assert {result["id"]: result["value"] for result in results_in(out)} == {1: 5, 2: 6}


@pytest.mark.slow
def test_results_come_while_standard_input_waits(on_one_engine, out):
    with start("-", "--out", str(out), *on_one_engine, stdin=-1) as running:
        running.stdin.write(b'{"id": 1, "code": "5"}\n')
        running.stdin.flush()
        wait_for_lines(out, 1)
        running.stdin.close()
        assert running.wait(timeout=40) == 0


@pytest.mark.slow
def test_no_programs_are_no_error(actbox, on_one_engine, tmp_path, out):
    done = actbox("map", write_lines(tmp_path / "in"), "--out", str(out), *on_one_engine)
    assert (done.returncode, out.read_bytes()) == (0, b"")


@pytest.mark.slow
def test_timeouts_hold_for_each_program_and_a_line_may_say_less(on_engine, tmp_path, out):
    endless = "while True: pass"
    lines = [{"id": 1, "code": endless, "timeout": 20.5}, {"id": 2, "code": endless}, {"id": 3, "code": "1"}]
    arguments = [write_lines(tmp_path / "in", *lines), "--out", str(out), "--timeout", "30", "--concurrency", "3"]
    done = run_out("map", *arguments, *on_engine, file=out, words=b'"id": 3')
    assert done.returncode == 0
    results = {result["id"]: result for result in results_in(out)}
    assert "20.5 seconds" in results[1]["error"]["message"]
    assert "after 30 seconds" in results[2]["error"]["message"]
    assert results[3]["value"] == 1


BAD_LINES = {
    "no JSON": (b"{", "line 2", "not JSON"),
    "NaN": (b'{"id": "x", "code": "1", "inputs": {"a": NaN}}', "line 2", "NaN"),
    "nested too deep": (b"[" * 100_000, "line 2", "not JSON"),
    "no UTF-8": (b'{"code": "\xff"}', "line 2", "UTF-8"),
    "no object": (b"[1]", "line 2", "object"),
    "no code": (b'{"id": "x"}', "x", "no code"),
    "code that is no text": (b'{"id": "x", "code": 1}', "x", "not text"),
    "an id that is a list": (b'{"id": [1], "code": "1"}', "line 2", "id"),
    "an id that is a truth value": (b'{"id": true, "code": "1"}', "line 2", "id"),
    "an id that is half a character": (b'{"id": "\\ud800", "code": "1"}', "line 2", "id"),
    "inputs that are a list": (b'{"id": "x", "code": "1", "inputs": [1]}', "x", "inputs"),
    "an input that is no name": (b'{"id": "x", "code": "1", "inputs": {"2x": 1}}', "x", "2x"),
    "a timeout that is text": (b'{"id": "x", "code": "1", "timeout": "5"}', "x", "timeout"),
    "a timeout of nothing": (b'{"id": "x", "code": "1", "timeout": 0}', "x", "timeout"),
}


@pytest.mark.slow
def test_lines_that_make_no_sense_fail_in_their_place_and_stop_nothing(actbox, on_one_engine, tmp_path, out):
    lines, expected = [{"id": 0, "code": "0"}], {}
    for number, (line, identity, named) in zip(itertools.count(2, 2), BAD_LINES.values()):
        own = f"line {number}" if identity == "line 2" else f"x{number}"
        expected[own] = (f"line {number}", named)
        lines += [line.replace(b'"x"', f'"x{number}"'.encode()), {"id": number, "code": f"{number}"}]
    done = actbox("map", write_lines(tmp_path / "in.jsonl", *lines), "--out", str(out), *on_one_engine)
    assert done.returncode == 1
    assert f"{len(BAD_LINES)} could not be run as given".encode() in done.stderr
    results = {result["id"]: result for result in results_in(out)}
    assert len(results) == len(lines)
    for identity, result in results.items():
        if identity in expected:
            assert (result["error"]["kind"], result["exit_code"]) == ("UNSUPPORTED", 125)
            assert all(word in result["error"]["message"] for word in expected[identity]), (identity, result)
        else:
            assert result["value"] == identity


@pytest.mark.slow
def test_of_two_lines_with_one_id_the_second_fails_in_its_place_and_the_rest_runs(actbox, on_one_engine, tmp_path, out):
    lines = [
        {"id": "a", "code": "1"},
        b"",
        {"id": "b", "code": "2"},
        {"id": "a", "code": "3"},
        {"id": "c", "code": "4"},
    ]
    done = actbox("map", write_lines(tmp_path / "in", *lines), "--out", str(out), *on_one_engine)
    assert done.returncode == 1
    results = {result["id"]: result for result in results_in(out)}
    assert {name: result["value"] for name, result in results.items()} == {"a": 1, "b": 2, "line 4": None, "c": 4}
    assert 'line 1 has the same id, "a"' in results["line 4"]["error"]["message"]


@pytest.mark.slow
def test_a_number_and_the_same_digits_as_text_are_two_ids(actbox, on_one_engine, tmp_path, out):
    file = write_lines(tmp_path / "in", {"id": 1, "code": "1"}, {"id": "1", "code": "2"})
    assert actbox("map", file, "--out", str(out), *on_one_engine).returncode == 0
    assert [type(result["id"]) for result in sorted(results_in(out), key=lambda found: found["value"])] == [int, str]


@pytest.mark.slow
def test_a_bad_programs_end_is_its_own(actbox, on_engine, tmp_path, out):
    codes = ["import os\nos.kill(os.getpid(), 9)", "raise SystemExit(3)", "syntax error", "1"]
    lines = [{"id": n, "code": codes[n % 4]} for n in range(40)]
    done = actbox("map", write_lines(tmp_path / "in", *lines), "--out", str(out), *on_engine)
    assert done.returncode == 0
    results = results_in(out)
    assert sorted(result["id"] for result in results) == list(range(40))
    assert Counter(result["exit_code"] for result in results) == {137: 10, 3: 10, 1: 10, 0: 10}


@pytest.mark.slow
def test_a_program_that_the_sandbox_fails_has_its_line_and_the_exit_code_says_so(tmp_path, out):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    options = ["--sandbox", "process", "--allow-unisolated"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with start("-", "--out", str(out), *options, stdin=-1, env=environment) as running:
        running.stdin.write(b'{"id": 1, "code": "1"}\n')
        running.stdin.flush()
        wait_for_lines(out, 1)
        # So that there is no room for a further workspace; at once, as the sandbox may be removing the first one.
        temporary.rename(tmp_path / "elsewhere")
        _, stderr = running.communicate(b'{"id": 2, "code": "2"}\n', timeout=40)
    assert running.returncode == 125
    assert b"1 failed by the sandbox" in stderr
    assert [(result["id"], result["success"]) for result in results_in(out)] == [(1, True), (2, False)]
    assert results_in(out)[1]["error"]["kind"] == "SANDBOX"


# The file of results


def whole_line(identity) -> dict:
    return {"id": identity, "exit_code": 0}


def test_results_are_never_overwritten(actbox, on_one_engine, tmp_path, out):
    out.write_text("mine\n")
    done = actbox("map", write_lines(tmp_path / "in", {"code": "1"}), "--out", str(out), *on_one_engine)
    assert done.returncode == 2
    assert b"is not empty" in done.stderr and b"--resume" in done.stderr
    assert out.read_text() == "mine\n"


@pytest.mark.slow
def test_resume_runs_what_is_not_there_yet(actbox, on_one_engine, tmp_path, out):
    file = write_lines(tmp_path / "in", *({"id": name, "code": "1"} for name in ("a", "b", "c")))
    write_lines(out, whole_line("b"))
    done = actbox("map", file, "--out", str(out), "--resume", *on_one_engine)
    assert done.returncode == 0
    assert b"2 programs in" in done.stderr and b"1 were done before" in done.stderr
    results = results_in(out)
    assert results[0] == whole_line("b")
    assert sorted(result["id"] for result in results) == ["a", "b", "c"]


@pytest.mark.slow
def test_resume_of_nothing_is_a_beginning(actbox, on_one_engine, tmp_path, out):
    file = write_lines(tmp_path / "in", {"id": 1, "code": "1"})
    assert actbox("map", file, "--out", str(out), "--resume", *on_one_engine).returncode == 0
    assert len(results_in(out)) == 1
    assert actbox("map", file, "--out", str(out), "--resume", *on_one_engine).returncode == 0
    assert len(results_in(out)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "torn",
    [
        b'{"id": 2, "exit_co',
        *(pytest.param(torn, marks=pytest.mark.long) for torn in (b"\0\0\0", b'{"id": 2')),
    ],
)
def test_a_torn_last_line_is_cut_off_and_its_program_runs_again(actbox, on_one_engine, tmp_path, out, torn):
    file = write_lines(tmp_path / "in", {"id": 1, "code": "1"}, {"id": 2, "code": "2"})
    write_lines(out, whole_line(1))
    out.write_bytes(out.read_bytes() + torn)
    done = actbox("map", file, "--out", str(out), "--resume", *on_one_engine)
    assert done.returncode == 0
    assert b"warning: the last line of" in done.stderr and b"torn" in done.stderr
    assert [result["id"] for result in results_in(out)] == [1, 2]


@pytest.mark.slow
def test_a_last_line_that_lacks_only_its_newline_is_kept(actbox, on_one_engine, tmp_path, out):
    file = write_lines(tmp_path / "in", {"id": 1, "code": "1"}, {"id": 2, "code": "2"})
    out.write_text(json.dumps(whole_line(1)))
    done = actbox("map", file, "--out", str(out), "--resume", *on_one_engine)
    assert done.returncode == 0 and b"torn" not in done.stderr
    assert results_in(out)[0] == whole_line(1) and len(results_in(out)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"nonsense", b"[1]", b'{"id": 1}', b'{"id": null, "exit_code": 0}'])
def test_a_damaged_line_before_the_end_is_named_and_nothing_is_changed(actbox, on_one_engine, tmp_path, out, damage):
    write_lines(out, whole_line("a"), damage, whole_line("b"))
    before = out.read_bytes()
    done = actbox("map", write_lines(tmp_path / "in", {"code": "1"}), "--out", str(out), "--resume", *on_one_engine)
    assert done.returncode == 2
    assert b"line 2, is damaged" in done.stderr
    assert out.read_bytes() == before


@pytest.mark.slow
def test_a_full_disk_is_said_and_ends_the_command(actbox, on_one_engine, tmp_path):
    file = write_lines(tmp_path / "in", *({"id": n, "code": "1"} for n in range(5)))
    done = actbox("map", file, "--out", "/dev/full", *on_one_engine)
    assert done.returncode == 125
    said = done.stderr.decode()
    assert "cannot write to /dev/full: No space left on device" in said
    assert "hint: " in said and "Traceback" not in said


def test_what_a_full_disk_cut_is_taken_back(out, monkeypatch):
    import resource

    from actbox.cli.results_file import CannotWrite, ResultsFile

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ResultsFile(out, resume=False) as results:
        results.write(1, {"exit_code": 0})
        size = out.stat().st_size
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
            with pytest.raises(CannotWrite, match="File too large"):
                results.write(2, {"exit_code": 0, "stdout": "x" * 1000})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert out.stat().st_size == size
        results.write(3, {"exit_code": 0})
    assert [result["id"] for result in results_in(out)] == [1, 3]


@pytest.mark.slow
def test_two_commands_do_not_write_to_one_file(actbox, on_one_engine, out):
    with start("-", "--out", str(out), *on_one_engine, stdin=-1) as running:
        running.stdin.write(b'{"id": 1, "code": "5"}\n')
        running.stdin.flush()
        wait_for_lines(out, 1)
        done = actbox("map", "-", "--out", str(out), "--resume", *on_one_engine)
        assert done.returncode == 2 and b"another actbox" in done.stderr
        running.stdin.close()
        assert running.wait(timeout=40) == 0


# Ends before the end


def start(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "actbox", "map", *arguments]
    return subprocess.Popen(command, **{"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, **options})


def wait_for_lines(path: Path, count: int) -> None:
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= count)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "exit_code", "order"),
    [
        (signal.SIGINT, 130, "--ordered"),
        pytest.param(signal.SIGTERM, 143, "--unordered", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 130, "--unordered", marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 143, "--ordered", marks=pytest.mark.long),
    ],
)
def test_a_signal_loses_nothing_that_was_done_and_resume_runs_the_rest(
    actbox, on_engine, tmp_path, out, orphans_come_here, number, exit_code, order  # noqa: F811
):  # fmt: skip
    before = live_children()
    lines = [{"id": n, "code": "1"} for n in range(60)]
    long = [{"id": n, "code": "import time\ntime.sleep(600)"} for n in range(10, 60)]
    file = write_lines(tmp_path / "in", *lines[:10], *long)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with start(file, "--out", str(out), order, *on_engine, env=environment, start_new_session=True) as running:
        wait_for_lines(out, 5)
        running.send_signal(number)
        _, stderr = running.communicate(timeout=40)
    said = stderr.decode()
    assert running.returncode == exit_code
    assert "Traceback" not in said
    done = results_in(out)
    assert 5 <= len(done) < 60
    assert f"interrupted: {len(done)} programs done" in said and "--resume" in said
    assert all(result["success"] for result in done)
    assert list(temporary.iterdir()) == []
    wait_until(lambda: live_children() <= before)  # what was killed may be on its way out
    file = write_lines(tmp_path / "in", *lines)
    assert actbox("map", file, "--out", str(out), "--resume", *on_engine).returncode == 0
    assert sorted(result["id"] for result in results_in(out)) == list(range(60))


@pytest.mark.long  # another way to interrupt it is tried below
def test_in_order_ctrl_c_keeps_what_still_waited_for_its_turn(on_one_engine, out):
    lines = [{"id": 0, "code": "import time\ntime.sleep(600)"}, *({"id": n, "code": "1"} for n in range(1, 10))]
    with start("-", "--out", str(out), "--ordered", "--concurrency", "2", *on_one_engine, stdin=-1) as running:
        for line in lines:  # each is longer than what is read, or held by the pipe, ahead of the programs that run
            running.stdin.write(json.dumps({**line, "inputs": {"padding": "x" * 2**19}}).encode() + b"\n")
        running.stdin.flush()  # as nearly all of it was read, several programs have ended
        assert out.read_bytes() == b""
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=40)
    done = [result["id"] for result in results_in(out)]
    assert running.returncode == 130
    assert done == sorted(done) and done and 0 not in done


@pytest.mark.slow
def test_a_killed_command_is_resumed_without_loss_or_double(actbox, on_engine, tmp_path, out):
    file = write_lines(tmp_path / "in", *({"id": n, "code": f"'x' * 100000 + str({n})"} for n in range(60)))
    for wanted in (3, 20):
        with start(file, "--out", str(out), "--resume", *on_engine, start_new_session=True) as running:
            wait_for_lines(out, wanted)
            running.kill()
    assert actbox("map", file, "--out", str(out), "--resume", *on_engine).returncode == 0
    assert sorted(result["id"] for result in results_in(out)) == list(range(60))


# On a terminal


@pytest.mark.slow
def test_a_terminal_shows_how_far_it_is(on_one_engine, tmp_path, out):
    file = write_lines(tmp_path / "in", *({"id": n, "code": "1 / 0" if n < 2 else "1"} for n in range(10)))
    write_lines(out, whole_line(9))
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    running = start(file, "--out", str(out), "--resume", *on_one_engine, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        shown += piece
    os.close(ours)
    assert running.wait(timeout=40) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "9/9" in text and "/s" in text and "2 failed" in text
    assert "9 programs in" in text
