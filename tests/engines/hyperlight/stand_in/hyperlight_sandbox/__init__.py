"""A stand-in for the library where there is no hypervisor: its interface, over a Python process instead of a machine.

It isolates nothing. With it everything around the machine can be tried: the worker, the pool, questions and answers,
files, and the code of ours that runs inside. What only a machine does is tried in one (`tests/vm/test-hyperlight`).
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# What the machine's guest does: run code with `call_tool`, keep its variables, and report.
_CHILD = """
import ast, bisect, cmath, copy, dataclasses, functools, inspect, io, itertools, json, linecache, math, os, posix
import random, re, sys, time, types, unicodedata, weakref, zlib, array, enum, operator, binascii, errno
import stat
import codecs, collections.abc, contextvars, copyreg, datetime, dis, encodings.ascii, encodings.latin_1
import keyword, posixpath, signal
import reprlib, struct, tokenize, typing, gc
incoming, outgoing = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb", 0)
os.dup2(2, 1)
def send(message):
    outgoing.write(json.dumps(message).encode() + b"\\n")
def dispatch(name, text):
    send({"call": [name, text]})
    answer = json.loads(incoming.readline())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]
tools = types.ModuleType("wit_world.imports.tools")
tools.dispatch = dispatch
for name in ("wit_world", "wit_world.imports"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["wit_world.imports"].tools = sys.modules["wit_world.imports.tools"] = tools
variables = {"call_tool": lambda name, **given: json.loads(dispatch(name, json.dumps(given)))}
sys.path.clear()
sys.modules.pop("socket", None)
print("ready", file=sys.stderr)
for line in incoming:
    sys.stdout, sys.stderr = (out := io.StringIO()), (said := io.StringIO())
    code = 0
    try:
        source, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        exec(source, variables)
    except BaseException as error:
        code = 1
        said.write("%s: %s" % (type(error).__name__, error))
    send({"done": [code, out.getvalue(), said.getvalue()]})
"""

_SCRIPT_CHILD = """
const fs = require("fs"), vm = require("vm");
const pending = [];
let left = "";
function receive() {
  while (!pending.length) {
    const bytes = Buffer.alloc(1 << 16);
    const count = fs.readSync(0, bytes);
    if (!count) process.exit(0);
    const lines = (left + bytes.toString("latin1", 0, count)).split("\\n");
    left = lines.pop();
    pending.push(...lines);
  }
  return JSON.parse(pending.shift());
}
function send(message) {
  let bytes = Buffer.from(JSON.stringify(message) + "\\n");
  while (bytes.length) bytes = bytes.subarray(fs.writeSync(1, bytes));
}
const context = vm.createContext({ atob, btoa });
context.dispatch = (name, text) => {
  send({ call: [name, text] });
  const answer = receive();
  if ("error" in answer) throw new Error(answer.error);
  return answer.value;
};
vm.runInContext("globalThis.call_tool = (name, given) => JSON.parse(dispatch(name, JSON.stringify(given)))", context);
(async () => {
  for (;;) {
    const [source] = receive();
    const done = [0, "", ""];
    await vm.runInContext(`(async () => {${source}\\n})()`, context).catch((error) => {
      done[0] = 1;
      done[2] = String(error.stack);
    });
    send({ done });
  }
})();
"""


@dataclass
class ExecutionResult:
    stdout: str
    stderr: str
    exit_code: int


class Sandbox:
    def __init__(self, *, backend: str, heap_size: str, stack_size: str, module: str | None = None) -> None:
        self._is_script = backend == "hyperlight-js"
        self._bytes = (int(heap_size[:-2]) + int(stack_size[:-2])) * 1024
        self._tools: dict[str, Callable[..., Any]] = {}
        self._codes: list[str] = []
        self._answers: list[Any] = []
        self._replayed: list[Any] = []
        self._process = self._begin()

    def register_tool(self, name: str, function: Callable[..., Any]) -> None:
        self._tools[name] = function

    def snapshot(self) -> tuple[list[str], list[Any]]:
        return list(self._codes), list(self._answers)

    def restore(self, snapshot: tuple[list[str], list[Any]]) -> None:
        codes, answers = snapshot
        self._process.kill()
        self._process.wait()
        self._process = self._begin()
        self._codes, self._answers, self._replayed = [], [], list(answers)
        for code in codes:
            self.run(code)
        self._replayed = []

    def run(self, code: str) -> ExecutionResult:
        self._codes.append(code)
        self._send([code, signal.getitimer(signal.ITIMER_PROF)[0]])
        while True:
            message = json.loads(self._process.stdout.readline() or b"{}")  # type: ignore[union-attr]
            if "done" in message:
                exit_code, stdout, stderr = message["done"]
                return ExecutionResult(stdout, stderr, exit_code)
            if "call" not in message:
                if self._process.wait() == -signal.SIGPROF:  # a machine's processor time is its process's
                    os.kill(os.getpid(), signal.SIGPROF)
                raise RuntimeError("Guest aborted: 15 the stand-in ended")
            name, given = message["call"]
            if self._replayed:  # what the machine was told before the snapshot was taken
                self._answers.append(self._replayed[0])
                self._send(self._replayed.pop(0))
                continue
            try:
                self._answers.append({"value": json.dumps(self._tools[name](**json.loads(given)))})
                self._send(self._answers[-1])
            except Exception as error:
                self._send({"error": str(error)})

    def _send(self, message: object) -> None:
        self._process.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]

    def _begin(self) -> subprocess.Popen[bytes]:
        def limit() -> None:
            if not self._is_script:  # V8 maps far more than it uses
                resource.setrlimit(resource.RLIMIT_AS, (self._bytes, self._bytes))
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a machine ends with its process

        return subprocess.Popen(
            ["node", "-e", _SCRIPT_CHILD] if self._is_script else [sys.executable, "-I", "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=limit,
        )
