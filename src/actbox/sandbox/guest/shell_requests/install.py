"""The first request: makes a directory for the sandbox, and writes the guest's sources there.

It is sent as text and run as it is, so it imports nothing of the guest. `r` is the rest of standard input.
"""

from __future__ import annotations

import base64
import compileall
import json
import os
import sys
import tempfile

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict


def install(request: Dict[str, Any], stdin: IO[bytes]) -> Dict[str, Any]:
    """Return the paths of what was made, or `error`: why nothing was made."""
    if sys.version_info < tuple(request["least"]):
        return {"error": "it is Python %d.%d" % sys.version_info[:2]}
    if os.name != "posix":
        return {"error": "it is Python of a system that is not POSIX"}
    try:
        base = os.path.realpath(tempfile.mkdtemp(prefix="actbox-", dir=request["folder"]))
        for name in (
            "code/guest/shell_requests",
            "code/guest/mailbox",
            "workspace/input",
            "workspace/output",
            "runs",
            "drafts",
            "tmp",
        ):
            os.makedirs(os.path.join(base, name))
        for name, source in json.loads(stdin.read().decode("utf-8")).items():
            with open(os.path.join(base, "code", "guest", name), "w", encoding="utf-8") as file:
                file.write(source)
        compileall.compile_dir(os.path.join(base, "code"), quiet=2)
    except OSError as error:
        return {"error": "no directory can be made for it: %s" % error}
    return {
        "base": base,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "platform": sys.platform,
        "path": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH") or os.defpath]),
    }


def respond(stdin: IO[bytes]) -> None:
    """Carry out the request, and respond as `responses.py` does."""
    request = json.loads(stdin.read(int(stdin.readline())).decode("utf-8"))
    reply = base64.b64encode(json.dumps(install(request, stdin)).encode("utf-8")).decode("ascii")
    sys.stdout.write("\n%s\nr%s\nz\n" % (request["token"], reply))
    sys.stdout.flush()


if __name__ == "__main__":
    respond(r)  # type: ignore[name-defined]  # noqa: F821
