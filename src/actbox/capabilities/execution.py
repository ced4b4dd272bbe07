"""The specification's capabilities that run code: `execute.python`, `execute.javascript` and `execute.rtfs`.

Programs run in sandboxes that the registry keeps open, one for each engine, environment and set of limits, each program
in a workspace of its own.
"""

from __future__ import annotations

import asyncio
import base64
import keyword
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from actbox.core.errors import ErrorKind, InvalidValue, SandboxUnavailable, Unsupported
from actbox.core.labels import PUBLIC, Label
from actbox.core.packages import HOST, PackagePolicy
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.review import Rules, Verdict, review
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.guest import beneath
from actbox.sandbox.opening import open_sandbox
from actbox.sandbox.registry import TABLE

from .capability import Capability, Resources, Runtime
from .invocation import Invocation
from .outcome import StepFailed

OUTPUT_TYPES: Final = ("png", "jpg", "jpeg", "svg", "gif", "csv", "json", "txt", "md", "html", "pdf", "xlsx", "parquet")
"""The extensions of the output files that are returned, unless the registry says otherwise."""
_MOST_BOXES: Final = 8
_MOST_INPUT_BYTES: Final = 256 * 2**20
_TIMEOUT_MS: Final = 30_000
_MEMORY_MB: Final = 512
_MIB: Final = 2**20

_PYTHON: Final = """[:map
  [:code :string]
  [:inputs {:optional true} [:map]]
  [:dependencies {:optional true} [:vector :string]]
  [:image {:optional true} :string]
  [:timeout_ms {:optional true} :int]
  [:input_files {:optional true} [:map :string :string]]
  [:max_memory_mb {:optional true} :int]
  [:session {:optional true} :string]]"""
_RESULT: Final = """[:map
  [:stdout :string]
  [:stderr :string]
  [:exit_code :int]
  [:files {:optional true} [:map :string :string]]
  [:error {:optional true} :string]]"""
_JAVASCRIPT: Final = """[:map
  [:code :string]
  [:inputs {:optional true} [:map]]
  [:dependencies {:optional true} [:vector :string]]]"""
_JAVASCRIPT_RESULT: Final = "[:map [:stdout :string] [:stderr :string] [:exit_code :int]]"
_RTFS: Final = "[:map [:expression :string] [:bindings {:optional true} [:map]]]"


@dataclass(frozen=True, slots=True)
class InputRoot:
    """A directory of the host below which `input_files` may lie, and the label of each file in it."""

    path: Path
    label: Label = PUBLIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How the capabilities that run code do it; see `standard_registry`."""

    policy: Policy = field(default_factory=Policy)
    packages: PackagePolicy | None = None
    environment: str = HOST
    javascript_environment: str = ""
    engine: str = ""
    """The engine for Python, "" for the first of `linux` and `container` that works here."""
    allow_unisolated: bool = False
    input_roots: tuple[InputRoot, ...] = ()
    rules: Rules | None = None
    """The rules of the review before a program runs; a finding with the verdict `block` refuses it."""
    output_types: tuple[str, ...] = OUTPUT_TYPES


class Boxes:
    """The sandboxes that stay open between invocations, the ones used last; close them with `close()`."""

    def __init__(self, settings: Execution) -> None:
        self._settings = settings
        self._open: dict[tuple[str, Policy], Sandbox] = {}
        self._in_use: dict[tuple[str, Policy], int] = {}
        self._turn = asyncio.Lock()

    async def run(self, engine: str, policy: Policy, program: Program, timeout: float) -> ExecutionResult:
        """Run a program in a workspace of its own. Raises `SandboxUnavailable`, `Unsupported` and `InvalidValue`."""
        key = (engine, policy)
        box = await self._box(key)
        try:
            return await box.run_alone(program, timeout=timeout)
        finally:
            self._in_use[key] -= 1

    async def close(self) -> None:
        """Close all sandboxes."""
        async with self._turn:
            boxes, self._open = [*self._open.values()], {}
            await asyncio.gather(*(box.stop() for box in boxes))

    async def _box(self, key: tuple[str, Policy]) -> Sandbox:
        async with self._turn:
            if (box := self._open.pop(key, None)) is None:
                engine, policy = key
                box = open_sandbox(engine, policy=policy, allow_unisolated=self._settings.allow_unisolated)
                await box.start()
            self._open[key] = box  # the last is the one used last
            self._in_use[key] = self._in_use.get(key, 0) + 1
            for old in [one for one in self._open if not self._in_use[one]][: len(self._open) - _MOST_BOXES]:
                await self._open.pop(old).stop()
            return box


def execute_python(settings: Execution, boxes: Boxes) -> Capability:
    """Return `execute.python`."""

    async def handler(call: Invocation) -> dict[str, Any]:
        given = call.input
        _review(given["code"], settings.rules)
        environment = given.get("image") or settings.environment
        timeout, memory = given.get("timeout_ms", _TIMEOUT_MS), given.get("max_memory_mb", _MEMORY_MB)
        files = _input_files(call, given.get("input_files") or {}, settings.input_roots)
        program = _program(call, given["code"], "python", given, files)
        return await _run(call, settings, boxes, _engine(settings), program, environment, timeout, memory)

    return Capability(
        "execute.python",
        "Execute Python code in isolated sandbox",
        _PYTHON,
        _RESULT,
        effects=("compute",),
        risk="high",
        approvals=("compute",),
        runtime=Runtime("container"),
        resources=Resources(memory_mb=_MEMORY_MB),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
    )


def execute_javascript(settings: Execution, boxes: Boxes) -> Capability:
    """Return `execute.javascript`."""

    async def handler(call: Invocation) -> dict[str, Any]:
        program = _program(call, call.input["code"], "javascript", call.input, {})
        environment = settings.javascript_environment or HOST
        done = await _run(call, settings, boxes, "node", program, environment, _TIMEOUT_MS, _MEMORY_MB)
        return {name: done[name] for name in ("stdout", "stderr", "exit_code")}

    return Capability(
        "execute.javascript",
        "Execute Node.js code in isolated sandbox",
        _JAVASCRIPT,
        _JAVASCRIPT_RESULT,
        effects=("compute",),
        risk="high",
        approvals=("compute",),
        runtime=Runtime("container", "nodejs-tools"),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
    )


def execute_rtfs(settings: Execution, boxes: Boxes) -> Capability:
    """Return `execute.rtfs`."""

    async def handler(call: Invocation) -> Any:
        bindings = call.input.get("bindings") or {}
        program = Program(call.input["expression"], "rtfs", inputs=bindings)
        result = await boxes.run("rtfs", replace(settings.policy, domains=(), secrets=()), program, _TIMEOUT_MS / 1000)
        _count(call, result)
        call.engine = result.sandbox
        if result.error is not None:
            raise StepFailed("failed", "run", f"{result.error.kind.value}: {result.error.message}", result.error.hint)
        return result.value

    return Capability(
        "execute.rtfs",
        "Evaluate an RTFS expression",
        _RTFS,
        ":any",
        runtime=Runtime("rtfs"),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
    )


async def _run(
    call: Invocation,
    settings: Execution,
    boxes: Boxes,
    engine: str,
    program: Program,
    environment: str,
    timeout_ms: int,
    memory_mb: int,
) -> dict[str, Any]:
    for name, value in (("timeout_ms", timeout_ms), ("max_memory_mb", memory_mb)):
        if value <= 0:
            raise StepFailed("invalid", "validate_input", f"{name} is above 0, not {value}")
    policy = settings.policy
    wall = min(timeout_ms / 1000, policy.limits.wall_seconds)
    limits = replace(policy.limits, memory_mib=min(memory_mb, policy.limits.memory_mib))
    policy = replace(policy, limits=limits, environment=environment, packages=settings.packages)
    try:
        result = await boxes.run(engine, policy, program, wall)
    except (SandboxUnavailable, Unsupported) as error:
        raise StepFailed("unavailable", "run", str(error)) from None
    except InvalidValue as error:
        raise StepFailed("invalid", "validate_input", str(error)) from None
    call.engine, call.environment = result.sandbox, result.environment or environment
    _count(call, result)
    call.warnings += result.warnings
    files, left_out = _files(result, settings.output_types)
    if left_out:
        call.warnings.append(f"output files of other types were left out: {', '.join(left_out)}")
    done: dict[str, Any] = {"stdout": result.stdout, "stderr": result.stderr, "exit_code": result.exit_code}
    if files:
        done["files"] = files
    if result.error is not None:
        done["error"] = f"{result.error.kind.value}: {result.error.message}"
        if result.error.kind is ErrorKind.SANDBOX:
            raise StepFailed("unavailable", "run", result.error.message)
    return done


def _engine(settings: Execution) -> str:
    if settings.engine:
        return settings.engine
    for name in Runtime("container").engines:
        if TABLE[name].check().works:
            return name
    raise StepFailed("unavailable", "run", "neither the linux nor the container engine works here; see `actbox doctor`")


def _review(code: str, rules: Rules | None) -> None:
    if rules is None:
        return
    found = review(code, rules)
    if found.verdict is Verdict.BLOCK:
        worst = next(one for one in found.findings if found.verdict_on(one) is Verdict.BLOCK)
        raise StepFailed(
            "refused",
            "validate_input",
            f"line {worst.line}: {worst.message} (rule {worst.rule})",
            "do without it, or use a capability for it",
        )


def _program(
    call: Invocation, code: str, language: str, given: Mapping[str, Any], files: Mapping[str, bytes]
) -> Program:
    inputs = given.get("inputs") or {}
    names = {name: value for name, value in inputs.items() if name.isidentifier() and not keyword.iskeyword(name)}
    try:
        return Program(
            code,
            language,
            inputs={**names, "inputs": inputs},
            files=files,
            dependencies=tuple(given.get("dependencies") or ()),
        )
    except InvalidValue as error:
        raise StepFailed("invalid", "validate_input", str(error)) from None


def _input_files(call: Invocation, given: Mapping[str, str], roots: Sequence[InputRoot]) -> dict[str, bytes]:
    """Return the content of host files by their names inside; each raises the call's label by its directory's."""
    files, left = {}, _MOST_INPUT_BYTES
    for name, path in given.items():
        root = next((one for one in roots if Path(os.path.abspath(path)).is_relative_to(one.path)), None)
        if root is None:
            raise StepFailed(
                "refused", "validate_input", f"input_files: {path} lies below none of the directories that may be read"
            )
        try:
            with beneath.opened_folder(os.fspath(root.path)) as folder:
                below = os.fspath(Path(os.path.abspath(path)).relative_to(root.path))
                files[name] = beneath.read_file(folder, below, left)
        except OSError as error:
            why = error.strerror or "it is no file"
            raise StepFailed("refused", "validate_input", f"input_files: {path} cannot be read: {why}") from None
        left -= len(files[name])
        call.raise_label(root.label)
    return files


def _files(result: ExecutionResult, types: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the output files of some types as Base64, and the names of the others."""
    files, left_out = {}, []
    for artifact in result.artifacts:
        if artifact.name.rpartition(".")[2].lower() in types:
            files[artifact.name] = base64.b64encode(artifact.data).decode()
        else:
            left_out.append(artifact.name)
    return files, left_out


def _count(call: Invocation, result: ExecutionResult) -> None:
    usage = result.usage
    call.charge(
        cpu_seconds=usage.cpu_ms / 1000,
        memory_mib=-(-usage.max_rss_bytes // _MIB),
        tool_calls=usage.tool_calls,
        wall_seconds=usage.wall_ms / 1000,
    )


STANDARD: Final[tuple[Callable[[Execution, Boxes], Capability], ...]] = (
    execute_python,
    execute_javascript,
    execute_rtfs,
)
"""The functions that make the capabilities of this module."""
