"""What is sent through a shell: always the same short command, and on its standard input what it is to do.

Nothing that a caller gives is ever part of a command line: no path, no code, no content, no variable. Python is what
the other end needs, and not the usual commands of a shell, since only a program can open a folder without following a
link, tell by number why something failed, and take any bytes as a name.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from actbox.core.events import Completed, Output
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox, closing

from .answers import Answers, NoShell, ShellError

LEAST_PYTHON: Final = (3, 9)
# Reads a length and as much source, and runs it. Free of quotes and spaces that a shell could take for its own.
_BOOT: Final = "import sys;r=sys.stdin.buffer;exec(r.read(int(r.readline())))"
_LOADER: Final = b"""import importlib, json, types
request = json.loads(r.read(int(r.readline())))
package = types.ModuleType("_actbox")
package.__path__ = [request["code"]]
sys.modules["_actbox"] = package
importlib.import_module("_actbox.guest.errands.main").main(request, r)
"""
_GUEST = Path(__file__).resolve().parents[1] / "guest"
_MOST_OF_A_COMPLAINT = 500
_MOST_OF_A_REPLY = 256 * 2**20


class Errand(tuple[str, ...]):
    """The arguments of a command that a `ShellSandbox` itself asks its shell for.

    Limits on the output and the time of programs are not for it: files and results come through it.
    """


def errand_of(python: str) -> Errand:
    """Return the command that every errand is."""
    return Errand((python, "-I", "-X", "utf8", "-c", _BOOT))


def stdin_of(request: Mapping[str, Any], payload: bytes | memoryview = b"") -> bytes:
    """Return the standard input that has an errand do what the request says."""
    return _with_source(_LOADER, request, payload)


def stdin_of_the_first(request: Mapping[str, Any]) -> bytes:
    """Return the standard input that has the guest's sources put where all other errands find them."""
    sources = {str(path.relative_to(_GUEST)): path.read_text("utf-8") for path in sorted(_GUEST.rglob("*.py"))}
    install = sources["errands/install.py"].encode()
    return _with_source(install, {**request, "least": LEAST_PYTHON}, json.dumps(sources).encode())


def _with_source(source: bytes, request: Mapping[str, Any], payload: bytes | memoryview) -> bytes:
    told = json.dumps(request).encode("ascii")
    return b"%d\n%s%d\n%s%s" % (len(source), source, len(told), told, payload)


async def answers_of(
    sandbox: Sandbox, errand: Errand, stdin_for: Callable[[str], bytes]
) -> AsyncGenerator[tuple[str, bytes]]:
    """Send an errand and yield its answers, `z` last. `stdin_for` is given the token that the answers begin with.

    Raises `ShellError` where the shell ends without it, or says something else.
    """
    token = f"actbox-{secrets.token_hex(16)}"
    answers = Answers(token)
    complaint = ""
    result = ExecutionResult()
    is_over = False
    events = sandbox.execute_stream(errand, stdin=stdin_for(token), cwd="/")
    try:
        async with closing(events):
            async for event in events:
                if isinstance(event, Output) and event.stream == "stdout":
                    for kind, data in answers.feed(event.text):
                        is_over = is_over or kind == "z"
                        yield kind, data
                elif isinstance(event, Output):
                    complaint = (complaint + event.text)[-_MOST_OF_A_COMPLAINT:]
                elif isinstance(event, Completed):
                    result = event.result
    except OSError as error:
        if error.filename == errand[0]:
            raise ShellError(f"the shell has no {errand[0]!r}") from error
        which = f": {error.filename}" if error.filename else ""
        raise NoShell(f"the shell cannot be had: {error.strerror or error}{which}") from error
    if not is_over:
        raise ShellError(_why(errand, result, complaint.strip()))


def _why(errand: Errand, result: ExecutionResult, complaint: str) -> str:
    if result.error is not None and not complaint:
        complaint = result.error.message
    said = f", and said: {complaint}" if complaint else ""
    if result.exit_code == 127:  # as every shell has it
        return f"the shell has no {errand[0]!r}{said}"
    return f"the shell ended its command with exit code {result.exit_code}{said}"


async def reply_to(answers: AsyncGenerator[tuple[str, bytes]], most: int = 0) -> tuple[dict[str, Any], bytes]:
    """Return an errand's reply, and the bytes of a file that came with it, at most so many. Raises `ShellError`.

    The other end may say anything: a program can have written over the errands that lie there.
    """
    reply, content = bytearray(), bytearray()
    async with aclosing(answers):
        async for kind, data in answers:
            if kind in "rb":
                (reply if kind == "r" else content).extend(data)
            if len(reply) > _MOST_OF_A_REPLY or len(content) > most:
                raise ShellError("the shell's answer is longer than what was asked for")
    return as_object(reply), bytes(content)


def as_object(data: bytes | bytearray) -> dict[str, Any]:
    """Return JSON that is an object. Raises `ShellError`."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ShellError("the shell's answer is no JSON object")
    return value
