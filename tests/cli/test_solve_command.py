"""`actbox solve`: tasks, models by replies and by profile, checks, what is shown and written, and how it ends."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actbox.cli.app import run_app
from actbox.cli.attempts_view import AttemptsView
from actbox.cli.errors import UsageError
from actbox.cli.solve_request import check_from, replies_from
from actbox.codegen.outcome import Outcome
from actbox.codegen.task import SchemaCheck, TextCheck
from actbox.core.result import Artifact, ExecutionResult
from tests.conftest import engine_check
from tests.integrations.model_wires import ChatCompletions, Reply, serving
from tests.waiting import wait_until

READ = 'import csv\nrows = list(csv.DictReader(open("input/sales.csv")))\ntotal = dict.fromkeys({"N", "S"}, 0)\n'
FAILS = f'{READ}for row in rows:\n    total[row["regio"]] += int(row["amount"])\ntotal'
WRONG = f'{READ}for row in rows:\n    total[row["region"]] = int(row["amount"])\ntotal'
RIGHT = (
    f'{READ}for row in rows:\n    total[row["region"]] += int(row["amount"])\n'
    'for name in ("total.txt", "other.txt"):\n    open(f"output/{name}", "w").write(str(total["N"]))\ntotal'
)
CHECK = 'def check(result):\n    return result.value == {"N": 15, "S": 20} or f"wrong totals: {result.value}"\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory of its own, with an input, a check and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("region,amount\nN,10\nS,20\nN,5\n")
    (tmp_path / "check.py").write_text(CHECK)
    return tmp_path


def replies(*programs: str) -> list[str]:
    """The option that replays these programs."""
    Path("replies.txt").write_text("---\n".join(f"Words.\n\n```python\n{program}\n```\n" for program in programs))
    return ["--replies", "replies.txt"]


SALES = ("total by region", "--input", "sales.csv", "--check", "check.py")


@pytest.mark.slow
def test_a_program_is_refined_until_it_passes_its_check(here, capfd, on_one_engine):
    given = replies(FAILS, WRONG, RIGHT)
    assert run_app(["solve", *SALES, "--output", "total.txt", "--budget-usd", "1", *given, *on_one_engine]) == 0
    out, err = capfd.readouterr()
    for shown in (
        "attempt 1",
        "runtime error in line 5: KeyError: 'regio'",
        '-    total[row["regio"]] += int(row["amount"])',
        '+    total[row["region"]] = int(row["amount"])',
        "check failed",
        "✗ check: wrong totals: {",
        "✓ check: passed",
        "$0 so far",
        "solved",
        "3 attempts, 3 model calls",
    ):
        assert shown in out
    assert (here / "total.txt").read_text() == "15"
    assert not (here / "other.txt").exists() and "hint: not saved: other.txt" in err


@pytest.mark.slow
def test_all_files_and_the_program_go_into_a_directory_that_is_named(here, on_one_engine):
    assert run_app(["solve", *SALES, "--save", "out", *replies(RIGHT), *on_one_engine]) == 0
    assert sorted(path.name for path in (here / "out").iterdir()) == ["other.txt", "program.py", "total.txt"]


@pytest.mark.slow
def test_a_file_that_cannot_be_saved_is_said_and_fails_the_command(here, capfd, on_one_engine):
    (here / "total.txt").mkdir()
    assert run_app(["solve", *SALES, "--output", "total.txt", *replies(RIGHT), *on_one_engine]) == 125
    assert "warning: total.txt could not be saved" in capfd.readouterr().err


@pytest.mark.slow
def test_a_task_that_is_not_solved_gives_1_and_all_attempts_as_json_and_as_a_page(here, capfd, on_one_engine):
    given = [*replies(FAILS, WRONG), "--attempts", "2", "--json", "--html", "page.html"]
    assert run_app(["solve", *SALES, *given, *on_one_engine]) == 1
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert (found["solved"], found["stopped"], found["saved"]) == (False, "attempts", [])
    assert [one["error_class"] for one in found["attempts"]] == ["runtime_error", "check_failed"]
    assert [one["code"].strip() for one in found["attempts"]] == [FAILS, WRONG]
    assert found["attempts"][1]["result"]["success"] and not found["attempts"][1]["checks"][0]["passed"]
    page = (here / "page.html").read_text()
    assert "attempt 2 · check failed" in page and "Not solved after 2 attempts" in page


@pytest.mark.slow
def test_several_goals_are_cells_that_keep_their_variables(here, capfd, on_one_engine):
    if not engine_check(on_one_engine[1]).traits.fork:
        pytest.skip(f"{on_one_engine[1]} copies no sessions")
    given = replies("x = 20\nx", "1 / 0", "y = x + 1\ny", "y * 2")
    assert run_app(["solve", "x is 20", "one more", "twice that", "--json", *given, *on_one_engine]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["answer"] == 42 and found["goals"] == ["x is 20", "one more", "twice that"]
    assert [one["goal"] for one in found["attempts"]] == [1, 2, 2, 3]


@pytest.mark.slow
def test_of_several_candidates_one_is_chosen(here, capfd, on_one_engine):
    assert run_app(["solve", "the answer", "--best-of", "3", *replies("42", "41", "42"), *on_one_engine]) == 0
    out = capfd.readouterr().out
    assert "candidate 3, attempt 1" in out and "is chosen: 2 of 3 candidates agree" in out


@pytest.mark.slow
def test_models_programs_and_checks_cannot_drive_the_terminal(here, capfd, on_one_engine):
    Path("check.py").write_text("def check(result):\n    return '\\x1b]0;check\\x07'\n")
    program = "# \x1b]0;code\x07\nprint('\\x1b]0;printed\\x07', end='')\nraise ValueError('\\x1b]0;raised\\x07')"
    text = f"\x1b]0;words\x07\n```python\n{program}\n```\n---\n```python\n{program[: program.index('raise')]}\n```\n"
    Path("replies.txt").write_text(text)
    given = ["--attempts", "2", "--check", "check.py", "--replies", "replies.txt"]
    assert run_app(["solve", "do it", *given, *on_one_engine]) == 1
    out = capfd.readouterr().out
    assert all(word in out for word in ("words", "code", "printed", "raised", "check"))
    assert "\x1b]" not in out


@pytest.mark.slow
def test_a_budget_of_nothing_asks_no_model(here, capfd, on_one_engine):
    assert run_app(["solve", "x", "--budget-usd", "0", *replies("1"), *on_one_engine]) == 1
    out = capfd.readouterr().out
    assert "It stopped by budget" in out and "0 attempts, 0 model calls" in out


@pytest.mark.slow
def test_a_profile_writes_at_its_price_and_reads_the_program_of_the_goal_before(here, capfd, on_one_engine):
    wire = ChatCompletions(key=None)
    goals, texts = ("the answer", "half of it"), ("answer = 6 * 7\nanswer", "answer = 42\nanswer / 2")
    with serving(wire, [Reply(f"```python\n{text}\n```") for text in texts]) as provider:
        Path("agent_config.toml").write_text(
            '[coding_agents]\ndefault = "local"\n[[coding_agents.profiles]]\nname = "local"\nprovider = "openai"\n'
            f'model = "qwen3"\nbase_url = "{provider.base_url}"\ninput_usd = 1\noutput_usd = 1000\n'
        )
        assert run_app(["solve", *goals, "--profile", "local", "--budget-usd", "5", "--json", *on_one_engine]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["answer"] == 21 and found["usage"]["usd"] > 0
    if engine_check(on_one_engine[1]).traits.fork:
        asked = provider.requests[1].body["messages"][-1]["content"]
        assert "half of it" in asked and "Cell 1: the answer\n\n```python\nanswer = 6 * 7" in asked


@pytest.mark.slow
def test_a_program_that_nothing_runs_is_saved_and_said_not_to_be_run(here, capfd, on_one_engine):
    Path("replies.txt").write_text("```rust\nfn main() {}\n```\n")
    given = ["--language", "rust", "--replies", "replies.txt", "--save", "out"]
    assert run_app(["solve", "nothing", *given, *on_one_engine]) == 1
    assert "no engine here runs rust" in capfd.readouterr().out
    assert (here / "out" / "program.rs").read_text().strip() == "fn main() {}"


@pytest.mark.slow
def test_a_sandbox_that_cannot_be_opened_gives_125_and_a_document(here, capfd):
    assert run_app(["solve", "x", "--json", "--sandbox", "process", *replies("1")]) == 125
    found = json.loads(capfd.readouterr().out)
    assert (found["stopped"], found["attempts"]) == ("sandbox", []) and "--allow-unisolated" in found["reason"]


@pytest.mark.slow
def test_ctrl_c_shows_and_writes_the_attempts_so_far(here, on_one_engine):
    given = replies("1 / 0", "print('up', flush=True)\nimport time\ntime.sleep(600)")
    (here / "tmp").mkdir()
    with (here / "out").open("wb") as written:
        running = subprocess.Popen(
            [sys.executable, "-m", "actbox", "solve", "x", *given, *on_one_engine, "--html", "page.html"],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(here / "tmp")},
            start_new_session=True,
        )
    wait_until(lambda: b"\nup\n" in (here / "out").read_bytes())
    running.send_signal(2)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130 and b"Traceback" not in err
    out = (here / "out").read_text()
    assert "It stopped by cancelled: it was interrupted" in out and "2 attempts, 2 model calls" in out
    assert "ZeroDivisionError" in (here / "page.html").read_text()
    assert list((here / "tmp").iterdir()) == []


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("terminal", ["xterm-kitty", "xterm"])
def test_a_chart_is_shown_by_a_terminal_that_can_and_named_by_others(monkeypatch, terminal):
    for name in ("TMUX", "TERM_PROGRAM", "KITTY_WINDOW_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", terminal)
    written = io.StringIO()
    outcome = Outcome(solved=True, stopped="solved", artifacts=(Artifact("chart.png", png()),))
    AttemptsView(Console(file=written, force_terminal=True)).conclude(outcome, [Path("chart.png")])
    assert ("\x1b_G" in written.getvalue()) == (terminal == "xterm-kitty")
    assert "chart.png" in written.getvalue()


# The command line


def test_a_file_is_the_check_that_its_content_says(here):
    function = check_from(Path("check.py"))
    assert callable(function) and function(ExecutionResult(value={"N": 15, "S": 20})) is True
    for name, text, kind in (
        ("test_it.py", "def test_one():\n    assert answer == 1\n", "pytest"),
        ("examples.py", '"""\n>>> answer\n1\n"""\n', "doctest"),
        ("examples.md", ">>> answer\n1\n", "doctest"),
    ):
        Path(name).write_text(text)
        found = check_from(Path(name))
        assert isinstance(found, TextCheck) and (found.kind, found.written_by) == (kind, "caller")
    Path("schema.json").write_text('{"type": "integer"}')
    assert check_from(Path("schema.json")) == SchemaCheck({"type": "integer"})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.py", "x = 1\n", "this file has no check"),
        ("a.py", "def check(:\n", "no Python"),
        ("a.py", "def check(r): ...\ndef test_a(): ...\n", "both check() and tests"),
        ("a.py", "import nothere\ndef check(r): ...\n", "ModuleNotFoundError: No module named 'nothere'"),
        ("a.py", "raise SystemExit(3)\ndef check(r): ...\n", "SystemExit: 3"),
        ("a.json", "{", "no JSON Schema"),
        ("a.json", "[]", "no JSON Schema"),
        ("a.txt", "words", "this file has no check"),
    ],
)
def test_a_file_that_is_no_check_is_an_error_of_use(here, name, text, said):
    Path(name).write_text(text)
    with pytest.raises(UsageError) as caught:
        check_from(Path(name))
    assert said in str(caught.value)


def test_replies_are_separated_by_lines(here):
    Path("replies.txt").write_text("one\n--- no line\n---\n\n---\nthree\n---\n")
    assert replies_from(Path("replies.txt")) == ["one\n--- no line\n", "\n", "three\n"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no model is given to write the programs"),
        (["--model", "openai:x", "--profile", "y"], "--model and --profile are given together"),
        (["--base-url", "http://127.0.0.1:1/v1"], "there is no --model"),
        (["--profile", "y"], "there is neither agent_config.toml nor config/agent_config.toml here"),
        (["--replies", "nothere"], "--replies nothere: No such file or directory"),
        (["--replies", "sales.csv", "--input", "nothere.csv"], "--input: 'nothere.csv': nothere.csv cannot be read"),
        (["--replies", "sales.csv", "--input", "sales.csv", "--input", "/tmp/sales.csv"], "another input of the name"),
        (["--replies", "sales.csv", "--input", "."], "is a directory; give its files"),
        (["--replies", "sales.csv", "--output", "../x"], "--output: '../x' is no path below /output"),
        (["--replies", "sales.csv", "--best-of", "0"], "--best-of is a number from 1"),
        (["--replies", "sales.csv", "--attempts", "0"], "--attempts is a whole number from 1"),
        (["--replies", "sales.csv", "--budget-usd=-1"], "--budget-usd is a number from 0"),
        (["--replies", "sales.csv", "--retry-policy", "nothere.yaml"], "nothere.yaml"),
        (["--replies", "sales.csv", "--html", "sales.csv"], "this is one of the files to read"),
        (["--replies", "sales.csv", "--html", "check.py"], "not an HTML page"),
        (["--replies", "sales.csv", "--html", "nothere/page.html"], "its directory does not exist"),
        (["--replies", "sales.csv", "--html", "-", "--json"], "--html - and --json"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_before_anything_is_asked(here, capfd, arguments, said):
    assert run_app(["solve", "x", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == "" and said in err and "Traceback" not in err


@pytest.mark.slow
def test_a_price_that_nobody_knows_is_asked_for_by_its_option(here, capfd, on_one_engine):
    given = ["--model", "openai-chat:x", "--base-url", "http://127.0.0.1:9/v1", "--budget-usd", "1"]
    assert run_app(["solve", "x", *given, *on_one_engine]) == 2
    err = capfd.readouterr().err
    assert 'give --prices FILE, with input and output in its table [models."openai-chat:x"]' in err


@pytest.mark.slow
def test_the_only_attempt_and_the_only_reply_are_said_in_the_singular(here, capfd, on_one_engine):
    assert run_app(["solve", *SALES, "--attempts", "1", *replies(FAILS), *on_one_engine]) == 1
    assert "the only attempt failed with runtime_error" in capfd.readouterr().out
    assert run_app(["solve", *SALES, *replies(FAILS), *on_one_engine]) == 1
    assert "It stopped by model: the scripted model has only 1 reply" in capfd.readouterr().out


def test_the_help_shows_the_table_of_prices(capfd):
    assert run_app(["solve", "--help"]) == 0
    assert '[models."PROVIDER:NAME"]' in " ".join(capfd.readouterr().out.split())
