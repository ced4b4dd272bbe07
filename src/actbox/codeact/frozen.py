"""`FrozenRun`: the unchangeable configuration of one run of an agent's programs, and the text about it for the model.

A model reads short instructions, and the description of `execute_code` with everything else. The instructions name no
tool, so they stay the same when tools change. The description says what programs may call, see and use; many tools are
only listed, and programs search for the rest.
"""

from __future__ import annotations

import builtins
import copy
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

from actbox.core.counted import counted
from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue
from actbox.core.mounts import INPUT, FileMount
from actbox.core.packages import HOST
from actbox.core.policy import Policy
from actbox.tools import Approval, Tool, Toolset, stubs, typescript_declarations
from actbox.tools.signature_text import is_writable

from .approvals import RunApproval, effective_mode, plan
from .blocks import fenced, joined
from .instructions import HOW_TOOLS_ARE_CALLED, HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT, with_dependencies
from .package_instructions import packages_sentence
from .serial_numbers import serial_of
from .settings import CodeActSettings
from .tool_search import DESCRIBE_TOOL, SEARCH_TOOLS, Listing, search_tools_of

INPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "code": {
            "type": "string",
            "description": "Code to execute using the provider's configured backend/runtime behavior.",
        }
    },
    "required": ["code"],
}
"""The JSON schema of `execute_code`'s arguments, verbatim from the specification of CodeAct providers."""
_OWN = frozenset(dir(builtins))

_ONLY_NAMED = (
    "A program has only those of them whose names stand in it: one that is called by a name that is computed is not"
    " there."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenRun:
    """A configuration as it was when a run began.

    `toolset` are the tools of programs, before any approval is given. `approval` says whether every program needs
    approval: by the bundle rule (the mode, or any tool), or, in the styles that analyze or pause programs, by the mode
    alone. `listing` is the list of tools in the description if there are many, else `None`; `changes` describes later
    differences, for the end of the conversation.

    `fingerprint` changes with any difference, also if a tool is replaced by another of the same name. `environment`
    changes if programs need another sandbox: other mounts, hosts or limits. Both are valid in this process only.
    """

    settings: CodeActSettings
    tool_name: str
    approval: Approval
    own_tools: tuple[Tool, ...] = field(repr=False)
    toolset: Toolset
    policy: Policy = field(repr=False)
    file_surface: bool
    listing: Listing | None
    changes: str
    environment: str
    fingerprint: str

    @classmethod
    def of(
        cls,
        settings: CodeActSettings,
        *,
        tool_name: str,
        approval_mode: Approval,
        tools: Sequence[tuple[Tool, str]],
        mounts: tuple[FileMount, ...],
        domains: tuple[AllowedDomain, ...],
        serial: int,
        pinned: Listing | None,
    ) -> Self:
        """Return the frozen run of these settings. `tools` come with their groups; `serial` is the configuration's
        number.

        `approval_mode` is the configured mode, which `approval` may tighten.
        """
        own = Toolset(tool for tool, _ in tools)
        if tool_name in own.names or tool_name in own.aliases.values():
            raise InvalidValue(f"a tool cannot be called {tool_name!r}, which the model calls to run programs")
        toolset, listing, changes = own, None, ""
        if _are_searched(own, settings, pinned):
            groups = {tool.name: group for tool, group in tools if group}
            toolset = own.with_tools(*search_tools_of(own, groups))
            today = Listing.of(own, groups)
            listing = pinned or today
            changes = today.changes_since(listing)
        policy = Policy(
            limits=settings.limits,
            mounts=mounts,
            domains=domains,
            secrets=settings.secrets,
            variables=settings.variables,
            preload=settings.preload,
            environment=settings.environment,
            packages=settings.packages,
        )
        file_surface = bool(mounts) if settings.file_surface is None else settings.file_surface
        identities = [mount.identity for mount in mounts]
        environment = _digest(serial, file_surface, policy.limits, domains, mounts, identities)
        called = [(tool.name, serial_of(tool), group) for tool, group in tools]
        return cls(
            settings=settings,
            tool_name=tool_name,
            approval=effective_mode(own, approval_mode) if settings.approval_style == "bundled" else approval_mode,
            own_tools=tuple(tool for tool, _ in tools),
            toolset=toolset,
            policy=policy,
            file_surface=file_surface,
            listing=listing,
            changes=changes,
            environment=environment,
            fingerprint=_digest(environment, tool_name, approval_mode, called, listing),
        )

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the model's arguments, as a new dict."""
        return input_schema_of(self.settings)

    @property
    def asks_about_packages(self) -> bool:
        """Whether somebody may be asked about packages while a program runs: the policy's rules name no approver."""
        return self.policy.packages is not None and self.policy.packages.approver is None

    @cached_property
    def asks_about_findings(self) -> bool:
        """Whether somebody may be asked about a program because of what its review finds."""
        if self.settings.review is None:
            return False
        from actbox.review import Verdict  # imported only for a review, since the import takes long

        return self.settings.review.can_be(Verdict.ASK)

    @cached_property
    def instructions(self) -> str:
        """A short text for the model's instructions. It names no tool, so it stays the same when tools change."""
        return instructions_of(self)

    @cached_property
    def description(self) -> str:
        """The description of `execute_code` for the model: what its programs may call and use. It is complete by
        itself.
        """
        return description_of(self)

    def build_instructions(self, *, tools_visible_to_model: bool) -> str:
        """Return instructions for an agent assembled by hand.

        If the model can also call the tools directly (`tools_visible_to_model`), and so has read about them, they are
        only listed with their parameters; otherwise they are described with their types.
        """
        return whole_instructions(self, tools_visible_to_model=tools_visible_to_model)

    def plan(self, program: str) -> RunApproval:
        """Return what must be approved before a program runs, assuming that the caller has obtained `approval`."""
        return plan(
            program,
            self.toolset,
            style=self.settings.approval_style,
            is_given=self.approval == "always_require",
            only_named=self.settings.only_named_tools,
            always=() if self.listing is None else (SEARCH_TOOLS, DESCRIBE_TOOL),
        )

    def state(self) -> dict[str, Any]:
        """Return this run's configuration as JSON data, for logs and for a framework's stored state."""
        document: dict[str, Any] = {
            "tool_name": self.tool_name,
            "approval_mode": self.approval,
            "approval_style": self.settings.approval_style,
            "tool_names": [tool.name for tool in self.own_tools],
            "file_surface": self.file_surface,
            "file_mounts": [
                {"host_path": str(mount.host_path), "mount_path": str(mount.mount_path), "mode": mount.mode}
                for mount in self.policy.mounts
            ],
            "allowed_domains": [
                {"target": str(domain), "methods": None if domain.methods is None else list(domain.methods)}
                for domain in self.policy.domains
            ],
            "limits": self.policy.limits.to_dict(),
        }
        if self.policy.environment_name != HOST:
            document["environment"] = self.policy.environment_name
        if self.policy.packages is not None:
            rules = self.policy.packages.nodejs if _language(self) == "JavaScript" else self.policy.packages.python
            lists = ("auto_approved", "requires_approval", "blocked")
            document["packages"] = {name: [rule.name for rule in getattr(rules, name)] for name in lists}
        if self.listing is not None:
            document["listing"] = self.listing.to_dict()
        return document


def input_schema_of(settings: CodeActSettings) -> dict[str, Any]:
    """Return the JSON schema of the arguments of `execute_code`, as a new dict."""
    schema = copy.deepcopy(INPUT_SCHEMA)
    return schema if settings.packages is None else with_dependencies(schema)


def _are_searched(own: Toolset, settings: CodeActSettings, pinned: Listing | None) -> bool:
    """Return True if programs search for these tools; a conversation that began with search keeps it while there are
    any tools.
    """
    few = settings.search_above if settings.language == "python" else None
    return few is not None and len(own) > (few if pinned is None else 0)


def _digest(*parts: object) -> str:
    # The text of each value describes it completely; parts that it would omit are passed separately.
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def instructions_of(run: FrozenRun) -> str:
    """Return the short text for an agent's instructions."""
    name, language = run.tool_name, _language(run)
    if len(run.toolset):
        return (
            f"You have the tool `{name}`, which runs a {language} program that can call functions. Prefer one program"
            " that makes several calls, with loops and conditions where they help, over one call at a time, and print"
            " or end with what you need to read. What programs can call and use is said in the description of"
            f" `{name}`."
        )
    return (
        f"You have the tool `{name}`, which runs a {language} program. Use it to compute rather than to guess, and"
        f" print or end with what you need to read. What programs can use is said in the description of `{name}`."
    )


def description_of(run: FrozenRun, *, with_session: bool = True) -> str:
    """Return the whole description of `execute_code`. With `with_session=False` it says that files last only in a
    session, and that nobody is asked about packages unless their rules have an approver.
    """
    return joined(_purpose(run), _rules(run, with_session), _tools(run))


def whole_instructions(run: FrozenRun, *, tools_visible_to_model: bool, with_session: bool = True) -> str:
    """Return instructions that contain the whole description, for an agent assembled by hand."""
    rules = _rules(run, with_session)
    if not len(run.toolset):
        return joined(instructions_of(run), rules)
    if run.listing is not None:
        return joined(instructions_of(run), rules, _tools(run))
    if tools_visible_to_model:
        called = "\n".join(f"- {_short(tool, run.toolset.aliases[tool.name])}" for tool in run.own_tools)
        tools = (
            f"Programs can call these of your tools as functions. Call one directly where a single call is all that you"
            f" need, and in a program of `{run.tool_name}` where several go together.\n\n{called}"
        )
        return joined(instructions_of(run), rules, tools, _how(run))
    only = f"The functions below can be called in programs only; you reach them by `{run.tool_name}`."
    return joined(instructions_of(run), only, rules, _tools(run))


def _purpose(run: FrozenRun) -> str:
    if len(run.toolset):
        return (
            "Run a program in a sandbox, where it can call the functions below, and read what came of it: what it"
            " printed, the value of its last expression, its error."
        )
    return (
        "Run a program in a sandbox and read what came of it: what it printed, the value of its last expression, its"
        " error."
    )


def _rules(run: FrozenRun, with_session: bool) -> str:
    limits = run.policy.limits
    lines = [
        run.settings.about,
        _packages(run, may_ask=with_session or not run.asks_about_packages),
        _freshness(run, with_session),
        *_files(run),
        _network(run.policy.domains),
    ]
    calls = f", {limits.tool_calls:,} calls of functions" if len(run.toolset) else ""
    lines.append(
        f"Limits of one program: {counted(float(limits.wall_seconds), 'second')},"
        f" {limits.memory_mib:,} MiB of memory{calls}. You read at most {run.settings.max_chars:,} characters of what"
        " came of it, so print a summary of what is long."
    )
    return "\n".join(f"- {line}" for line in lines if line)


def _packages(run: FrozenRun, *, may_ask: bool) -> str:
    packages = run.policy.packages
    if packages is None:
        return ""
    return packages_sentence(packages, run.settings.language, by_argument=True, may_ask=may_ask)


def _freshness(run: FrozenRun, with_session: bool) -> str:
    kept = ""
    if run.file_surface:
        output = ", but /output is emptied first." if run.settings.clear_output else ", and so do those in /output."
        if with_session:
            kept = f" Files in /workspace stay{output}"
        else:
            kept = f" In a session, files in /workspace stay{output} Without one each call has files of its own."
    return f"Each call starts fresh: nothing in memory is left of an earlier one.{kept}"


def _files(run: FrozenRun) -> list[str]:
    if not run.file_surface:
        return []
    given: list[str] = []
    others: list[str] = []
    for mount in run.policy.mounts:
        how = {"ro": "read-only", "rw": "can be changed", "overlay": "changes are not kept"}[mount.mode]
        (given if mount.mount_path == INPUT else others).append(f"{mount.mount_path} ({how})")
    lines = [f"Files to work with: {', '.join([*given, *others])}." if given or others else ""]
    lines.append("Write files that are results to /output: they come back with the answer.")
    return [line for line in lines if line]


def _network(domains: Iterable[AllowedDomain]) -> str:
    allowed = [
        str(domain) if domain.methods is None else f"{domain} ({', '.join(domain.methods)} only)" for domain in domains
    ]
    return f"Network: only {', '.join(allowed)}." if allowed else "Network: none."


def _tools(run: FrozenRun) -> str:
    if not len(run.toolset):
        return ""
    if run.listing is not None:
        lookup = (
            "Programs can call many functions, listed here by group. Look up what you need first, in a program:"
            f" `{SEARCH_TOOLS}(query)` returns the functions that fit best with their signatures,"
            f" `{DESCRIBE_TOOL}(name)` all there is to know of one."
        )
        return joined(lookup, _how(run), run.listing.text())
    if run.settings.language == "javascript":
        declared = fenced(typescript_declarations(run.toolset).rstrip(), "typescript")
    else:
        declared = fenced(stubs(run.toolset, awaitable=False).rstrip(), "python")
    return joined(f"Programs can call these functions. {_how(run)}", declared)


def _language(run: FrozenRun) -> str:
    return "JavaScript" if run.settings.language == "javascript" else "Python"


def _how(run: FrozenRun) -> str:
    if run.settings.language == "javascript":
        return HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT
    hidden = (
        [] if run.listing is not None else [f"`{alias}`" for alias in run.toolset.aliases.values() if alias in _OWN]
    )
    verb = "takes" if len(hidden) == 1 else "take"
    takes_the_place = f"{' and '.join(hidden)} of these {verb} the place of what Python has of that name."
    sentences = [HOW_TOOLS_ARE_CALLED, _ONLY_NAMED * run.settings.only_named_tools, takes_the_place * bool(hidden)]
    return " ".join(filter(None, sentences))


def _short(tool: Tool, alias: str) -> str:
    required = tool.input_schema.get("required", ())
    names = [name if name in required else f"{name}=…" for name in tool.parameters if is_writable(name)]
    names += [f"*{tool.collects}"] if tool.collects else []
    unwritable = [f"{name!r}: …" for name in tool.parameters if not is_writable(name)]
    if unwritable:
        names.append(f"**{{{', '.join(unwritable)}}}")
    first_line = tool.description.strip().partition("\n")[0]
    own_name = "" if alias == tool.name else f", which is `{tool.name}`"
    return f"`{alias}({', '.join(names)})`{own_name}" + (f": {first_line}" if first_line else "")
