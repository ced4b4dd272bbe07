"""Programs in compiled languages: a Python program that builds one with the sandbox's own compiler, and runs it.

A sandbox whose engine runs Python, such as a container whose image has `rustc`, so runs Rust too. The program has the
same inputs, directories, limits and events as one in Python, but no tools and no variables.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .programs import FOLDER, Runnable, layout_of
from .response import CodingResponse

_SIGNALLED: Final = 128
_MOST_WORDS: Final = 4_000
_PLACE: Final = re.compile(r"(?:--> )?(?P<file>[^\s:]+):(?P<line>[0-9]+):")
_AN_ERROR: Final = re.compile(r"\berror\b")
_JAVA_CLASS: Final = re.compile(r"\bclass\s+([A-Za-z_]\w*)")
_JAVA_PUBLIC: Final = re.compile(r"\bpublic\s+(?:final\s+|abstract\s+)*class\s+([A-Za-z_]\w*)")
_JAVA_PACKAGE: Final = re.compile(r"(?m)^[ \t]*package\s+([\w.]+)\s*;")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The commands of a language, for programs whose main file is `main` and whose files have one of `suffixes`.

    `{main}` is the main file, `{sources}` are all files, and `{out}` is the file or the directory for what is built.
    `env` are variables that the sandbox may set otherwise: without a `GOCACHE` that lasts, each program builds Go's own
    library first, which takes ten seconds.
    """

    main: str
    suffixes: tuple[str, ...]
    build: tuple[str, ...]
    run: tuple[str, ...] = ("{out}",)
    env: Mapping[str, str] = field(default_factory=dict)


TOOLCHAINS: Final[Mapping[str, Toolchain]] = {
    "c": Toolchain("main.c", (".c",), ("cc", "-O1", "-o", "{out}", "{sources}", "-lm")),
    "c++": Toolchain("main.cpp", (".cpp", ".cc", ".cxx"), ("c++", "-std=c++17", "-O1", "-o", "{out}", "{sources}")),
    "rust": Toolchain("main.rs", (".rs",), ("rustc", "--edition", "2021", "-O", "-o", "{out}", "{main}")),
    "go": Toolchain(
        "main.go",
        (".go",),
        ("go", "build", "-o", "{out}", "{sources}"),
        env={"GO111MODULE": "off", "GOCACHE": "{home}/cache", "GOPATH": "{home}/go"},
    ),
    "java": Toolchain(
        "Main.java", (".java",), ("javac", "-d", "{out}", "{sources}"), ("java", "-cp", "{out}", "{class}")
    ),
}
"""The toolchains of the languages that have one."""

_LAUNCHER: Final = """
import json, os, shutil, subprocess, sys, tempfile
job = json.loads(JOB)
home = tempfile.mkdtemp(prefix=".build-", dir=os.getcwd())
source, out = os.path.join(home, "program"), os.path.join(home, "out")
shutil.copytree(os.path.join("input", job["folder"]), source)
os.makedirs(out) if job["class"] else None
def words(command):
    for word in command:
        if word == "{sources}":
            yield from job["sources"]
        else:
            for name, text in (("out", out), ("main", job["main"]), ("class", job["class"])):
                word = word.replace("{" + name + "}", text)
            yield word
environment = {**{name: text.replace("{home}", home) for name, text in job["env"].items()}, **os.environ}
ended = {"step": "build"}
try:
    built = subprocess.run(
        list(words(job["build"])), cwd=source, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    ended |= {"code": built.returncode, "words": built.stdout[:job["most"]]}
    if built.returncode == 0:
        ended = {"step": "run"}
        stdin = open(os.path.join("input", job["stdin"]), "rb") if job["stdin"] else subprocess.DEVNULL
        ran = subprocess.run([*words(job["run"]), *job["arguments"]], env=environment, stdin=stdin)
        ended["code"] = ran.returncode
        if ran.returncode < 0:
            sys.exit(128 - ran.returncode)  # the engine knows if it was for lack of memory
    else:
        sys.stderr.write(built.stdout)
except FileNotFoundError as error:
    ended["missing"] = error.filename
shutil.rmtree(home, ignore_errors=True)
ended
"""


def is_built(language: str, box: Sandbox) -> bool:
    """Return True if programs in a language are built in a sandbox, which may still lack the compiler."""
    traits = box.traits
    runs_python = "python" in traits.languages and traits.python == "full" and traits.files
    return runs_python and language in TOOLCHAINS and language not in traits.languages


def launched(response: CodingResponse, made: Runnable) -> Program:
    """Return the Python program that builds and runs the program of a response."""
    chain, layout = TOOLCHAINS[response.language], layout_of(response)
    main, main_class = layout.name if layout.name.endswith(chain.suffixes) else chain.main, ""
    if response.language == "java":
        main, main_class = _java_names(layout.source)
    texts = {**layout.others, main: layout.source}
    job = {
        "folder": FOLDER,
        "main": main,
        "class": main_class,
        "sources": sorted(path for path in texts if path.endswith(chain.suffixes)),
        "build": chain.build,
        "run": chain.run,
        "env": dict(chain.env),
        "stdin": made.stdin,
        "arguments": made.arguments,
        "most": _MOST_WORDS,
    }
    program = made.program
    files = {name: data for name, data in program.files.items() if not name.startswith(f"{FOLDER}/")}
    files |= {f"{FOLDER}/{path}": text.encode() for path, text in texts.items()}
    return Program(_LAUNCHER.replace("JOB", repr(json.dumps(job))), files=files, label=program.label)


def _java_names(source: str) -> tuple[str, str]:
    """Return the file of a Java program's main class, and the class with its package."""
    named = _JAVA_PUBLIC.search(source) or _JAVA_CLASS.search(source)
    name = named[1] if named else "Main"
    package = _JAVA_PACKAGE.search(source)
    return f"{name}.java", f"{package[1]}.{name}" if package else name


def result_of_launched(result: ExecutionResult, response: CodingResponse) -> ExecutionResult:
    """Return the result of a program from that of its launcher. Errors of the compiler are `ErrorKind.SYNTAX`."""
    ended: Any = result.value
    result = replace(result, code=response.source, language=response.language, value=None, value_text=None)
    if result.error is not None and result.error.kind is ErrorKind.EXIT:
        number = result.exit_code - _SIGNALLED
        name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
        about = ErrorInfo(kind=ErrorKind.CRASH, type=name, message=f"the program was ended by {name}")
        return replace(result, error=about)
    if not result.success:
        return result  # such as for lack of time or memory
    if not isinstance(ended, Mapping):
        about = ErrorInfo(kind=ErrorKind.SANDBOX, message="nobody knows how the program ended")
        return replace(result, exit_code=125, error=about)
    if missing := ended.get("missing"):
        hint = "Whoever opens the sandbox can take an image that has it."
        message = f"the sandbox has no {missing}, which programs in {response.language} need"
        return replace(result, exit_code=127, error=ErrorInfo(kind=ErrorKind.UNSUPPORTED, message=message, hint=hint))
    code = int(ended["code"])
    if ended["step"] == "build" and code:
        return replace(result, exit_code=1, error=_error_of_build(str(ended["words"]), response.language))
    if code:
        about = ErrorInfo(kind=ErrorKind.EXIT, message=f"the program ended itself with exit code {code}")
        return replace(result, exit_code=code, error=about)
    return result


def _error_of_build(words: str, language: str) -> ErrorInfo:
    """Return the error of a build: the compiler's first error, and its line in a file of the program."""
    lines = [line.strip() for line in words.splitlines() if line.strip() and not line.startswith("#")]
    first = next((at for at, line in enumerate(lines) if _AN_ERROR.search(line)), 0)  # warnings may come before it
    places = (found for line in lines[first:] if (found := _PLACE.match(line)))
    suffixes = TOOLCHAINS[language].suffixes
    return ErrorInfo(
        kind=ErrorKind.SYNTAX,
        type="CompileError",
        message=lines[first] if lines else "the compiler failed",
        line=next((int(one["line"]) for one in places if one["file"].endswith(suffixes)), None),
    )
