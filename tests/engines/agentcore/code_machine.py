"""The machine behind a session of the fake: a real folder, real processes, and a kernel of Python that lasts."""

from __future__ import annotations

import contextlib
import json
import mimetypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actbox.sandbox.engines.node.binary import find_node

Result = dict[str, Any]

NODE = find_node().path
KERNEL = Path(__file__).with_name("python_kernel.py")


@dataclass
class _Task:
    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    begun: float = field(default_factory=time.perf_counter)
    was_stopped: bool = False


def said(*text: str, is_error: bool = False, **structured: Any) -> Result:
    """Return a result of text."""
    result: Result = {"content": [{"type": "text", "text": each} for each in text], "isError": is_error}
    return result | ({"structuredContent": structured} if structured else {})


class Machine:
    """Each tool of the service is a method of its name."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="agentcore-machine-"))
        self.folder = self.home / "var"
        self.folder.mkdir()
        (self.home / "tmp").mkdir()
        (self.home / "logs").mkdir()
        self._tasks: dict[str, _Task] = {}
        self._kernel: subprocess.Popen[str] | None = None
        self._one_at_a_time = threading.Lock()

    def close(self) -> None:
        """End all of its processes, and remove its folder."""
        for task in self._tasks.values():
            _kill(task.process)
        if self._kernel is not None:
            _kill(self._kernel)
            _close(self._kernel)
        self._kill_the_rest()
        shutil.rmtree(self.home, ignore_errors=True)

    def _kill_the_rest(self) -> None:
        """A real machine ends with all that runs on it: here, whatever has the environment of this one."""
        mark = f"AGENTCORE_MACHINE={self.home}".encode()
        for place in Path("/proc").iterdir():
            if place.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (place / "environ").read_bytes().split(b"\0"):
                        os.kill(int(place.name), signal.SIGKILL)

    @property
    def _environment(self) -> dict[str, str]:
        path = ":".join([os.path.dirname(sys.executable), str(NODE.parent), "/usr/local/bin:/usr/bin:/bin"])
        return {"PATH": path, "HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), "LANG": "C.UTF-8"} | {
            "AGENTCORE_MACHINE": str(self.home)
        }

    def _place(self, path: str) -> Path:
        if path.startswith("/") or ".." in Path(path).parts:
            raise ValueError(f"Path must be relative to the working directory: {path}")
        return self.folder / path

    # Files

    def writeFiles(self, content: list[dict[str, Any]]) -> Result:
        for block in content:
            place = self._place(block["path"])
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(block["blob"] if "blob" in block else block["text"].encode())
        return said(f"Successfully wrote all {len(content)} files")

    def readFiles(self, paths: list[str]) -> Result:
        blocks = []
        for path in paths:
            data = self._place(path).read_bytes()
            resource: dict[str, Any] = {"uri": f"file:///{path}"}
            try:
                resource |= {"type": "text", "text": data.decode("utf-8"), "mimeType": "text/plain"}
            except UnicodeDecodeError:
                kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
                resource |= {"type": "blob", "blob": data, "mimeType": kind}
            blocks.append({"type": "resource", "resource": resource})
        return {"content": blocks, "isError": False}

    def listFiles(self, directoryPath: str = "") -> Result:
        links = []
        for entry in sorted(self._place(directoryPath).iterdir()):
            link = {"type": "resource_link", "uri": f"file:///{entry.relative_to(self.folder)}", "name": entry.name}
            link["description"] = "Directory" if entry.is_dir() else "File"
            links.append(link if entry.is_dir() else {**link, "size": entry.stat().st_size})
        return {"content": links, "isError": False}

    def removeFiles(self, paths: list[str]) -> Result:
        for path in paths:
            self._place(path).unlink()
        return said(f"Successfully removed {len(paths)} files")

    # Commands

    def executeCommand(self, command: str) -> Result:
        begun = time.perf_counter()
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.folder, env=self._environment, capture_output=True, check=False
        )
        return self._ended(done.stdout, done.stderr, done.returncode, time.perf_counter() - begun)

    def startCommandExecution(self, command: str) -> Result:
        name = uuid.uuid4().hex
        stdout, stderr = self.home / "logs" / f"{name}.out", self.home / "logs" / f"{name}.err"
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._tasks[name] = _Task(process, stdout, stderr)
        return said(taskId=name, taskStatus="submitted")

    def getTask(self, taskId: str) -> Result:
        task = self._tasks[taskId]
        code = task.process.poll()
        about: dict[str, Any] = {"taskId": taskId, "stdout": task.stdout.read_text("utf-8", "replace")}
        about["stderr"] = task.stderr.read_text("utf-8", "replace")
        if code is None:
            return said(**about, taskStatus="working")
        status = "canceled" if task.was_stopped else "completed" if code == 0 else "failed"
        return said(**about, taskStatus=status, exitCode=code, executionTime=time.perf_counter() - task.begun)

    def stopTask(self, taskId: str) -> Result:
        task = self._tasks[taskId]
        if task.process.poll() is None:
            task.was_stopped = True
            _kill(task.process)
        return said(taskId=taskId, taskStatus="canceled")

    def _ended(self, stdout: bytes, stderr: bytes, code: int, seconds: float) -> Result:
        about = {"stdout": stdout.decode("utf-8", "replace"), "stderr": stderr.decode("utf-8", "replace")}
        text = about["stdout"] or about["stderr"]
        return said(text, is_error=code != 0, **about, exitCode=code, executionTime=seconds)

    # Code

    def executeCode(
        self,
        code: str,
        language: str = "python",
        clearContext: bool = False,
        runtime: str = "",
    ) -> Result:
        with self._one_at_a_time:
            if language != "python":
                return self._in_node(code)
            if clearContext and self._kernel is not None:
                _kill(self._kernel)
                _close(self._kernel)
                self._kernel = None
            if self._kernel is None or self._kernel.poll() is not None:
                self._kernel = subprocess.Popen(
                    [sys.executable, str(KERNEL)],
                    cwd=self.folder,
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            return self._in_kernel(self._kernel, code)

    def _in_kernel(self, kernel: subprocess.Popen[str], code: str) -> Result:
        assert kernel.stdin is not None and kernel.stdout is not None
        begun = time.perf_counter()
        line = ""
        with contextlib.suppress(OSError):
            kernel.stdin.write(json.dumps(code) + "\n")
            kernel.stdin.flush()
            line = kernel.stdout.readline()
        if not line:
            kernel.wait()
            _close(kernel)
            return said("the kernel died", is_error=True, stdout="", stderr="the kernel died", exitCode=1)
        told = json.loads(line)
        result = said(
            told["stdout"] or told["stderr"],
            is_error=told["failed"],
            stdout=told["stdout"],
            stderr=told["stderr"],
            exitCode=int(told["failed"]),
            executionTime=time.perf_counter() - begun,
        )
        for mime_type, data in told["shown"]:
            result["content"].append({"type": "image", "mimeType": mime_type, "data": bytes.fromhex(data)})
        return result

    def _in_node(self, code: str) -> Result:
        begun = time.perf_counter()
        done = subprocess.run(
            ["node", "-"], input=code.encode(), cwd=self.folder, env=self._environment, capture_output=True, check=False
        )
        return self._ended(done.stdout, done.stderr, done.returncode, time.perf_counter() - begun)


def _kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process and its group, unless it was waited for: then the number may be another process's by now."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _close(process: subprocess.Popen[Any]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
