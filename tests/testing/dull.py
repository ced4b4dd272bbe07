"""Two sandboxes that do nothing: one says that all went well, the other that nothing did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from actbox import (
    Artifact,
    Completed,
    ErrorInfo,
    ErrorKind,
    Event,
    ExecutionResult,
    FileChange,
    FileInfo,
    Limits,
    Output,
    Policy,
    Program,
    Sandbox,
    Session,
    Traits,
    Usage,
)
from actbox.sandbox.contract import Command, Tools

_EVERYTHING: dict[str, Any] = {
    "engine": "dull",
    "isolation": "nothing ever runs",
    "isolated": True,
    "enforced": dict.fromkeys(Limits().to_dict(), "nobody"),
    "mounts": ("ro", "rw", "overlay"),
    "domains": True,
    "sessions": True,
    "fork": True,
}


class Mute(Sandbox):
    """Whatever it is told, it has gone well, and there is nothing to say of it."""

    said: ExecutionResult = ExecutionResult()

    def __init__(self, policy: Policy) -> None:
        self.traits = Traits(**_EVERYTHING)

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    @property
    def root(self) -> str:
        return "/workspace"

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        yield Completed(self.said)

    async def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        yield Completed(self.said)

    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        return self.stream(program)

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return self.said

    def session(self, *, forkable: bool = False) -> Session:
        return _DullSession(self)

    async def read_file(self, path: str) -> bytes:
        return b""

    async def write_file(self, path: str, data: bytes) -> None:
        pass

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        pass

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        return []

    async def stat(self, path: str) -> FileInfo:
        return FileInfo(path=path, kind="file", size=0, modified=0)

    async def make_dir(self, path: str) -> None:
        pass

    async def move(self, source: str, target: str) -> None:
        pass


class Grumbling(Mute):
    """Whatever it is told, it has failed, with much to say of it."""

    said = ExecutionResult(
        stdout="much",
        stderr="more",
        exit_code=1,
        value={"much": 1},
        value_text="much",
        value_forms={"text/html": "much"},
        error=ErrorInfo(kind=ErrorKind.CRASH, type="SIGSEGV", message="no"),
        artifacts=(Artifact("much", b"x"),),
        changes=(FileChange(mount="/much", path="much", kind="added"),),
        warnings=("much",),
        usage=Usage(tool_calls=7, approval_ms=7),
        sandbox="another",
        state_kept=True,
    )

    def __init__(self, policy: Policy) -> None:
        wrong = {
            "engine": f" dull {id(self)}",
            "isolation": "",
            "platforms": (),
            "enforced": {"patience": "nobody"},
            "tools": False,
        }
        self.traits = Traits(**(_EVERYTHING | wrong))

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        yield Output("stdout", "other")
        yield Completed(self.said)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        return [FileInfo(path="much", kind="other", size=-1, modified=-1)]


class _DullSession(Mute, Session):  # type: ignore[misc]
    def __init__(self, box: Mute) -> None:
        self.said = box.said

    @property
    def alive(self) -> bool:
        return True

    async def close(self) -> None:
        pass

    async def fork(self) -> Session:
        return self
