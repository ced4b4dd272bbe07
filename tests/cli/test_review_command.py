"""`actbox review` reads programs, prints what it found, and says its verdict by its exit code."""

from __future__ import annotations

import json

import pytest

from actbox.cli.app import run_app

SOURCE = "import os\nos.system('ls')\nsearch('tea', limit=2)\n"


@pytest.fixture
def program(tmp_path):
    (tmp_path / "a.py").write_text(SOURCE)
    return str(tmp_path / "a.py")


def test_the_document_has_findings_tools_and_a_verdict(capfd, program):
    assert run_app(["review", program, "--json", "--tool", "search"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["verdict"] == "warn"
    (one,) = found["programs"]
    assert [(f["rule"], f["subject"], f["line"], f["verdict"]) for f in one["findings"]] == [
        ("import", "os", 1, "allow"),
        ("process", "os.system", 2, "warn"),
        ("tool", "search", 3, "allow"),
    ]
    assert [(call["tool"], call["arguments"]) for call in one["tool_calls"]] == [
        ("search", {"0": "'tea'", "limit": "2"})
    ]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--rule", "process=allow"], 0),
        (["--rule", "process=ask"], 3),
        (["--rule", "process:os.system=block"], 1),
        (["--rule", "spec"], 1),
        (["--rule", "spec", "--rule", "process=allow"], 0),
        (["--rule", "process=ask", "--rule", "import=block"], 1),
        (["--rule", "all=block", "--rule", "process=allow", "--rule", "import=allow"], 0),
    ],
)
def test_the_exit_code_is_the_strictest_verdict(program, options, code):
    assert run_app(["review", program, *options]) == code


def test_a_file_of_javascript_is_read_as_that(capfd, tmp_path):
    pytest.importorskip("tree_sitter_javascript", reason="the extra actbox[review] is not installed")
    (tmp_path / "a.mjs").write_text("import {exec as e} from 'child_process'\ne('ls')")
    assert run_app(["review", str(tmp_path / "a.mjs"), "--rule", "spec"]) == 1
    assert "calls child_process.exec" in capfd.readouterr().out


def test_the_strictest_of_several_programs_decides(program, tmp_path):
    (tmp_path / "b.py").write_text("1 + 1\n")
    assert run_app(["review", str(tmp_path / "b.py"), program, "--rule", "process=block"]) == 1


def test_the_table_names_each_finding(capfd, program):
    run_app(["review", program])
    text = capfd.readouterr().out
    assert "a.py: warn" in text and "2:1" in text and "calls os.system" in text


@pytest.mark.slow
def test_nothing_found_is_not_called_safe(actbox):
    done = actbox("review", "-", input=b"print(1)\n")
    assert done.returncode == 0
    assert b"does not make it safe" in done.stdout


def test_no_word_of_a_program_acts_on_the_terminal(actbox):
    done = actbox("review", "-", input=b"open('/etc/\\x1b[2J\\u202e')\ncall_tool('\\x9b')\n")
    assert b"\x1b" not in done.stdout and b"\xc2\x9b" not in done.stdout and "\u202e".encode() not in done.stdout
    assert b"/etc/" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["review"], "FILE"),
        (["review", "/no/such/file"], "/no/such/file"),
        (["review", "-", "--rule", "process"], "process"),
        (["review", "-", "--rule", "proces=ask"], "proces"),
        (["review", "-", "--rule", "process=maybe"], "maybe"),
    ],
)
def test_an_error_of_use_names_it(capfd, arguments, named):
    assert run_app(arguments) == 2
    assert named in capfd.readouterr().err
