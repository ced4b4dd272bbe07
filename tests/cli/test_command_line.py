"""The edge of the command line: errors of use are one sentence and a hint, and nothing is loaded for nothing."""

from __future__ import annotations

import importlib.util
import inspect
import json
import subprocess
import sys

import pytest

import actbox as actbox_library
from actbox import ENGINES, SandboxUnavailable
from actbox._version import SUMMARY, __version__
from actbox.cli.app import app, run_app
from actbox.cli.errors import exit_status, in_flags
from actbox.sandbox.registry import Engine
from actbox.sandbox.traits import EngineCheck


@pytest.mark.slow
def test_the_version_is_said(actbox):
    done = actbox("--version")
    assert (done.returncode, done.stdout.decode().strip()) == (0, f"actbox {__version__}\n{SUMMARY}")


@pytest.mark.slow
def test_without_arguments_the_commands_are_shown(actbox):
    done = actbox()
    assert done.returncode == 0
    assert all(name in done.stdout for name in (b"run", b"map", b"doctor", b"demo"))


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 1), (255, 255), (256, 1), (259, 3), (-1, 255), (-256, 1)])
def test_a_result_that_failed_is_never_reported_as_a_success(code, status):
    assert exit_status(code) == status


@pytest.mark.slow
def test_the_version_loads_no_engine_and_no_table_drawing():
    code = (
        "import sys; sys.argv = ['actbox', '--version']\n"
        "from actbox.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "late = ('actbox.sandbox.engines.', 'rich.', 'actbox.cli.doctor')\n"
        "print([name for name in sys.modules if name.startswith(late)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == b"[]"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["rum"], "'rum'"),
        (["run", "--nope", "-c", "1"], "--nope"),
        (["run"], "no program is given"),
        (["run", "a.py", "-c", "1"], "both a file and -c"),
        (["run", "no/such/file.py"], "no/such/file.py"),
        (["run", "/"], "/"),
        (["run", "-c", "1", "--timeout", "soon"], "--timeout"),
        (["run", "-c", "1", "--timeout", "0"], "--timeout"),
        (["run", "-c", "1", "--timeout", "nan"], "--timeout"),
        (["run", "-c", "1", "--timeout", "inf"], "--timeout"),
        (["run", "-c", "1", "--memory", "-5"], "--memory"),
        (["run", "-c", "1", "--memory", "1.5"], "--memory"),
        (["run", "-c", "1", "--input", "rows"], "rows"),
        (["run", "-c", "1", "--input", "2x=1"], "2x"),
        (["run", "-c", "1", "--input", "class=1"], "class"),
        (["run", "-c", "1", "--input", "rows=[1,"], "rows"),
        (["run", "-c", "1", "--input", "rows=NaN"], "rows"),
        (["run", "-c", "1", "--input", "rows=1", "--input", "rows=2"], "rows"),
        (["run", "-c", "1", "--input", "rows=" + "[" * 100_000], "rows"),
        (["run", "-c", "1", "--mount", "data"], "data"),
        (["run", "-c", "1", "--mount", "/:"], "/:"),
        (["run", "-c", "1", "--mount", "/no/such/folder:/data"], "/no/such/folder"),
        (["run", "-c", "1", "--mount", "/usr:/data:wr"], "'wr'"),
        (["run", "-c", "1", "--mount", "/usr:/etc/data"], "/etc/data"),
        (["run", "-c", "1", "--mount", "/proc:/data"], "/proc cannot be mounted"),
        (["run", "-c", "1", "--mount", "/usr:/a", "--mount", "/usr:/a"], "/a"),
        (["run", "-c", "1", "--output", "/dev/null/x"], "/dev/null/x"),
        (["run", "-c", "1", "--sandbox", "nope"], "nope"),
        (["run", "-c", "1", "--sandbox", "process", "--allow-unisolated", "--option", "a=1"], "has no option 'a'"),
        (["run", "-c", "1", "--option", "image=a"], "name the engine"),
        (["run", "-c", "1", "--sandbox", "ssh", "--allow-unisolated"], "named: --option host=user@host"),
        (["map"], "FILE"),
        (["map", "programs.jsonl"], "--out"),
        (["map", "no/such/file", "--out", "/dev/null"], "no/such/file"),
        (["map", "/", "--out", "/dev/null"], "/"),
        (["map", "-", "--out", "/no/such/folder/results"], "/no/such/folder"),
        (["map", "-", "--out", "/"], "/"),
        (["map", "-", "--out", "/dev/null", "--concurrency", "0"], "--concurrency"),
        (["map", "-", "--out", "/dev/null", "--timeout", "0"], "--timeout"),
        (["map", "-", "--out", "/dev/null", "--memory", "-5"], "--memory"),
        (["map", "-", "--out", "/dev/null", "--sandbox", "nope"], "nope"),
        (["doctor", "please"], "please"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_an_error_of_use_is_one_sentence_that_names_it_and_a_hint(capfd, arguments, named):
    assert run_app(arguments) == 2
    stdout, stderr = capfd.readouterr()
    assert stdout == ""
    sentence, hint = stderr.rstrip("\n").split("\n")
    assert sentence.startswith("actbox: ") and named in sentence and len(sentence) < 400
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    ("mount", "advice"),
    [
        ("/proc:/data", "mount the one directory that the program needs, or a copy of it"),
        ("/usr:/etc/data", "mount below /input or at a new directory such as /data"),
        ("/no/such/folder:/data", "give --mount an existing file or directory"),
        ("/usr", "write --mount HOST:GUEST or --mount HOST:GUEST:MODE"),
    ],
)
def test_the_hint_for_a_mount_is_about_what_is_wrong_with_it(capfd, mount, advice):
    assert run_app(["run", "-c", "1", "--mount", mount]) == 2
    sentence, hint = capfd.readouterr().err.splitlines()
    assert hint.startswith(f"hint: {advice}") and advice not in sentence


@pytest.mark.parametrize(
    "command", [command.callback for command in app.registered_commands], ids=lambda it: it.__name__
)
def test_no_line_of_a_help_is_broken_on_a_terminal_of_eighty_columns(command):
    # typer keeps the breaks of all paragraphs but the first, so that their lines must fit.
    for paragraph in inspect.getdoc(command).split("\n\n")[1:]:
        lines = paragraph.splitlines()
        assert len(lines) == 1 or max(map(len, lines)) <= 78, paragraph


@pytest.mark.slow
def test_a_program_that_is_no_text_is_refused_with_its_line(actbox, tmp_path):
    (tmp_path / "a.py").write_bytes(b"x = 1\ny = '\xff'\n")
    done = actbox("run", str(tmp_path / "a.py"))
    assert done.returncode == 2
    assert b"line 2" in done.stderr and b"0xff" in done.stderr and b"hint: " in done.stderr


@pytest.mark.slow
def test_a_program_that_never_ends_to_be_read_is_refused(actbox):
    with open("/dev/zero", "rb") as endless:
        done = actbox("run", "-", stdin=endless)
    assert done.returncode == 2
    assert b"more than 8 MiB" in done.stderr


@pytest.mark.slow
def test_no_engine_is_chosen_silently_that_does_not_isolate(actbox):
    done = actbox("run", "--sandbox", "process", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"isolates nothing" in done.stderr and b"--allow-unisolated" in done.stderr


@pytest.mark.slow
def test_the_flag_that_an_engine_without_isolation_needs_is_named_before_python(actbox):
    error = actbox("run", "--sandbox", "process", "-c", "print(1)").stderr
    assert b"--allow-unisolated" in error.splitlines()[0]
    assert b"allow_unisolated" not in error
    ssh = actbox("run", "--sandbox", "ssh", "-c", "print(1)").stderr
    assert b"If you accept that, use --sandbox ssh --option host=user@host --allow-unisolated" in ssh


@pytest.mark.slow
@pytest.mark.parametrize("command", [["run", "-c", "1"], ["demo"], ["map", "-", "--out", "results.jsonl"]])
def test_an_engine_that_there_is_not_is_named_with_those_that_there_are(actbox, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    done = actbox(*command, "--sandbox", "docker")
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-2:] == [
        f"actbox: --sandbox docker: there is no such engine; there are: auto, {', '.join(ENGINES)}",
        "hint: docker is a client of the container engine: --sandbox container --option client=docker",
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gvisor", "--sandbox container --option runtime=runsc"),
        ("Linux", "--sandbox linux"),
        ("node.js", "--sandbox node"),
        ("nope", "actbox doctor"),
    ],
)
def test_the_name_that_a_stranger_tries_leads_to_the_engine(capfd, name, hint):
    assert run_app(["run", "-c", "1", "--sandbox", name]) == 2
    assert hint in capfd.readouterr().err.splitlines()[-1]
    with pytest.raises(actbox_library.InvalidValue, match=f"there is no engine '{name}'"):
        actbox_library.open_sandbox(name)


def test_the_options_of_an_engine_are_listed_where_one_is_wrong(capfd):
    assert run_app(["run", "-c", "1", "--sandbox", "ssh", "--allow-unisolated", "--option", "host=a@b:22"]) == 2
    sentence, hint = capfd.readouterr().err.splitlines()
    assert sentence == "actbox: --option: host has no port in it: --option host=a@b, port=22, not 'a@b:22'"
    assert "--option NAME=VALUE: host, port, key, known_hosts" in hint


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        (
            "name another: open_sandbox('container', runtime='runsc') is gVisor",
            "name another: --sandbox container --option runtime=runsc is gVisor",
        ),
        (
            "open_sandbox('ssh', host='a@b', allow_unisolated=True)",
            "--sandbox ssh --option host=a@b --allow-unisolated",
        ),
        ("Limits.memory_mib must be 16 at least", "--memory must be 16 at least"),
        ("the language of this Program: language='python'", "the language of this Program: --language python"),
        ("it was x='y'", "it was x='y'"),
    ],
)
def test_a_sentence_in_python_is_said_in_flags(sentence, said):
    assert in_flags(sentence) == said


@pytest.mark.slow
def test_the_doctor_is_named_only_for_an_engine_that_does_not_work_here(capfd, monkeypatch):
    found: list[EngineCheck] = []
    monkeypatch.setattr(Engine, "check", lambda self: found[0])

    def fail(*_, **__):
        raise SandboxUnavailable("there is no image 'a'")

    monkeypatch.setattr("actbox.cli.engine.open_sandbox", fail)
    for works, advice, hint in (
        (True, "", []),
        (False, "Switch it on.", ["hint: Switch it on."]),
        (False, "", ["hint: actbox doctor says what works here"]),
    ):
        found[:] = [EngineCheck(engine="linux", works=works, advice=advice)]
        assert run_app(["run", "-c", "1", "--sandbox", "linux"]) == 125
        assert capfd.readouterr().err.splitlines() == ["actbox: there is no image 'a'", *hint]
        assert run_app(["run", "-c", "1", "--sandbox", "linux", "--json"]) == 125
        assert json.loads(capfd.readouterr().out)["error"]["hint"] == "".join(hint).removeprefix("hint: ")


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["foo.example=GTE", "foo.example=CONNECT", "*.com", "169.254.169.254"])
def test_a_domain_that_can_only_be_a_slip_is_an_error_of_use(actbox, domain):
    done = actbox("run", "-c", "1", "--domain", domain)
    assert done.returncode == 2
    assert f"--domain {domain}: AllowedDomain(".encode() in done.stderr


@pytest.mark.slow
def test_a_module_that_cannot_be_preloaded_is_warned_of(actbox, isolated):
    done = actbox("run", *isolated, "-c", "print(1)", "--preload", "no_such_module")
    assert (done.returncode, done.stdout) == (0, b"1\n")
    assert b"warning: preloading no_such_module failed: ModuleNotFoundError" in done.stderr


@pytest.mark.slow
def test_what_an_engine_cannot_keep_is_an_error_of_use(actbox, tmp_path):
    options = ["--sandbox", "process", "--allow-unisolated", "--mount", f"{tmp_path}:/data"]
    done = actbox("run", *options, "-c", "1")
    assert done.returncode == 2
    assert done.stderr == b"actbox: the process engine does not support --mount; the linux engine does\n"


def test_the_demo_names_the_extra_that_is_missing(capfd, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pandas" else find(name))
    assert run_app(["demo"]) == 2
    assert capfd.readouterr().err.splitlines() == [
        "actbox: this needs pandas, which is not installed",
        "hint: pip install 'actbox[demo]'",
    ]
