"""The specification's capabilities that run code: `execute.python`, `execute.javascript` and `execute.rtfs`.

Programs run in sandboxes that the registry keeps open, one for each engine and policy, each program in a workspace of
its own, or in the session that its caller names.
"""

from __future__ import annotations

import asyncio
import base64
import keyword
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from actbox.codeact.review_decision import decide
from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue, SandboxUnavailable, Unsupported
from actbox.core.labels import PUBLIC, Label
from actbox.core.mounts import FileMount
from actbox.core.packages import HOST, PackagePolicy
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.review import Rules, Verdict, check_readable, review
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import Sandbox, Session
from actbox.sandbox.dependencies import asks_for_packages
from actbox.sandbox.opening import open_sandbox
from actbox.sandbox.registry import TABLE
from actbox.tools.typescript import RESERVED_WORDS

from .budgets import Budget
from .capability import Capability, Resources, Runtime
from .input_roots import InputRoot, input_files
from .invocation import Invocation, canonical
from .outcome import StepFailed

OUTPUT_TYPES: Final = ("png", "jpg", "jpeg", "svg", "gif", "csv", "json", "txt", "md", "html", "pdf", "xlsx", "parquet")
"""The extensions of the output files that are returned, unless the registry says otherwise."""
SPEC_RULES: Final = Rules.preset("spec")
_FEW_CHARACTERS: Final = 400
_MOST_REVIEWED: Final = 2**18
"""The most characters of a program that is reviewed: a hostile one of so many takes a second or two."""
_WITHOUT_LABELS: Final = ("wasm", "monty", "hyperlight")
_MOST_BOXES: Final = 8
_MOST_SESSIONS: Final = 32
_MOST_POLICIES: Final = 256
_IDLE_SECONDS: Final = 3600.0
_TIMEOUT_MS: Final = 30_000
_MEMORY_MB: Final = 512
_MIB: Final = 2**20
_JAVASCRIPT_WORDS: Final = RESERVED_WORDS | {"undefined", "NaN", "Infinity", "globalThis"}
"""Names that no variable of JavaScript can have."""

_PYTHON: Final = """[:map
  [:code :string]
  [:inputs {:optional true} [:map]]
  [:dependencies {:optional true} [:vector :string]]
  [:image {:optional true} :string]
  [:timeout_ms {:optional true} :int]
  [:input_files {:optional true} [:map :string :string]]
  [:max_memory_mb {:optional true} :int]
  [:session {:optional true} :string]]"""
RESULT: Final = """[:map
  [:stdout :string]
  [:stderr :string]
  [:exit_code :int]
  [:files {:optional true} [:map :string :string]]
  [:error {:optional true} :string]]"""
"""The schema of what a program returns."""
_JAVASCRIPT: Final = """[:map
  [:code :string]
  [:inputs {:optional true} [:map]]
  [:dependencies {:optional true} [:vector :string]]]"""
_JAVASCRIPT_RESULT: Final = "[:map [:stdout :string] [:stderr :string] [:exit_code :int]]"
_RTFS: Final = "[:map [:expression :string] [:bindings {:optional true} [:map]]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The settings of the capabilities that run code; see `standard_registry`."""

    policy: Policy = field(default_factory=Policy)
    packages: PackagePolicy | None = None
    environment: str = HOST
    javascript_environment: str = "nodejs-tools"
    engine: str = ""
    """The engine for Python, "" for the first of `linux` and `container` that works here."""
    allow_unisolated: bool = False
    input_roots: tuple[InputRoot, ...] = ()
    rules: Rules | None = SPEC_RULES
    """The rules of the review before a program in Python or JavaScript runs; `None` for no review."""
    output_types: tuple[str, ...] = OUTPUT_TYPES
    sessions: bool = False
    """True if calls may share a session."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The engine and the settings of a sandbox. Programs with equal ones share it."""

    engine: str
    environment: str
    memory_mib: int
    mounts: tuple[FileMount, ...] = ()


@dataclass(slots=True)
class _Shared:
    """A session that the calls of one caller share, in a sandbox of its own, and the label of what it has read."""

    box: Sandbox
    session: Session
    place: _Place
    label: Label = PUBLIC
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = field(default_factory=time.monotonic)
    """When it was used last."""


class Sandboxes:
    """The sandboxes of a registry. Those used last stay open between invocations. Close them with `close()`."""

    def __init__(self, settings: Execution) -> None:
        self._settings = settings
        self._open: dict[_Place, Sandbox] = {}
        self._in_use: dict[_Place, int] = {}
        self._sessions: dict[tuple[str, ...], _Shared] = {}
        self._engines: dict[tuple[str, str], str] = {}
        self._policies: dict[_Place, bytes] = {}
        """The policies of the places used last, in the form that the journal keeps."""
        self._turn = asyncio.Lock()

    async def run(
        self,
        call: Invocation,
        program: Program,
        *,
        environment: str = "",
        timeout_ms: int | None = None,
        memory_mb: int | None = None,
        session: str = "",
        mounts: tuple[FileMount, ...] = (),
    ) -> ExecutionResult:
        """Run a program for an invocation on an engine of its capability's runtime, and count what it used.

        `environment` is by default that of the capability's runtime, else the registry's own for the language. The
        limits are the lowest of the registry's policy, the capability's resources and the arguments. `mounts` are
        added to those of the policy. Raises `StepFailed` if it cannot run here.
        """
        own = {"python": self._settings.environment, "javascript": self._settings.javascript_environment}
        environment = environment or call.capability.runtime.image or own.get(program.language, HOST)
        wall, place = await self._place(call.capability, program.language, environment, timeout_ms, memory_mb)
        place = replace(place, mounts=mounts)
        call.raise_label(program.label)
        call.kept["policy"] = self._told(place)
        try:
            if session:
                result = await self._run_in_session(call, session, place, program, wall)
            else:
                result = await self._run_alone(call, place, program, wall)
        except (SandboxUnavailable, Unsupported) as error:
            raise StepFailed("unavailable", "run", str(error)) from None
        except InvalidValue as error:
            raise StepFailed("invalid", "validate_input", str(error)) from None
        call.raise_label(self._settings.policy.read_label)
        call.environment = environment
        call.ran(result)
        if result.error is not None and result.error.kind is ErrorKind.SANDBOX:
            raise StepFailed("unavailable", "run", result.error.message)
        return result

    def worst_case(
        self, capability: Capability, language: str, timeout_ms: int | None = None, memory_mb: int | None = None
    ) -> Budget:
        """Return the most that one program of a capability may use. Raises `StepFailed` for limits not above 0."""
        for name, value in (("timeout_ms", timeout_ms), ("max_memory_mb", memory_mb)):
            if value is not None and value <= 0:
                raise StepFailed("invalid", "validate_input", f"{name} is above 0, not {value}")
        policy = self._settings.policy
        limits = policy.limits
        disk = limits.workspace_mib * 2 if limits.disk_mib is None else limits.disk_mib
        wall = _least(limits.wall_seconds * 1000, capability.resources.timeout_ms, timeout_ms) / 1000
        processors = min(limits.cpus, os.cpu_count() or 1)
        return Budget(
            steps=1,
            wall_seconds=wall,
            cpu_seconds=min(limits.cpu_seconds, wall * processors),
            memory_mib=int(_least(limits.memory_mib, capability.resources.memory_mb, memory_mb)),
            storage_mib=disk,
            egress_bytes=1 if policy.domains else 0,  # how much nobody can say
        )

    def label_of_session(self, call: Invocation, name: str) -> Label:
        """Return the label of what the session of an invocation has read so far."""
        shared = self._sessions.get(_session_key(call, name))
        return PUBLIC if shared is None else shared.label

    async def close(self) -> None:
        """Close all sessions and sandboxes."""
        async with self._turn:
            boxes = [*self._open.values(), *(shared.box for shared in self._sessions.values())]
            self._open, self._sessions = {}, {}
            await asyncio.gather(*(box.stop() for box in boxes))

    async def _place(
        self, capability: Capability, language: str, environment: str, timeout_ms: int | None, memory_mb: int | None
    ) -> tuple[float, _Place]:
        """Return the wall limit of a program, in seconds, and where it runs."""
        worst = self.worst_case(capability, language, timeout_ms, memory_mb)
        assert worst.wall_seconds is not None and worst.memory_mib is not None
        return worst.wall_seconds, _Place(
            await self._engine(capability.runtime, language), environment, worst.memory_mib
        )

    def _policy(self, place: _Place) -> Policy:
        policy = self._settings.policy
        limits = replace(policy.limits, memory_mib=place.memory_mib)
        if place.engine == "rtfs":
            return Policy(limits=replace(limits, disk_mib=None))  # there are no files
        if place.engine in _WITHOUT_LABELS and not policy.domains:
            # Nothing can leave, and the outcome has the label.
            policy = replace(policy, egress_max=None, model_cleared=None, label=PUBLIC)
        return replace(
            policy,
            limits=limits,
            environment=place.environment,
            packages=self._settings.packages,
            mounts=(*policy.mounts, *place.mounts),
        )

    def _told(self, place: _Place) -> bytes:
        """Return what the journal keeps of the policy that holds at a place: all but the values of secrets."""
        if (known := self._policies.get(place)) is not None:
            return known
        policy = self._policy(place)
        said = {
            "engine": place.engine,
            "environment": place.environment,
            "limits": {name: value for name, value in asdict(policy.limits).items() if value is not None},
            "domains": [str(one) for one in policy.domains],
            "mounts": [f"{one.mount_path} from {one.host_path}, {one.mode}" for one in policy.mounts],
            "secrets": [one.name for one in policy.secrets],
            "label": str(policy.read_label),
            "egress_max": None if policy.egress_max is None else str(policy.egress_max),
            "packages": policy.packages is not None,
        }
        while len(self._policies) >= _MOST_POLICIES:
            del self._policies[next(iter(self._policies))]
        self._policies[place] = canonical(said)
        return self._policies[place]

    async def _engine(self, runtime: Runtime, language: str) -> str:
        """Return the engine for a runtime; never one that isolates less. Raises `StepFailed` if none works here."""
        if (runtime.type, language) == ("container", "javascript"):
            names: Sequence[str] = ("node",)
        elif runtime.type == "container" and self._settings.engine:
            names = (self._settings.engine,)
        else:
            names = [name for name in runtime.engines if language in TABLE[name].languages]
        if runtime.type == "native" and not self._settings.allow_unisolated:
            raise StepFailed("refused", "run", "it runs without isolation, which needs allow_unisolated=True")
        key = (runtime.type, language)
        if key not in self._engines:
            checks = {name: await run_blocking(TABLE[name].check) for name in names}
            works = next((name for name, check in checks.items() if check.works), None)
            if works is None:
                why = "; ".join(f"{name}: {check.reason}" for name, check in checks.items())
                raise StepFailed("unavailable", "run", f"no {runtime.type} for {language} works here: {why or 'none'}")
            self._engines[key] = works
        return self._engines[key]

    async def _run_alone(self, call: Invocation, place: _Place, program: Program, wall: float) -> ExecutionResult:
        box = await self._box(place)
        try:
            return await box.run_alone(_labelled(program, call.labels, box), timeout=wall)
        finally:
            self._in_use[place] -= 1

    async def _run_in_session(
        self, call: Invocation, name: str, place: _Place, program: Program, wall: float
    ) -> ExecutionResult:
        if not self._settings.sessions:
            raise StepFailed(
                "refused", "validate_input", "this registry has no sessions: standard_registry(sessions=…)"
            )
        key = _session_key(call, name)
        shared = await self._session(key, place)
        try:
            async with shared.turn:
                shared.label |= call.labels
                call.raise_label(shared.label)
                result = await shared.session.run(_labelled(program, call.labels, shared.box), timeout=wall)
                shared.label |= result.label
                shared.used = time.monotonic()
        finally:
            if not shared.session.alive and self._sessions.get(key) is shared:
                del self._sessions[key]
                await shared.box.stop()
                call.warnings.append(f"the session {name!r} has ended; a later call begins a new one")
        return result

    async def _session(self, key: tuple[str, ...], place: _Place) -> _Shared:
        async with self._turn:
            if (found := self._sessions.get(key)) is None:
                await self._close_idle()
                if len(self._sessions) >= _MOST_SESSIONS:
                    raise StepFailed("unavailable", "run", f"{_MOST_SESSIONS} sessions are open, and no more may be")
                box = await self._opened(place)  # sessions of one sandbox would share its files
                found = self._sessions[key] = _Shared(box, box.session(), place)
            found.used = time.monotonic()
        if found.place != place:
            why = f"the session {key[-1]!r} was begun with another image or other limits"
            raise StepFailed("invalid", "validate_input", why, "give those of its first call, or another session")
        return found

    async def _close_idle(self) -> None:
        """Close the sessions that nobody has used for an hour."""
        limit = time.monotonic() - _IDLE_SECONDS
        for key, shared in list(self._sessions.items()):
            if shared.used < limit and not shared.turn.locked():
                del self._sessions[key]
                await shared.box.stop()

    async def _box(self, place: _Place) -> Sandbox:
        """Return an open sandbox, which counts as in use until the caller says otherwise."""
        async with self._turn:
            if (box := self._open.pop(place, None)) is None:
                box = await self._opened(place)
            self._open[place] = box  # the last is the one used last
            self._in_use[place] = self._in_use.get(place, 0) + 1
            idle = [one for one in self._open if not self._in_use[one]]
            for old in idle[: max(0, len(self._open) - _MOST_BOXES)]:
                await self._open.pop(old).stop()
            return box

    async def _opened(self, place: _Place) -> Sandbox:
        unisolated = self._settings.allow_unisolated
        box = open_sandbox(place.engine, policy=self._policy(place), allow_unisolated=unisolated)
        await box.start()
        return box


def _session_key(call: Invocation, name: str) -> tuple[str, ...]:
    """Return the identity of a session: nobody else, and no other conversation, has one of the same name."""
    return (call.caller, call.user, call.run, name)


def _labelled(program: Program, label: Label, box: Sandbox) -> Program:
    """Return a program with a label besides its own, on engines whose programs carry them.

    On the others nothing leaves with it anyway.
    """
    carried = label | Label(program.label) if box.traits.labels else PUBLIC
    return program if program.label == carried else replace(program, label=carried)


def execute_python(settings: Execution, boxes: Sandboxes) -> Capability:
    """Return `execute.python`."""

    async def prepare(call: Invocation) -> Mapping[str, Any]:
        rules, environment = settings.rules, call.input.get("image") or settings.environment
        if rules is not None and environment != HOST and rules.verdict("not-read") is Verdict.BLOCK:
            # Only the environment's own Python may be able to read it.
            rules = replace(rules, verdicts={"syntax": Verdict.BLOCK, **rules.verdicts})
        shown = await _reviewed(call, "python", rules)
        wanted = call.input.get("input_files") or {}
        call.raise_label(boxes.label_of_session(call, call.input.get("session", "")))
        call.prepared = await run_blocking(input_files, call, wanted, settings.input_roots) if wanted else {}
        _check_packages(call, "python", settings)
        return shown

    async def handler(call: Invocation) -> dict[str, Any]:
        given = call.input
        result = await boxes.run(
            call,
            _program(given["code"], "python", given, call.prepared),
            environment=given.get("image", ""),
            timeout_ms=given.get("timeout_ms", _TIMEOUT_MS),
            memory_mb=given.get("max_memory_mb", _MEMORY_MB),
            session=given.get("session", ""),
        )
        return output_of(call, result, settings.output_types)

    def worst_case(capability: Capability, given: Mapping[str, Any]) -> Budget:
        timeout, memory = given.get("timeout_ms", _TIMEOUT_MS), given.get("max_memory_mb", _MEMORY_MB)
        return boxes.worst_case(capability, "python", timeout, memory)

    return Capability(
        "execute.python",
        "Execute Python code in isolated sandbox",
        _PYTHON,
        RESULT,
        effects=("compute",),
        risk="high",
        approvals=("compute",),
        runtime=Runtime("container"),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
        worst_case=worst_case,
        prepare=prepare,  # type: ignore[arg-type]  # every call is an `Invocation`
    )


def execute_javascript(settings: Execution, boxes: Sandboxes) -> Capability:
    """Return `execute.javascript`."""

    async def prepare(call: Invocation) -> Mapping[str, Any]:
        _check_packages(call, "javascript", settings)
        return await _reviewed(call, "javascript", settings.rules)

    async def handler(call: Invocation) -> dict[str, Any]:
        program = _program(call.input["code"], "javascript", call.input, {})
        result = await boxes.run(call, program)
        if result.error is not None and result.error.message not in result.stderr:
            call.warnings.append(f"{result.error.kind.value}: {result.error.message}")
        return {"stdout": result.stdout, "stderr": result.stderr, "exit_code": result.exit_code}

    return Capability(
        "execute.javascript",
        "Execute Node.js code in isolated sandbox",
        _JAVASCRIPT,
        _JAVASCRIPT_RESULT,
        effects=("compute",),
        risk="high",
        approvals=("compute",),
        runtime=Runtime("container", settings.javascript_environment),
        resources=Resources(memory_mb=_MEMORY_MB, timeout_ms=_TIMEOUT_MS),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
        worst_case=lambda capability, given: boxes.worst_case(capability, "javascript"),
        prepare=prepare,  # type: ignore[arg-type]  # every call is an `Invocation`
    )


def execute_rtfs(settings: Execution, boxes: Sandboxes) -> Capability:
    """Return `execute.rtfs`."""

    async def handler(call: Invocation) -> Any:
        program = _program(call.input["expression"], "rtfs", {}, {}, call.input.get("bindings") or {})
        result = await boxes.run(call, program)
        if result.error is not None:
            raise StepFailed("failed", "run", f"{result.error.kind.value}: {result.error.message}", result.error.hint)
        return result.value

    return Capability(
        "execute.rtfs",
        "Evaluate an RTFS expression",
        _RTFS,
        ":any",
        effects=("compute",),
        runtime=Runtime("rtfs"),
        resources=Resources(memory_mb=_MEMORY_MB, timeout_ms=_TIMEOUT_MS),
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
        worst_case=lambda capability, given: boxes.worst_case(capability, "rtfs"),
    )


def _least(first: float, *others: float | None) -> float:
    return min((first, *(one for one in others if one is not None)))


async def _reviewed(call: Invocation, language: str, rules: Rules | None) -> Mapping[str, Any]:
    """Return what `_read` does; a program of some length is read in a thread."""
    if rules is None or len(call.input["code"]) <= _FEW_CHARACTERS:
        return _read(call, language, rules)
    return await run_blocking(_read, call, language, rules)


def _read(call: Invocation, language: str, rules: Rules | None) -> Mapping[str, Any]:
    """Return the findings of a review for whoever approves; those that warn are the call's warnings.

    Raises `StepFailed` if one of them blocks, and if programs in the language cannot be read.
    """
    if rules is None:
        return {}
    try:
        check_readable(language)
    except Unsupported as error:
        raise StepFailed("unavailable", "validate_input", str(error)) from None
    program = _program(call.input["code"], language, call.input, {})
    found = review(program, rules, most_characters=_MOST_REVIEWED)
    advice = decide(found)
    if advice.error is not None:
        raise StepFailed("refused", "validate_input", advice.error.message, advice.error.hint)
    if advice.question:
        call.asks.append("review")
    call.warnings += advice.warnings
    told = [f"line {one.line}: {one.message} (rule {one.rule})" for one in found.findings]
    return {"review": told} if told else {}


def _check_packages(call: Invocation, language: str, settings: Execution) -> None:
    """Raise `StepFailed` if the names of packages would carry data to the package index that may not leave."""
    most, packages = settings.policy.clearance(None), settings.packages
    if most is None or packages is None or packages.offline or call.labels <= most:
        return
    if asks_for_packages(_program(call.input["code"], language, call.input, {})):
        why = f"the package index may be sent data up to {most}, and this names packages with the label {call.labels}"
        raise StepFailed("refused", "label", why, "name no packages, and an image that has them")


def _program(
    code: str,
    language: str,
    given: Mapping[str, Any],
    files: Mapping[str, bytes],
    bindings: Mapping[str, Any] | None = None,
) -> Program:
    """Return a program with its inputs: `inputs` as a whole, and each by its name where that can be a variable's."""
    if bindings is None:
        inputs = given.get("inputs") or {}
        reserved = _JAVASCRIPT_WORDS if language == "javascript" else frozenset()
        names = {
            name: value
            for name, value in inputs.items()
            if name.isidentifier() and not keyword.iskeyword(name) and name not in reserved
        }
        bindings = {**names, "inputs": inputs}
    try:
        return Program(code, language, inputs=bindings, files=files, dependencies=given.get("dependencies") or ())
    except InvalidValue as error:
        raise StepFailed("invalid", "validate_input", str(error)) from None


def _error_text(error: ErrorInfo) -> str:
    """Return the traceback of an exception, or else the kind of the error and its message."""
    return error.traceback.rstrip() or f"{error.kind.value}: {error.message}"


def output_of(call: Invocation, result: ExecutionResult, types: Iterable[str]) -> dict[str, Any]:
    """Return the output of a program, with its files of some types as Base64; a warning names the others."""
    done: dict[str, Any] = {"stdout": result.stdout, "stderr": result.stderr, "exit_code": result.exit_code}
    files, left_out = {}, []
    for artifact in result.artifacts:
        if PurePosixPath(artifact.name).suffix[1:].lower() in types:
            files[artifact.name] = base64.b64encode(artifact.data).decode()
        else:
            left_out.append(artifact.name)
    if left_out:
        call.warnings.append(f"output files of other types were left out: {', '.join(left_out)}")
    if files:
        done["files"] = files
    if result.error is not None:
        done["error"] = _error_text(result.error)
    return done


STANDARD: Final[tuple[Callable[[Execution, Sandboxes], Capability], ...]] = (
    execute_python,
    execute_javascript,
    execute_rtfs,
)
"""The functions that make the capabilities of this module."""
