"""Records the files below `output/` before a run, and returns the new and changed ones after it.

Everything is bounded, because programs choose the number, sizes, depth and names of the files.
"""

from __future__ import annotations

import json
import os
import stat as stat_modes

from ..beneath import open_file
from ..tree import TooMuch, Tree
from .responses import ResponseWriter

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import List

_MOST_WARNINGS = 100
_MOST_OF_A_PATH, _ITS_BEGINNING, _ITS_END = 200, 139, 60
_READ_BYTES = 256 * 1024
_MADE_ANEW = "output/ was made anew, because an earlier program had removed it or replaced it by something else"


def mark_output(workspace: str, marks: str) -> None:
    """Write the change markers of `output` to the file `marks`, after making `output` unless it is a directory."""
    before, made_anew = Tree.at(workspace).mark()
    with open(marks, "w", encoding="ascii") as file:
        json.dump({"made_anew": made_anew, "before": before}, file)


def send_artifacts(workspace: str, marks: str, most: int, most_bytes: int, responses: ResponseWriter) -> None:
    """Return each new or changed file since `mark_output`, and one sentence for each omission."""
    try:
        with open(marks, encoding="ascii") as file:
            marked = json.load(file)
    except (OSError, ValueError):  # a program can reach the file
        marked = {"made_anew": False, "before": {}}
    warnings: List[str] = [_MADE_ANEW] if marked["made_anew"] else []
    last: List[str] = []
    too_deep: List[str] = []
    left = most_bytes
    sent = 0
    try:
        for path, folder, status in Tree.at(workspace).outputs(too_deep.append):
            if marked["before"].get(path) == [status.st_ino, status.st_ctime_ns]:
                continue
            name = "output/" + _shown(path)
            if not stat_modes.S_ISREG(status.st_mode):
                warnings.append("%s is not a regular file and was not collected" % name)
            elif sent >= most:
                files = "1 file" if most == 1 else "%s files" % format(most, ",")
                raise TooMuch("more than %s in output/: the rest was not collected" % files)
            elif status.st_size > left:
                mib = most_bytes // 2**20
                warnings.append("%s was not collected: the artifacts would exceed %d MiB" % (name, mib))
            else:
                try:
                    left -= _send_file(folder, path, status.st_size, responses)
                    sent += 1
                except OSError as error:
                    warnings.append("%s could not be collected: %s" % (name, error.strerror))
    except TooMuch as enough:
        last.append(str(enough))
    warnings += ["output/%s is nested too deeply and was not collected" % _shown(path) for path in too_deep]
    more = len(warnings) - _MOST_WARNINGS
    if more > 0:
        warnings[_MOST_WARNINGS:] = ["%s more were not collected" % format(more, ",")]
    responses.send_json("r", {"warnings": warnings + last})


def _shown(path: str) -> str:
    return path if len(path) <= _MOST_OF_A_PATH else "%s…%s" % (path[:_ITS_BEGINNING], path[-_ITS_END:])


def _send_file(folder: int, path: str, size: int, responses: ResponseWriter) -> int:
    """Return a file's name and its first `size` bytes, its size when it was listed; return how many bytes were sent."""
    descriptor = open_file(folder, path.rpartition("/")[2])
    try:
        responses.send_json("f", path)
        left = size
        while left:
            data = os.read(descriptor, min(left, _READ_BYTES))
            if not data:
                break
            left -= len(data)
            responses.send("b", data)
        return size - left
    finally:
        os.close(descriptor)
