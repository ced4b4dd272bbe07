"""What hostile programs try in the `monty` engine: to reach the host by the language, or the next program."""

from __future__ import annotations

import pytest

import actbox
from actbox import Sandbox
from actbox.sandbox.trial import try_isolation, try_limits


def secret_holder(n: int) -> int:
    """Return a number."""
    return n


@pytest.mark.parametrize(
    "code",
    [
        "().__class__.__base__.__subclasses__()",
        "().__class__.__mro__",
        "secret_holder.__globals__",
        "secret_holder.__code__",
        "secret_holder.__closure__",
        "(lambda: 0).__globals__",
        "open.__self__",
        "__builtins__",
        "__loader__",
        "__import__('os').system('true')",
        "eval('__import__')",
        "import ctypes",
        "import importlib",
        "import builtins",
        "import sys\nsys.modules",
        "import sys\nsys._getframe()",
        "import os\nos.fork()",
        "import os\nos.execv('/bin/true', [])",
        "import os\nos.kill(1, 9)",
        "open('/proc/self/environ').read()",
        "open('/proc/self/mem', 'rb').read()",
        "open('/dev/tcp/127.0.0.1/80')",
        "open('file:///etc/passwd')",
        "open('/workspace/../etc/passwd').read()",
        "open('/workspace/input/../../etc/passwd').read()",
        "open('//etc/passwd').read()",
        "open('\\x00/etc/passwd').read()",
        "open(0).read()",
        "from pathlib import Path\nPath('/').joinpath('etc', 'passwd').read_text()",
        "from pathlib import Path\nPath('/workspace/x').symlink_to('/etc')",
        "import os\nos.listdir('/etc')",
        "import os\nos.rename('/etc/passwd', '/workspace/p')",
        "import os\nos.rename('/workspace/input', '/workspace/x')",
        "import os\nos.chdir('/etc')\nopen('passwd').read()",
        "try:\n    secret_holder('x')\nexcept Exception as error:\n    error.__traceback__.tb_frame",
        "async def f():\n    pass\nf().cr_frame",
    ],
)
async def test_a_way_out_of_the_language_leads_nowhere(box: Sandbox, code: str) -> None:
    result = await box.run(code, tools=[secret_holder])
    assert not result.success, result
    assert "root:" not in str(result)


async def test_nothing_of_a_program_is_left_in_the_worker_for_the_next(box: Sandbox) -> None:
    spoil = """\
import json, math, os, random, sys, typing
for module, name in ((json, 'dumps'), (math, 'floor'), (os, 'getcwd'), (random, 'random'), (sys, 'version')):
    try:
        setattr(module, name, lambda *a: 'mine')
    except Exception as error:
        print(type(error).__name__)
left = 'left'
random.seed(1)
os.chdir('/output')
def print(*a): pass
def len(x): return 99
"""
    look = """\
import json, math, os, random
[json.dumps([1]), math.floor(2.5), os.getcwd(), len('ab'), 'left' in str(dir) if False else 0]
"""
    drawn = set()
    for _ in range(5):
        await box.run(spoil)
        assert (await box.run(look)).value == ["[1]", 2, "/workspace", 2, 0]
        drawn.add((await box.run("import random\nrandom.random()")).value)
        assert not (await box.run("left")).success
    assert len(drawn) == 5


async def test_a_message_cannot_pass_for_one_of_ours(box: Sandbox) -> None:
    forged = "raise ValueError('x\\n  File \"<python-input-0>\", line 1, in <module>\\nToolError: forged')"
    error = (await box.run(forged)).error
    assert error is not None and error.type == "ValueError" and error.kind.value == "RUNTIME"
    error = (await box.run("raise RuntimeError('boom')")).error
    assert error is not None and error.type == "RuntimeError"


@pytest.mark.slow
async def test_what_the_doctor_tries_holds() -> None:
    def opened(policy: actbox.Policy) -> Sandbox:
        return actbox.open_sandbox("monty", policy=policy)

    isolation = await try_isolation(opened)
    assert {report.limit: report.verdict for report in isolation} == dict.fromkeys(
        ("host files", "host network", "host processes", "host mounts"), "holds"
    )
    assert not [report for report in await try_limits(opened) if report.verdict == "does not hold"]
