"""The files below `output/`: what lay there before a run is noted, what is new or changed after it is told.

Bounded in every direction: programs choose how many there are, how large, how deep and under what names.
"""

from __future__ import annotations

import json
import os
import stat as stat_modes

from ..tree import TooMuch, Tree
from .answers import Answers

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import List

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_WARNINGS = 100
_MOST_OF_A_PATH, _ITS_BEGINNING, _ITS_END = 200, 139, 60
_READ_BYTES = 256 * 1024
_MADE_ANEW = "output/ was no folder any more, since an earlier program had removed or replaced it: it was made anew"


def note(workspace: str, marks: str) -> None:
    """Write down in the file `marks` what lies in the workspace's output; where that is no folder, it is made anew."""
    before, made_anew = Tree(workspace).mark()
    with open(marks, "w", encoding="ascii") as file:
        json.dump({"made_anew": made_anew, "before": before}, file)


def tell(workspace: str, marks: str, most: int, most_bytes: int, answers: Answers) -> None:
    """Say each file that is new or changed since `note`, and a sentence for each thing that is left out."""
    try:
        with open(marks, encoding="ascii") as file:
            noted = json.load(file)
    except (OSError, ValueError):  # a program can reach it
        noted = {"made_anew": False, "before": {}}
    warnings: List[str] = [_MADE_ANEW] if noted["made_anew"] else []
    last: List[str] = []
    too_deep: List[str] = []
    left = most_bytes
    told = 0
    try:
        for path, folder, status in Tree(workspace).outputs(too_deep):
            if noted["before"].get(path) == [status.st_ino, status.st_ctime_ns]:
                continue
            name = "output/" + _shown(path)
            if not stat_modes.S_ISREG(status.st_mode):
                warnings.append("%s is not a regular file and was not collected" % name)
            elif told >= most:
                files = "1 file" if most == 1 else "%s files" % format(most, ",")
                raise TooMuch("more than %s in output/: the rest was not collected" % files)
            elif status.st_size > left:
                mib = most_bytes // 2**20
                warnings.append("%s was not collected: the artifacts would exceed %d MiB" % (name, mib))
            else:
                try:
                    left -= _tell_file(folder, path, status.st_size, answers)
                    told += 1
                except OSError as error:
                    warnings.append("%s could not be collected: %s" % (name, error.strerror))
    except TooMuch as enough:
        last.append(str(enough))
    warnings += ["output/%s is nested too deeply and was not collected" % _shown(path) for path in too_deep]
    more = len(warnings) - _MOST_WARNINGS
    if more > 0:
        warnings[_MOST_WARNINGS:] = ["%s more were not collected" % format(more, ",")]
    answers.say_json("r", {"warnings": warnings + last})


def _shown(path: str) -> str:
    return path if len(path) <= _MOST_OF_A_PATH else "%s…%s" % (path[:_ITS_BEGINNING], path[-_ITS_END:])


def _tell_file(folder: int, path: str, size: int, answers: Answers) -> int:
    """Say a file's name and its first `size` bytes, as many as it had when it was looked at; return how many."""
    descriptor = os.open(path.rpartition("/")[2], _FILE, dir_fd=folder)
    try:
        if not stat_modes.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no regular file any more")
        answers.say_json("f", path)
        left = size
        while left:
            data = os.read(descriptor, min(left, _READ_BYTES))
            if not data:
                break
            left -= len(data)
            answers.say("b", data)
        return size - left
    finally:
        os.close(descriptor)
