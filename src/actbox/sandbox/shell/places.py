"""Where runs of a sandbox over a shell take place, and what is to run there."""

from __future__ import annotations

from dataclasses import dataclass

from actbox.core.errors import SandboxUnavailable
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox
from actbox.tools import Toolset

from .answers import NoShell, ShellError
from .errands import LEAST_PYTHON, Errand, answers_of, reply_to, stdin_of_the_first


@dataclass(frozen=True, slots=True)
class There:
    """What is known of the machine behind the shell, and of the sandbox's folder on it."""

    base: str
    path: str
    python: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run takes place: a folder of its own, and the workspace, which may lie in that."""

    folder: str
    workspace: str
    alone: bool


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """A program to be run, and how."""

    program: Program
    toolset: Toolset
    seconds: float


async def arrive(sandbox: Sandbox, errand: Errand, folder: str | None) -> There:
    """Make a sandbox's folder, and put there what errands need. Raises `SandboxUnavailable`.

    It lies below `folder`, or where the machine has its temporary files.
    """
    least = ".".join(map(str, LEAST_PYTHON))
    needs = f"the {sandbox.traits.engine} engine needs Python {least} or newer behind its shell"

    def first(token: str) -> bytes:
        return stdin_of_the_first({"token": token, "folder": folder})

    try:
        reply, _ = await reply_to(answers_of(sandbox, errand, first))
        if "error" in reply:
            raise ShellError(str(reply["error"]))
        return There(base=str(reply["base"]), path=str(reply["path"]), python=str(reply["python"]))
    except NoShell as error:
        raise SandboxUnavailable(f"the {sandbox.traits.engine} engine: {error}") from error
    except ShellError as error:
        raise SandboxUnavailable(f"{needs}: {error}") from error
    except KeyError as error:
        raise SandboxUnavailable(f"{needs}, and its answer lacks {error}") from error
