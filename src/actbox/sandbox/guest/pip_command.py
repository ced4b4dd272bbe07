"""The `pip` command of a session: asks the host to install packages, and refuses in a sentence what it cannot do.

A session imports this file as `pip`. In its first process `install` is replaced by a function that asks the host
(`session_packages.py`). A process that a program starts has no way to the host; there the command only says whether the
packages are installed, because the host was asked before that process began.
"""

from __future__ import annotations

import os
import re
import shlex
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Iterator, List, Optional, Sequence

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_PIP = re.compile(r"pip[\d.]*")
_PYTHON = re.compile(r"python[\d.]*")
_SHELLS = ("sh", "bash", "dash")
# Options of `pip install` that change nothing here.
_HARMLESS = frozenset(
    [
        *("-q", "-qq", "--quiet", "-v", "--verbose", "-U", "--upgrade", "--user", "--system", "-y", "--yes"),
        *("--no-cache", "--no-cache-dir", "--no-input", "--no-color", "--disable-pip-version-check"),
        *("--break-system-packages", "--no-warn-script-location", "--prefer-binary", "--only-binary=:all:"),
    ]
)
_HARMLESS_WITH_VALUE = ("--progress-bar", "--root-user-action", "--upgrade-strategy")
# A comment of a shell, with what comes before it on its line.
_COMMENT = r"""(?m)^((?:[^'"\n]|'[^'\n]*'|"[^"\n]*")*?)(?<!\S)#.*$"""  # compiled when it is first used
_CAN = "`pip install` with requirements, `pip list`, `pip freeze` and `pip show` work here"


class CannotDo(Exception):
    """Raised for a command that `pip` does not do here; the message is for whoever wrote the command."""


# Programs see the bare name, as with a built-in exception.
CannotDo.__module__ = "builtins"
CannotDo.__name__ = CannotDo.__qualname__ = "PipError"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a pip command as a process does; return its exit code."""
    try:
        run(sys.argv[1:] if arguments is None else arguments)
    except CannotDo as error:
        print("ERROR: %s" % error, file=sys.stderr)
        return 1
    return 0


def run(arguments: Sequence[str]) -> None:
    """Run a pip command and print its output. Raises `CannotDo`, and the errors of `install`."""
    command, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if command in ("--version", "-V"):
        print("pip of actbox, which installs what the policy of this sandbox allows")
    elif command == "install":
        wanted = requirements_of(rest)
        installed = install(wanted)
        if installed:
            print("Successfully installed %s" % " ".join(installed))
        else:
            print("Requirement already satisfied: %s" % ", ".join(wanted))
    elif command in ("list", "freeze"):
        shape = "%s==%s" if command == "freeze" else "%-30s %s"
        for name, version in sorted(_installed()):
            print(shape % (name, version))
    elif command == "show":
        for name in rest:
            if not name.startswith("-"):
                _show(name)
    else:
        raise CannotDo("`pip %s` is not for programs of a sandbox: %s" % (command, _CAN))


def install(requirements: List[str]) -> List[str]:
    """Return the names with versions of the packages that were installed, none if all were there.

    This function can install nothing. Raises `CannotDo` if a package is missing.
    """
    for one in requirements:
        name = _NAME.match(one)
        if name is None or _distribution(name[0]) is None:
            raise CannotDo(
                "%s is not installed, and this process cannot ask for it: write a line `%%pip install %s` in the"
                " program itself" % (one, shlex.quote(one))
            )
    return []


def requirements_of(arguments: Sequence[str], folder: str = "") -> List[str]:
    """Return the requirements among the arguments of `pip install`. Raises `CannotDo` for an option that would count.

    `folder` is the working directory of the command.
    """
    found = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if argument in ("-r", "--requirement") and left:
            found += _lines_of(os.path.join(folder, left.pop(0)))
        elif argument.startswith("--requirement="):
            found += _lines_of(os.path.join(folder, argument.partition("=")[2]))
        elif argument in _HARMLESS_WITH_VALUE:
            del left[:1]
        elif argument in _HARMLESS or argument.startswith(tuple(name + "=" for name in _HARMLESS_WITH_VALUE)):
            pass
        elif argument.startswith("-"):
            raise CannotDo("`pip install` takes no option %s here: name requirements such as 'pandas>=2.2'" % argument)
        else:
            found.append(argument)
    if not found:
        raise CannotDo("`pip install` needs a requirement, such as 'pandas>=2.2'")
    return found


def arguments_of(words: Sequence[str]) -> Optional[List[str]]:
    """Return the arguments of pip in a command such as `python -m pip install x`, `None` for any other command."""
    names = [os.path.basename(word) for word in words[:1]] + list(words[1:3])
    if names[:1] and _PIP.fullmatch(names[0]):
        return list(words[1:])
    if names[:2] == ["uv", "pip"]:
        return list(words[2:])
    if len(names) == 3 and _PYTHON.fullmatch(names[0]) and names[1:] == ["-m", "pip"]:
        return list(words[3:])
    return None


def commands_in(words: Any) -> Iterator[List[str]]:
    """Yield the arguments of each pip command in the words of a command, or in the text of a shell."""
    if isinstance(words, (list, tuple)):
        words = [os.fsdecode(word) for word in words]
        if not (len(words) > 2 and os.path.basename(words[0]) in _SHELLS and words[1] == "-c"):
            found = arguments_of(words)
            if found is not None:
                yield found
            return
        words = words[2]
    for part in _parts(os.fsdecode(words)):
        found = arguments_of(part)
        if found is not None:
            yield found


def _parts(text: str) -> Iterator[List[str]]:
    """Yield the words of each simple command of a shell's text, without redirections."""
    part: List[str] = []
    skip = False
    tokens = shlex.shlex(re.sub(_COMMENT, r"\1", text).replace("\n", " ; "), posix=True, punctuation_chars=True)
    tokens.whitespace_split, tokens.commenters = True, ""
    try:
        for token in tokens:
            if token[0] in "<>":
                if part and part[-1].isdigit():
                    part.pop()
                skip = True
            elif token[0] in ";&|()":
                yield part
                part = []
            elif skip:
                skip = False
            else:
                part.append(token)
    except ValueError:  # such as a quote without its end: the shell will say so
        return
    yield part


def _lines_of(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        raise CannotDo("%s cannot be read: %s" % (path, error)) from None
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line]


def _installed() -> Iterator[Any]:
    from importlib.metadata import distributions

    seen = set()
    for one in distributions():
        name = one.metadata["Name"]
        if name and name.lower() not in seen:  # the first on the path counts
            seen.add(name.lower())
            yield name, one.version


def _distribution(name: str) -> Any:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _show(name: str) -> None:
    found = _distribution(name)
    if found is None:
        raise CannotDo("%s is not installed" % name)
    for field in ("Name", "Version", "Summary", "Home-page", "License"):
        print("%s: %s" % (field, found.metadata.get(field) or ""))
    print("Requires: %s" % ", ".join(found.requires or ()))
