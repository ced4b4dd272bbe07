"""The sandbox's folder on another machine, which is to be there still when a connection is lost."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actbox.core.errors import SandboxUnavailable

from .place import Place

# What is to be done comes on standard input. Constant, so that no path is part of a command line.
_DO: Final = """
import json, os, sys, tempfile
told = json.load(sys.stdin)
try:
    if told["do"] == "make":
        folder = os.path.realpath(tempfile.mkdtemp(prefix="actbox-", dir=told["folder"]))
        for name in ("workspace", "workspace/input", "workspace/output", "tmp"):
            os.mkdir(os.path.join(folder, name), 0o755)
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH") or os.defpath])
        said = {"folder": folder, "path": path}
    else:
        tree = {"__name__": "tree"}
        exec(compile(told["tree"], "<actbox>/tree.py", "exec"), tree)
        tree["remove_folder"](told["folder"])
        said = {}
except OSError as error:
    said = {"error": str(error)}
print()
print("actbox: " + json.dumps(said))
"""
# How a folder is removed in which a program may have made others as deep as it likes.
_TREE: Final = Path(__file__).resolve().parents[2] / "guest" / "tree.py"
_MARK = "actbox: "
# On top of what a connection may take.
_SECONDS = 60
_MOST_SAID = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder there, with `workspace` and `tmp` in it; `search` is where commands are looked for on that machine."""

    path: str
    search: str


def make_folder(place: Place) -> Folder:
    """Make a folder. Blocks. Raises `SandboxUnavailable`."""
    said = _ask(place, {"do": "make", "folder": place.folder})
    return Folder(path=str(said["folder"]), search=str(said["path"]))


def remove_folder(place: Place, folder: Folder) -> None:
    """Remove a folder and all that programs have put there. Blocks. Raises `SandboxUnavailable`."""
    _ask(place, {"do": "remove", "folder": folder.path, "tree": _TREE.read_text("utf-8")})


def _ask(place: Place, told: dict[str, Any]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            place.command([place.python, "-I", "-c", _DO]),
            input=json.dumps(told).encode(),
            capture_output=True,
            timeout=place.connect_seconds + _SECONDS,
            check=False,
        )
    except OSError as error:
        raise SandboxUnavailable(
            f"the ssh command cannot be started: {error.strerror}; install openssh-client"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SandboxUnavailable(f"{place.host} did not answer within {error.timeout:.0f} seconds") from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = next((line[len(_MARK) :] for line in reversed(lines) if line.startswith(_MARK)), None)
    if said is None:
        why = done.stderr.decode("utf-8", "replace").strip()[-_MOST_SAID:] or f"exit code {done.returncode}"
        raise SandboxUnavailable(f"{place.host} cannot be used: {why}{_advice(place, why)}")
    answer: dict[str, Any] = json.loads(said)
    if "error" in answer:
        raise SandboxUnavailable(f"the workspace on {place.host}: {answer['error']}")
    return answer


def _advice(place: Place, said: str) -> str:
    """Return what to do about what ssh said, where it does not say so itself."""
    if "Host key verification failed" in said:
        by_hand = " ".join(["ssh", *(["-p", str(place.port)] if place.port else []), place.host])
        return (
            f". Nobody is asked whether to believe it: connect once by hand (`{by_hand}`) and compare its key, or name"
            " a file that has it, as ssh-keyscan writes one: known_hosts='FILE'"
        )
    if "Permission denied (" in said:
        return ". It must let this account in without asking: name a private key, key='FILE', or let ssh-agent have it"
    return ""
