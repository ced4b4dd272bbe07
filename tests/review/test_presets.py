"""The preset `spec` blocks the specification's eight risky patterns by any name, and nothing that looks like them."""

from __future__ import annotations

import pytest

from actbox import InvalidValue
from actbox.review import PRESETS, Rules, Verdict, review

SPEC = Rules.preset("spec")

PATTERNS = {
    "subprocess": (
        "process:subprocess.run",
        "import subprocess\nsubprocess.run(['ls'])",
        "import subprocess as s\ns.run(['ls'])",
        "import subprocess\nprint('subprocess.run', subprocess.PIPE)  # subprocess.run(['ls'])",
    ),
    "os.system": (
        "process:os.system",
        "import os\nos.system('ls')",
        "import os as o\no.system('ls')",
        "import os\nos.system_name = 1\nprint(os.getpid(), 'os.system(1)')",
    ),
    "exec": (
        "code:builtins.exec",
        "x = 1\nexec('x = 2')",
        "import builtins as b\nrun = b.exec\nrun('x = 2')",
        "class Job:\n    def exec(self, text): ...\nJob().exec('x = 2')",
    ),
    "eval": (
        "code:builtins.eval",
        "x = 1\neval('x')",
        "x = 1\ngetattr(__builtins__, 'ev' + 'al')('x')",
        "import ast\nast.literal_eval('1')\nmodel.eval()",
    ),
    "a file below /etc": (
        "system-read:/etc/passwd",
        "x = 1\nopen('/etc/passwd').read()",
        "from pathlib import Path as P\n(P('/') / 'etc' / 'passwd').read_text()",
        "open('/workspace/etc/passwd')\nopen('/input/data.csv')\nprint('/etc/passwd')",
    ),
    "socket": (
        "network:socket.socket",
        "import socket\nsocket.socket()",
        "from socket import socket as s\ns()",
        "import socket\nsocket.AF_INET\nsocket_of = 1",
    ),
    "__import__": (
        "dynamic:builtins.__import__",
        "x = 1\n__import__('math')",
        "import builtins as b\nb.__import__('math')",
        "import math\ndef load__import__(name): ...\nload__import__('math')",
    ),
    "pickle": (
        "unpickle:pickle.loads",
        "import pickle\npickle.loads(data)",
        "from pickle import loads as read\nread(data)",
        "import json, pickle\njson.loads(data)\npickle.dumps(1)",
    ),
}
"""The subject of the finding, a program, one that uses another name, and a harmless one; findings are in line 2."""


@pytest.mark.parametrize(("subject", "program", "aliased", "harmless"), PATTERNS.values(), ids=PATTERNS.keys())
def test_each_pattern_of_the_specification_is_blocked(subject: str, program: str, aliased: str, harmless: str) -> None:
    found = review(program, SPEC)
    blocking = [one for one in found.findings if found.verdict_on(one) is Verdict.BLOCK]
    assert {(f"{one.rule}:{one.subject}", one.line) for one in blocking} == {(subject, 2)}
    assert review(aliased, SPEC).verdict is Verdict.BLOCK
    assert review(harmless, SPEC).verdict is not Verdict.BLOCK


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos.popen('ls')",
        "import importlib\nimportlib.import_module(name)",
        "import requests\nrequests.get('https://example.com')",
        "open('/usr/share/x')",
        "x = (",
    ],
)
def test_other_findings_of_the_preset_keep_the_verdicts_of_their_rules(program: str) -> None:
    assert review(program, SPEC).verdict is Verdict.WARN


@pytest.mark.parametrize(
    "program",
    [
        "import asyncio\nawait asyncio.create_subprocess_exec('ls')",
        "from PIL import Image\nImage.open('/etc/logo.png')",
        "open(*['/etc/passwd'])",
        "open(**{'file': '/etc/passwd'})",
        "import pandas as pd\npd.read_csv('file:///etc/passwd')",
    ],
)
def test_other_ways_to_a_pattern_are_blocked_too(program: str) -> None:
    assert review(program, SPEC).verdict is Verdict.BLOCK


def test_a_program_that_is_not_read_is_blocked_too() -> None:
    assert review("#" * 3_000_000, SPEC).verdict is Verdict.BLOCK
    assert review("x", SPEC, language="cobol").verdict is Verdict.BLOCK


def test_commands_of_pip_in_a_sessions_program_hide_nothing() -> None:
    installs = "%pip install six\nif 1:\n    !uv pip install x\n"
    found = review(f"{installs}eval('1')", SPEC)
    assert [(one.rule, one.line) for one in found.findings] == [("syntax", 1), ("code", 4)]
    assert review("%pip install six\n" * 20 + "eval('1')", SPEC).verdict is Verdict.BLOCK
    assert [one.rule for one in review(f"{installs}x = (", SPEC).findings] == ["syntax", "syntax"]


def test_verdicts_of_ones_own_go_before_those_of_the_preset() -> None:
    program = "import subprocess, socket\nsubprocess.run(['ls'])\nsocket.socket()"
    assert review(program, Rules.preset("spec", {"process": "allow"})).verdict is Verdict.BLOCK
    assert review(program, Rules.preset("spec", {"process": "allow", "network:socket": "ask"})).verdict is Verdict.ASK
    assert Rules.preset("spec", otherwise="ask").verdict("native") is Verdict.ASK
    assert Rules.preset("spec") == Rules(PRESETS["spec"])


def test_a_preset_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidValue, match="there is no preset 'strict'; presets: spec"):
        Rules.preset("strict")
    with pytest.raises(InvalidValue, match="Rules takes a dict"):
        Rules.preset("spec", ["code"])  # type: ignore[arg-type]


def test_a_verdict_about_a_path_covers_what_is_below_it() -> None:
    rules = Rules({"system-read:/etc": "block", "system-read:/etc/ssl": "allow"}, "warn")
    assert rules.verdict("system-read", "/etc/passwd") is Verdict.BLOCK
    assert rules.verdict("system-read", "/etc/ssl/certs.d/a.pem") is Verdict.ALLOW
    assert rules.verdict("system-read", "/etcetera") is Verdict.WARN
