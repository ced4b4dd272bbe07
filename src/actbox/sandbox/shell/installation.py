"""The sandbox's installation on the machine behind a shell, the places of its runs, and their programs."""

from __future__ import annotations

from dataclasses import dataclass

from actbox.core.errors import SandboxUnavailable
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.requests import WallTime
from actbox.tools import Toolset

from .requests import LEAST_PYTHON, ControlCommand, install_stdin, reply_of, responses_of
from .responses import NoShell, ShellError


@dataclass(frozen=True, slots=True)
class Installation:
    """The facts about the machine behind the shell, and about the sandbox's directory on it."""

    base: str
    path: str
    python: str


@dataclass(frozen=True, slots=True)
class RunFolders:
    """The place of one run: its own directory, and the workspace, which may lie in it."""

    folder: str
    workspace: str
    alone: bool


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """A program to be run, and its settings."""

    program: Program
    toolset: Toolset
    wall: WallTime


async def install(sandbox: Sandbox, command: ControlCommand, folder: str | None) -> Installation:
    """Make a sandbox's directory, and write the guest's sources there. Raises `SandboxUnavailable`.

    It lies below `folder`, by default the machine's temporary directory.
    """
    least = ".".join(map(str, LEAST_PYTHON))
    needs = f"the {sandbox.traits.engine} engine needs Python {least} or newer behind its shell"

    def first(token: str) -> bytes:
        return install_stdin({"token": token, "folder": folder})

    try:
        reply, _ = await reply_of(responses_of(sandbox, command, first))
        if "error" in reply:
            raise ShellError(str(reply["error"]))
        return Installation(base=str(reply["base"]), path=str(reply["path"]), python=str(reply["python"]))
    except NoShell as error:
        raise SandboxUnavailable(f"the {sandbox.traits.engine} engine: {error}") from error
    except ShellError as error:
        raise SandboxUnavailable(f"{needs}: {error}") from error
    except KeyError as error:
        raise SandboxUnavailable(f"{needs}, and its answer lacks {error}") from error
