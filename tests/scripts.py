"""A runner for test scripts that behaves like the command line but shares slow imports.

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SLOW_TO_IMPORT = ("actbox", "actbox.codeact", "actbox.integrations.agent_framework", "agent_framework", "pydantic")
OF_THE_COMMAND_LINE = ("actbox.cli.app", "actbox.cli.arguments", "actbox.cli.run", "actbox.cli.map", "rich.table")

_FORKER = """
import atexit, importlib, json, os, signal, sys, threading, traceback, types

def run(job):
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["variables"])
    os.setsid()
    signal.alarm(240)  # before pytest gives up
    for number, name in ((0, job["stdin"]), (1, job["stdout"]), (2, job["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.path[:0] = job["paths"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*job["paths"], os.environ.get("PYTHONPATH", "")])
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    if job["file"]:
        module.__file__ = job["file"]
    sys.argv = [job["file"] or "-c", *job["arguments"]]
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
    """The outcome of a script."""

    returncode: int
    stdout: str
    stderr: str


def run_script(
    code: str, folder: Path, *, file: Path | None = None, paths: tuple[Path, ...] = (), arguments: Sequence[str] = ()
) -> Done:
    """Run a script in a folder; `file` is where it stands, and `paths` are where it may import from besides."""
    status, stdout, stderr = _run(
        _scripts_forker(),
        code=code,
        folder=str(folder),
        file=str(file) if file else "",
        paths=[str(path) for path in ((file.parent, *paths) if file else ("", *paths))],
        arguments=arguments,
    )
    return Done(status, stdout.decode(), stderr.decode())


def run_module(name: str, arguments: tuple[str, ...], stdin: bytes) -> tuple[int, bytes, bytes]:
    """Run a module of ours as `python -m` does; return its exit code, its output and what it said on stderr."""
    code = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    return _run(_forker(OF_THE_COMMAND_LINE), code=code, folder=os.getcwd(), stdin=stdin, arguments=arguments)


def _run(
    forker: subprocess.Popen[str],
    *,
    code: str,
    folder: str,
    file: str = "",
    paths: Sequence[str] = (),
    stdin: bytes = b"",
    arguments: Sequence[str] = (),
) -> tuple[int, bytes, bytes]:
    with tempfile.TemporaryDirectory() as name:
        Path(f"{name}/stdin").write_bytes(stdin)
        streams = {stream: f"{name}/{stream}" for stream in ("stdin", "stdout", "stderr")}
        job = {"code": code, "folder": folder, "file": file, "paths": paths, "arguments": arguments}
        job |= {"variables": dict(os.environ), **streams}
        assert forker.stdin is not None and forker.stdout is not None
        forker.stdin.write(json.dumps(job) + "\n")
        forker.stdin.flush()
        answer = forker.stdout.readline()
        assert answer, "the process that runs scripts has ended"
        return int(answer), Path(streams["stdout"]).read_bytes(), Path(streams["stderr"]).read_bytes()


def _scripts_forker() -> subprocess.Popen[str]:
    there = [name for name in SLOW_TO_IMPORT if importlib.util.find_spec(name.partition(".")[0]) is not None]
    if "agent_framework" not in there:
        there.remove("actbox.integrations.agent_framework")
    return _forker(tuple(there))


@functools.cache
def _forker(names: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _FORKER, json.dumps(names)]
    forker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.sep)
    assert forker.stdin is not None
    atexit.register(forker.stdin.close)
    return forker
