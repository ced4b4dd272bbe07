"""The files below `output/`: what lay there before a run is noted, what is new or changed after it is told.

Bounded in every direction: programs choose how many there are, how large, how deep and under what names.
"""

from __future__ import annotations

import json
import os
import stat as stat_modes

from .answers import Answers
from .folders import FOLDER

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Tuple

    Marks = Dict[str, List[int]]

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_DEPTH = 32
_MAX_ENTRIES = 100_000
# All paths together: each may be as long as depth and names allow.
_MAX_PATH_CHARACTERS = 16 * 2**20
_MOST_WARNINGS = 100
_READ_BYTES = 256 * 1024
_MADE_ANEW = "output/ was no folder any more, since an earlier program had removed or replaced it: it was made anew"


def note(workspace: str, marks: str) -> None:
    """Write down in the file `marks` what lies in the workspace's output; where that is no folder, it is made anew."""
    made_anew = _make_anew(os.path.join(workspace, "output"))
    before = {path: _mark(status) for path, _, status in _Walk(workspace)}
    with open(marks, "w", encoding="ascii") as file:
        json.dump({"made_anew": made_anew, "before": before}, file)


def _make_anew(output: str) -> bool:
    try:
        if stat_modes.S_ISDIR(os.lstat(output).st_mode):
            return False
        os.unlink(output)
    except FileNotFoundError:
        pass
    os.mkdir(output, 0o755)
    return True


def tell(workspace: str, marks: str, most: int, most_bytes: int, answers: Answers) -> None:
    """Say each file that is new or changed since `note`, and a sentence for each thing that is left out."""
    try:
        with open(marks, encoding="ascii") as file:
            noted = json.load(file)
    except (OSError, ValueError):  # a program can reach it
        noted = {"made_anew": False, "before": {}}
    warnings: List[str] = [_MADE_ANEW] if noted["made_anew"] else []
    last: List[str] = []
    left = most_bytes
    told = 0
    walk = _Walk(workspace)
    for path, folder, status in walk:
        if noted["before"].get(path) == _mark(status):
            continue
        if not stat_modes.S_ISREG(status.st_mode):
            warnings.append("output/%s is not a regular file and was not collected" % _shown(path))
        elif told >= most:
            last.append("more than %s in output/: the rest was not collected" % _files(most))
            break
        elif status.st_size > left:
            mib = most_bytes // 2**20
            warnings.append("output/%s was not collected: the artifacts would exceed %d MiB" % (_shown(path), mib))
        else:
            try:
                left -= _tell_file(folder, path, status.st_size, answers)
            except OSError as error:
                warnings.append("output/%s could not be collected: %s" % (_shown(path), error.strerror))
                continue
            told += 1
    more = len(warnings) - _MOST_WARNINGS
    if more > 0:
        warnings[_MOST_WARNINGS:] = ["%s more were not collected" % format(more, ",")]
    answers.say_json("r", {"warnings": warnings + walk.left_out + last})


def _shown(path: str) -> str:
    return path if len(path) <= 200 else "%s…%s" % (path[:139], path[-60:])


def _files(count: int) -> str:
    return "1 file" if count == 1 else "%s files" % format(count, ",")


def _tell_file(folder: int, path: str, size: int, answers: Answers) -> int:
    """Say a file's name and its first `size` bytes, as many as it had when it was looked at; return how many."""
    descriptor = os.open(path.rpartition("/")[2], _FILE, dir_fd=folder)
    try:
        if not stat_modes.S_ISREG(os.fstat(descriptor).st_mode):
            return 0
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


def _mark(status: os.stat_result) -> List[int]:
    # The change time, unlike the modification time, cannot be set by a program.
    return [status.st_ino, status.st_ctime_ns]


class _Enough(Exception):
    """There is more than is looked at; the message says so."""


class _Walk:
    """Yields (path, open folder, status) of everything in `output` but folders; each folder is open meanwhile."""

    def __init__(self, workspace: str) -> None:
        self.left_out: List[str] = []
        self._workspace = workspace
        self._entries = 0
        self._characters = 0

    def __iter__(self) -> Iterator[Tuple[str, int, os.stat_result]]:
        workspace = os.open(self._workspace, FOLDER)
        try:
            for found in self._below(workspace, "output", "", 0):
                yield found
        except _Enough as enough:
            self.left_out.append(str(enough))
        finally:
            os.close(workspace)

    def _below(self, parent: int, name: str, prefix: str, depth: int) -> Iterator[Tuple[str, int, Any]]:
        try:
            folder = os.open(name, FOLDER, dir_fd=parent)
        except OSError as error:
            if depth == 0 and not isinstance(error, FileNotFoundError):
                self.left_out.append("output/ is no longer a folder: nothing was collected")
            return
        try:
            for entry in os.listdir(folder):
                path = prefix + entry
                self._count(path)
                try:
                    status = os.stat(entry, dir_fd=folder, follow_symlinks=False)
                except OSError:  # removed meanwhile
                    continue
                if not stat_modes.S_ISDIR(status.st_mode):
                    yield path, folder, status
                elif depth < _MAX_DEPTH:
                    for found in self._below(folder, entry, path + "/", depth + 1):
                        yield found
                else:
                    self.left_out.append("output/%s is nested too deeply and was not collected" % _shown(path))
        finally:
            os.close(folder)

    def _count(self, path: str) -> None:
        self._entries += 1
        self._characters += len(path)
        if self._entries > _MAX_ENTRIES:
            raise _Enough("more than %s entries in output/: the rest was not looked at" % format(_MAX_ENTRIES, ","))
        if self._characters > _MAX_PATH_CHARACTERS:
            raise _Enough(
                "the paths in output/ are long, %s were looked at: the rest was not" % format(self._entries, ",")
            )
