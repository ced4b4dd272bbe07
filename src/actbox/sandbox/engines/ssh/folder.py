"""The sandbox's directory on another machine, which outlives a lost connection."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from actbox.core.errors import SandboxUnavailable

from .target import SshTarget

# The request comes on standard input. This text is constant, so that no path is part of a command line.
_DO: Final = """
import json, os, sys, tempfile
request = json.load(sys.stdin)
try:
    if request["do"] == "make":
        folder = os.path.realpath(tempfile.mkdtemp(prefix="actbox-", dir=request["folder"]))
        for name in ("workspace", "workspace/input", "workspace/output", "tmp"):
            os.mkdir(os.path.join(folder, name), 0o755)
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH") or os.defpath])
        said = {"folder": folder, "path": path}
    else:
        beneath = {"__name__": "beneath"}
        exec(compile(request["beneath"], "<actbox>/beneath.py", "exec"), beneath)
        beneath["remove_folder"](request["folder"])
        said = {}
except OSError as error:
    said = {"error": str(error)}
print()
print("actbox: " + json.dumps(said))
"""
# The code that removes a directory in which a program may have nested directories to any depth.
_BENEATH: Final = Path(__file__).resolve().parents[2] / "guest" / "beneath.py"
MARK: Final = "actbox: "
# The most seconds besides the time to connect.
_SECONDS = 60
_MOST_SAID = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A directory there, with `workspace` and `tmp` in it; `search` is that machine's search path for commands."""

    path: str
    search: str


def make_folder(target: SshTarget) -> Folder:
    """Make the directory. Blocks. Raises `SandboxUnavailable`."""
    said = _ask(target, {"do": "make", "folder": target.folder})
    return Folder(path=str(said["folder"]), search=str(said["path"]))


def remove_folder(target: SshTarget, folder: Folder) -> None:
    """Remove the directory with everything in it. Blocks. Raises `SandboxUnavailable`."""
    _ask(target, {"do": "remove", "folder": folder.path, "beneath": _BENEATH.read_text("utf-8")})


def run_there(target: SshTarget, code: str, *arguments: str, given: IO[bytes], seconds: float = _SECONDS) -> str:
    """Run a program of ours there, and return what it says in its line that starts with `MARK`. Blocks.

    `given` is its standard input, and `seconds` its time besides that to connect. Raises `SandboxUnavailable`.
    """
    try:
        done = subprocess.run(
            target.command([target.python, "-I", "-c", code, *arguments]),
            stdin=given,
            capture_output=True,
            timeout=target.connect_seconds + seconds,
            check=False,
        )
    except OSError as error:
        raise SandboxUnavailable(
            f"the ssh command cannot be started: {error.strerror}; install openssh-client"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SandboxUnavailable(f"{target.host} did not answer within {error.timeout:.0f} seconds") from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = next((line[len(MARK) :] for line in reversed(lines) if line.startswith(MARK)), None)
    if said is None:
        why = done.stderr.decode("utf-8", "replace").strip()[-_MOST_SAID:] or f"exit code {done.returncode}"
        raise SandboxUnavailable(f"{target.host} cannot be used: {why}{_advice(target, why)}")
    return said


def _ask(target: SshTarget, request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(request).encode())
        given.seek(0)
        answer: dict[str, Any] = json.loads(run_there(target, _DO, given=given))
    if "error" in answer:
        raise SandboxUnavailable(f"the workspace on {target.host}: {answer['error']}")
    return answer


def _advice(target: SshTarget, said: str) -> str:
    """Return advice on an error of ssh that does not explain itself."""
    if "Host key verification failed" in said:
        by_hand = " ".join(["ssh", *(["-p", str(target.port)] if target.port else []), target.host])
        return (
            f". Nobody is asked whether to believe it: connect once by hand (`{by_hand}`) and compare its key, or name"
            " a file that has it, as ssh-keyscan writes one: known_hosts='FILE'"
        )
    if "Permission denied (" in said:
        return ". It must let this account in without asking: name a private key, key='FILE', or let ssh-agent have it"
    return ""
