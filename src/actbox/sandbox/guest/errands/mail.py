"""Errands about the mail of a run: to put a piece where the run finds it, and to wait for one of the run's."""

from __future__ import annotations

import os
import time

from ..mail.folder import IN, OUT, drop, put, take
from ..mail.posts import Nonsense
from .answers import Answers

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict

    Errand = Callable[[Dict[str, Any], IO[bytes], Answers], None]

_LOOK_SECONDS = 0.003


def put_piece(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Have what is on standard input lie in the run's folder, unless the run is over."""
    answers.say_json("r", _put(request["folder"], request["number"], request["bytes"], stdin))


def put_all(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Do so with piece after piece, each behind its number and its length."""
    head = stdin.readline()
    while head:
        number, length = map(int, head.split())
        answers.say_json("r", _put(request["folder"], number, length, stdin))
        head = stdin.readline()


def _put(folder: str, number: int, length: int, stdin: IO[bytes]) -> Dict[str, str]:
    """Put a piece of standard input; return the reply to whoever wants to know how that went."""
    data = stdin.read(length)
    try:
        if len(data) < length:
            raise OSError(0, "a part of it was lost on the way")
        put(os.path.join(folder, IN), number, data)
    except FileNotFoundError:  # the folder, as the run is over
        return {}
    except OSError as error:
        return {"error": error.strerror or str(error)}
    return {}


def wait_for_piece(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Say a piece as soon as it is there, if it comes within `seconds`; the one before it was taken.

    If `bytes` are told, they are on standard input and put first, as piece number `put` the other way.
    """
    failed = _put(request["folder"], request["put"], request["bytes"], stdin) if request["bytes"] else {}
    if failed:
        answers.say_json("r", failed)
        return
    place = os.path.join(request["folder"], OUT)
    number = request["number"]
    if number > 1:
        drop(place, number - 1)
    deadline = time.monotonic() + request["seconds"]
    was_there = False
    try:
        piece = take(place, number, request["most"])
        while piece is None and time.monotonic() < deadline:
            is_there = os.path.isdir(place)
            if was_there and not is_there:  # the run is over
                break
            was_there = is_there
            time.sleep(_LOOK_SECONDS)
            piece = take(place, number, request["most"])
    except Nonsense as error:
        answers.say_json("r", {"nonsense": str(error)})
        return
    except OSError as error:
        answers.say_json("r", {"error": error.strerror or str(error)})
        return
    if piece is not None:
        answers.say("b", piece)
    answers.say_json("r", {})


ERRANDS: Dict[str, Errand] = {"put": put_piece, "put_all": put_all, "wait": wait_for_piece}
