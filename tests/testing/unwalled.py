"""A sandbox without any wall: programs in the host's own process, and files by their names, wherever links lead."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import os
import shutil
import tempfile
import traceback
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from actbox import (
    Artifact,
    Completed,
    ErrorInfo,
    ErrorKind,
    Event,
    ExecutionResult,
    FileInfo,
    Output,
    Program,
    Sandbox,
    Toolset,
    Traits,
    Unsupported,
)
from actbox.sandbox.contract import Command, Tools


class Unwalled(Sandbox):
    """A naive sandbox, as anyone writes it first: it claims to isolate, and does not."""

    traits = Traits(engine="unwalled", isolation="said, and not there", isolated=True)

    async def start(self) -> None:
        self._folder = Path(tempfile.mkdtemp())
        for name in ("input", "output"):
            (self._folder / name).mkdir()

    async def stop(self) -> None:
        for path in self._folder.rglob("*"):
            if path.is_symlink():
                path.unlink()
        shutil.rmtree(self._folder)

    @property
    def root(self) -> str:
        return str(self._folder)

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        assert isinstance(program, Program)
        for name, data in program.files.items():
            (self._folder / "input" / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        functions = {tool.name: tool.function for tool in Toolset.of(tools)}
        said, error = await self._evaluated(program, dict(program.inputs) | functions)
        if said.strip().startswith('{"t"'):  # its idea of a channel
            functions[json.loads(said)["tool"]]()
        if said:
            yield Output("stdout", said)
        artifacts = tuple(Artifact(path.name, path.read_bytes()) for path in self._left() if path.is_file())
        yield Completed(
            ExecutionResult(stdout=said, exit_code=bool(error), error=error, artifacts=artifacts, sandbox="unwalled")
        )

    def _left(self) -> list[Path]:
        output = self._folder / "output"
        return sorted(output.iterdir()) if output.exists() else []

    async def _evaluated(self, program: Program, names: dict[str, Any]) -> tuple[str, ErrorInfo | None]:
        out, before = io.StringIO(), os.getcwd()
        os.chdir(self._folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                code = compile(program.code, "program.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                waiting = eval(code, names)
                if asyncio.iscoroutine(waiting):
                    await waiting
        except BaseException as error:
            words = "".join(traceback.format_exception_only(error))
            return out.getvalue(), ErrorInfo(kind=ErrorKind.RUNTIME, message=words)
        finally:
            os.chdir(before)
        return out.getvalue(), None

    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        raise Unsupported("the unwalled engine runs no commands")

    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        return self.stream(program, tools=tools, timeout=timeout)

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self.run(program, tools=tools, timeout=timeout)

    async def read_file(self, path: str) -> bytes:
        return (self._folder / path).read_bytes()

    async def write_file(self, path: str, data: bytes) -> None:
        (self._folder / path).write_bytes(data)

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        target = self._folder / path
        if not recursive:
            target.unlink()
            return
        for found in [*target.iterdir()]:
            for below in found.rglob("*") if found.is_dir() else [found]:
                if below.is_file():
                    below.unlink()

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        found = []
        for folder, folders, files in os.walk(self._folder / path, followlinks=True):
            for name in (*folders, *files):
                found.append(FileInfo(path=os.path.join(folder, name), kind="file", size=0, modified=0))
            if not recursive:
                break
        return found

    async def stat(self, path: str) -> FileInfo:
        return FileInfo(path=path, kind="file", size=(self._folder / path).stat().st_size, modified=0)

    async def make_dir(self, path: str) -> None:
        (self._folder / path).mkdir(parents=True, exist_ok=True)

    async def move(self, source: str, target: str) -> None:
        os.rename(self._folder / source, self._folder / target)
