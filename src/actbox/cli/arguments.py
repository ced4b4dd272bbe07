"""The parser of `actbox run`'s arguments: it makes a program and a policy, and needs no sandbox to reject wrong
ones.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn

from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount, MountMode
from actbox.core.packages import AUTO, HOST, Environment, PackagePolicy, PackageRules
from actbox.core.policy import Policy
from actbox.core.program import MAX_SOURCE_BYTES, Program
from actbox.sandbox.dependencies import asks_for_packages
from actbox.sandbox.languages import ENGINES_OF, language_of
from actbox.sandbox.opening import with_environment
from actbox.sandbox.visible_packages import visible_versions

from .approver import TerminalApprover
from .engine import Opening
from .errors import UsageError

if TYPE_CHECKING:
    from actbox.config import Config
    from actbox.review import Rules

_MODES: tuple[MountMode, ...] = ("ro", "rw", "overlay")
_MOUNT_HINT = (
    "write --mount HOST:GUEST or --mount HOST:GUEST:MODE with ro, rw or overlay, such as --mount data:/data:ro"
)

_LANGUAGES: Final = {
    ".py": "python",
    ".rtfs": "rtfs",
    **dict.fromkeys((".js", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
}
_FILES: Final = {"python": "a Python", "rtfs": "an RTFS", "javascript": "a JavaScript", "typescript": "a TypeScript"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The parsed command line of `actbox run`.

    `output` is an existing folder to save artifacts in, or `None`. `rules` are those of a review before the run; `None`
    is no review. `config` is what configuration files say, `None` without any.
    """

    program: Program
    policy: Policy
    output: Path | None = None
    rules: Rules | None = None
    config: Config | None = None

    def policy_for(self, opening: Opening) -> Policy:
        """Return the policy with the environment chosen, if that is left to actbox. Blocks. Raises `InvalidValue`."""
        if self.policy.environment != AUTO:
            return self.policy
        chosen = with_environment(
            self.policy,
            self.program,
            opening.engine,
            allow_unisolated=opening.allow_unisolated,
            options=opening.options,
        )
        return replace(chosen, packages=_packages(self.program, chosen.environment_name, self.config))

    @property
    def engine(self) -> str:
        """The engine for the program's language: `auto` for Python, else the first engine of that language."""
        language = self.program.language
        if self.config is not None and language == "python":
            return self.config.engine
        return "auto" if language == "python" else ENGINES_OF[language][0]


def parse_request(
    *,
    file: str | None,
    code: str | None,
    timeout: float | None,
    memory: int | None,
    inputs: Sequence[str],
    mounts: Sequence[str],
    domains: Sequence[str],
    preload: Sequence[str],
    output: Path | None,
    dependencies: Sequence[str] = (),
    files: Sequence[Path] = (),
    config: Sequence[Path] = (),
    environment: str = AUTO,
    rules: Sequence[str] = (),
    language: str | None = None,
    sandbox: str = "auto",
) -> RunRequest:
    """Return the program and policy that the options describe. Raises `UsageError`, which names the wrong option."""
    chosen = rules_from(rules) if rules else None
    try:
        settings = _config(config)
        dependencies = (*dependencies, *(one for file in files for one in _of_file(file)))
        language = language_of_file(file, language, sandbox)
        mounted = tuple(_mount(spec) for spec in mounts)
        values = _inputs(inputs)
        source, name = _source(file, code, language)
        program = Program(source, language, inputs=values, name=name, dependencies=tuple(dependencies))
        policy = Policy(
            limits=limits_from(timeout, memory),
            mounts=mounted,
            domains=tuple(_domain(spec) for spec in domains),
            preload=tuple(preload),
            environment=_environment(environment, settings),
            packages=_packages(program, environment, settings),
        )
    except InvalidValue as error:
        raise UsageError(str(error), "actbox run --help shows the form of each option") from None
    if chosen is not None:
        from actbox.review import check_readable  # imported only for a review, since the import takes long

        try:
            check_readable(program.language)
        except Unsupported as error:
            raise UsageError(f"--rule: {error}", "leave out --rule") from None
    return RunRequest(program=program, policy=policy, output=folder_from(output), rules=chosen, config=settings)


def rules_from(verdicts: Sequence[str]) -> Rules:
    """Return the rules that `RULE=VERDICT` options describe, beside the preset `spec` if that is one of them.

    `all` stands for every rule that is not named. Raises `UsageError` for a rule or verdict that there is not.
    """
    from actbox.review import PRESETS, Rules  # imported only for a review, since the import takes long

    named: dict[str, str] = {}
    presets = [spec for spec in verdicts if spec in PRESETS]
    for spec in verdicts:
        rule, equals, verdict = spec.rpartition("=")
        if spec in PRESETS:
            continue
        if not equals:
            raise UsageError(f"--rule {spec!r} is not RULE=VERDICT", "such as --rule process=block")
        named[rule] = verdict
    otherwise = named.pop("all", None)
    try:
        return Rules.preset(presets[0], named, otherwise) if presets else Rules(named, otherwise)
    except InvalidValue as error:
        raise UsageError(f"--rule: {error}", "such as --rule process=block") from None


def limits_from(timeout: float | None, memory: int | None) -> Limits:
    """Return the limits that `--timeout` (seconds) and `--memory` (MiB) ask for. Raises `UsageError`."""
    default = Limits()
    wall = default.wall_seconds if timeout is None else timeout
    if not 0 < wall < float("inf"):
        raise UsageError(f"--timeout takes seconds above zero, not {wall:g}", "such as --timeout 10")
    mib = default.memory_mib if memory is None else memory
    if mib <= 0:
        raise UsageError(f"--memory takes MiB above zero, not {mib}", "such as --memory 512")
    # The limit of processor time is at least the wall time.
    return Limits(wall_seconds=wall, cpu_seconds=max(default.cpu_seconds, wall), memory_mib=mib)


def _mount(spec: str) -> FileMount:
    # A host path may itself contain colons, so the fields are split from the right.
    rest, _, last = spec.rpartition(":")
    mode: str = "ro"
    if rest.count(":") and last in _MODES:
        spec, mode = rest, last
    elif spec.count(":") == 2 and not Path(rest).exists() and Path(rest.partition(":")[0]).exists():
        raise UsageError(f"--mount {spec}: {last!r} is not a mode", _MOUNT_HINT)
    host, colon, guest = spec.rpartition(":")
    if not (host and colon and guest):
        raise UsageError(f"--mount {spec}: one of the two paths is missing", _MOUNT_HINT)
    try:
        return FileMount(host, guest, mode)  # type: ignore[arg-type]  # one of _MODES
    except InvalidValue as error:
        why, _, advice = str(error).rpartition("; ")
        if not why:
            why, advice = advice, "give --mount an existing file or directory, and a path in the sandbox"
        raise UsageError(f"--mount {spec}: {why}", advice) from None


def _config(paths: Sequence[Path]) -> Config | None:
    """Return what configuration files say, `None` without any. Raises `UsageError` if they say not to run programs."""
    if not paths:
        return None
    from actbox.config import Config

    found = Config.load(*paths)
    if not found.enabled:
        raise UsageError(f"{paths[0]} says not to run programs (enabled = false)", "set enabled = true there")
    return found


def _environment(name: str, config: Config | None) -> str | Environment:
    """Return the environment of this name that configuration files define, else the name."""
    defined = {one.name: one for one in config.environments} if config is not None else {}
    return defined.get(name, name)


def _of_file(path: Path) -> tuple[str, ...]:
    from actbox.packages import read_dependencies  # it needs the extra, which only this option needs

    return read_dependencies(path)


def _packages(program: Program, environment: str, config: Config | None) -> PackagePolicy | None:
    """Return the policy of somebody who has named packages, and so approves them, besides those of the environment.

    If configuration files have rules, these count alone. Whoever sits at the terminal is asked about the rest. `None`
    if there are no rules and the program names no packages.
    """
    cache = config.package_cache() if config is not None else None
    if config is not None and config.packages is not None:
        return replace(config.packages, approver=TerminalApprover(elevated=True), cache=cache)
    if not asks_for_packages(program):
        return None
    # These need the extra, which only programs with packages need.
    from actbox.packages import read_npm_requirements, read_requirements

    asked = program.dependencies
    if program.language != "python":
        rules = PackageRules(auto_approved=[one.name for one in read_npm_requirements(asked)])
        return PackagePolicy(nodejs=rules, approver=TerminalApprover(elevated=True), cache=cache)
    named = {one.normalized for one in read_requirements(asked)}
    if environment == HOST:
        named |= visible_versions(None).keys()
    rules = PackageRules(auto_approved=sorted(named))
    return PackagePolicy(python=rules, approver=TerminalApprover(elevated=True), cache=cache)


def _domain(spec: str) -> AllowedDomain:
    host, equals, methods = spec.partition("=")
    try:
        return AllowedDomain(host, methods.split(",") if equals else None)
    except InvalidValue as error:
        raise UsageError(f"--domain {spec}: {error}", "such as --domain api.example.com=GET,HEAD") from None


def _inputs(specs: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for spec in specs:
        name, equals, text = spec.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--input {spec!r} does not begin with NAME=", "such as --input 'rows=[1, 2]'")
        if name in values:
            raise UsageError(f"--input {name} is given twice", "give each name one value")
        try:
            values[name] = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            hint = f"text needs its quotes: --input '{name}=\"some text\"'"
            raise UsageError(f"--input {name}: the value is not JSON ({error})", hint) from None
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def language_of_file(file: str | None, language: str | None, sandbox: str = "auto") -> str:
    """Return the language given by `--language`, else by the file's suffix, else by the sandbox. Raises
    `UsageError`.
    """
    if language is None:
        return _LANGUAGES.get(Path(file or "").suffix) or language_of(sandbox)
    if language not in ENGINES_OF:
        raise UsageError(f"--language {language}: there is no such language", f"there are: {', '.join(ENGINES_OF)}")
    return language


def _source(file: str | None, code: str | None, language: str) -> tuple[str, str]:
    """Return the source text and the file name that tracebacks show for it."""
    if (file is None) == (code is None):
        problem = "no program is given" if file is None else "both a file and -c are given"
        raise UsageError(problem, "give one of: actbox run FILE, actbox run -c CODE, actbox run - (standard input)")
    if code is not None:
        return code, "program.py"
    assert file is not None
    return read_program(file, language)


def read_program(file: str, language: str = "python") -> tuple[str, str]:
    """Return the text of a program and its file name; `-` reads standard input. Raises `UsageError`."""
    decode = _decode if language == "python" else _decode_utf8
    if file == "-":
        return decode(_read(sys.stdin.buffer, "standard input"), "standard input"), "program.py"
    try:
        with Path(file).open("rb") as opened:
            return decode(_read(opened, file), file), Path(file).name
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", f"give the path of {_FILES[language]} file") from None


def _read(stream: BinaryIO, place: str) -> bytes:
    # Bounded, because a stream such as /dev/zero never ends.
    source = stream.read(MAX_SOURCE_BYTES + 1)
    if len(source) > MAX_SOURCE_BYTES:
        limit = f"{MAX_SOURCE_BYTES // 2**20} MiB"
        raise UsageError(
            f"{place} has more than {limit}", "a program is source code; pass data with --input or --mount"
        )
    return source


def _decode(source: bytes, place: str) -> str:
    """Decode source as Python does: as UTF-8 unless a byte order mark or a coding comment says otherwise."""
    try:
        return importlib.util.decode_source(source)
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        problem = f"{place}, line {line}: byte {source[error.start]:#04x} is not {error.encoding} text"
    except SyntaxError as error:
        problem = f"{place}: {error.msg}"
    raise UsageError(problem, "save the program as UTF-8, or name its encoding in a coding comment on its first line")


def _decode_utf8(source: bytes, place: str) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        problem = f"{place}, line {line}: byte {source[error.start]:#04x} is not UTF-8 text"
        raise UsageError(problem, "save the program as UTF-8") from None


def folder_from(output: Path | None, option: str = "--output") -> Path | None:
    """Return the directory of an option, which is created. Raises `UsageError`."""
    if output is None:
        return None
    # Created before the run: a mistyped path must not cost the program's work.
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{option} {output}: {error.strerror}", "give a directory that you can write to") from None
    return output
