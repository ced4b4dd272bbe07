"""Requests about the mailbox of a run: leave a piece for the run, and wait for one from it."""

from __future__ import annotations

import os
import time

from ..mailbox.folder import IN, OUT, read_piece, remove_piece, write_piece
from ..mailbox.transport import InvalidPiece
from .responses import ResponseWriter

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict

    Handler = Callable[[Dict[str, Any], IO[bytes], ResponseWriter], None]

_LOOK_SECONDS = 0.003


def put_piece(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Put a piece from standard input into the run's directory, unless the run is over."""
    responses.send_json("r", _put(request["folder"], request["number"], request["bytes"], stdin))


def put_all(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Put several pieces from standard input, each preceded by its number and length."""
    head = stdin.readline()
    while head:
        number, length = map(int, head.split())
        responses.send_json("r", _put(request["folder"], number, length, stdin))
        head = stdin.readline()


def _put(folder: str, number: int, length: int, stdin: IO[bytes]) -> Dict[str, str]:
    """Put a piece from standard input into the directory; return the reply."""
    data = stdin.read(length)
    try:
        if len(data) < length:
            raise OSError(0, "a part of it was lost on the way")
        write_piece(os.path.join(folder, IN), number, data)
    except FileNotFoundError:  # the directory is gone, because the run is over
        return {}
    except OSError as error:
        return {"error": error.strerror or str(error)}
    return {}


def wait_for_piece(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Return a piece as soon as it exists, if it comes within `seconds`; the piece before it was taken.

    If the request has `bytes`, that many on standard input are put first, as piece number `put` in the other direction.
    """
    failed = _put(request["folder"], request["put"], request["bytes"], stdin) if request["bytes"] else {}
    if failed:
        responses.send_json("r", failed)
        return
    place = os.path.join(request["folder"], OUT)
    number = request["number"]
    if number > 1:
        remove_piece(place, number - 1)
    deadline = time.monotonic() + request["seconds"]
    was_there = False
    try:
        piece = read_piece(place, number, request["most"])
        while piece is None and time.monotonic() < deadline:
            is_there = os.path.isdir(place)
            if was_there and not is_there:  # the run is over
                break
            was_there = is_there
            time.sleep(_LOOK_SECONDS)
            piece = read_piece(place, number, request["most"])
    except InvalidPiece as error:
        responses.send_json("r", {"nonsense": str(error)})
        return
    except OSError as error:
        responses.send_json("r", {"error": error.strerror or str(error)})
        return
    if piece is not None:
        responses.send("b", piece)
    responses.send_json("r", {})


HANDLERS: Dict[str, Handler] = {"put": put_piece, "put_all": put_all, "wait": wait_for_piece}
