"""Scripts that run as they would from the command line, but for what takes longest: imports that they share.

One process imports the slow modules once and forks for each script, in which all is as if Python had just begun:
`__main__`, working folder, import path, standard streams, what happens at exit.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SLOW_TO_IMPORT = ("actbox", "actbox.codeact", "actbox.integrations.agent_framework", "agent_framework", "pydantic")

_FORKER = """
import atexit, importlib, json, os, signal, sys, threading, traceback, types

def run(job):
    os.chdir(job["folder"])
    os.setsid()
    signal.alarm(60)
    for number, name in ((0, os.devnull), (1, job["stdout"]), (2, job["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.path[:0] = job["paths"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*job["paths"], os.environ.get("PYTHONPATH", "")])
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    if job["file"]:
        module.__file__ = job["file"]
    sys.argv = [job["file"] or "-c"]
    status = 0
    try:
        exec(compile(job["code"], job["file"] or "<string>", "exec"), module.__dict__)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True)
class Done:
    """What a script came to."""

    returncode: int
    stdout: str
    stderr: str


def run_script(code: str, folder: Path, *, file: Path | None = None, paths: tuple[Path, ...] = ()) -> Done:
    """Run a script in a folder; `file` is where it stands, and `paths` are where it may import from besides."""
    with tempfile.TemporaryDirectory() as name:
        job = {
            "code": code,
            "folder": str(folder),
            "file": str(file) if file else "",
            "paths": [str(path) for path in ((file.parent, *paths) if file else ("", *paths))],
            "stdout": f"{name}/stdout",
            "stderr": f"{name}/stderr",
        }
        forker = _forker()
        assert forker.stdin is not None and forker.stdout is not None
        forker.stdin.write(json.dumps(job) + "\n")
        forker.stdin.flush()
        answer = forker.stdout.readline()
        assert answer, "the process that runs scripts has ended"
        return Done(int(answer), Path(job["stdout"]).read_text(), Path(job["stderr"]).read_text())


@functools.cache
def _forker() -> subprocess.Popen[str]:
    there = [name for name in SLOW_TO_IMPORT if importlib.util.find_spec(name.partition(".")[0]) is not None]
    if "agent_framework" not in there:
        there.remove("actbox.integrations.agent_framework")
    command = [sys.executable, "-c", _FORKER, json.dumps(there)]
    forker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.sep)
    assert forker.stdin is not None
    atexit.register(forker.stdin.close)
    return forker
