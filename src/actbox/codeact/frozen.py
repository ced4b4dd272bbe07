"""`FrozenRun`: what one run of an agent's programs has, which nothing can change any more."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue
from actbox.core.mounts import FileMount
from actbox.core.policy import Policy
from actbox.tools import Approval, Tool, Toolset

from . import describing
from .approval import effective_mode
from .identity import serial_of
from .settings import CodeActSettings
from .tool_search import Listing, search_tools_of

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
"""What the model gives; the specification of CodeAct providers has it word for word."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenRun:
    """A configuration as it was when a run began.

    `toolset` is what programs may call, with nobody's approval given yet. `approval` is whether somebody is asked
    before every program: by the bundle rule (the mode, or any tool), or by the mode alone in the styles in which
    programs are read or paused. `listing` is what the description lists where there are many tools, else `None`;
    `changes` says what is otherwise since, for the end of the conversation.

    `fingerprint` differs whenever anything differs, also where a tool was replaced by another of the same name;
    `environment` differs where programs need another sandbox: other mounts, hosts, limits. Both are of this process.
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
        """Freeze these. `tools` are with their groups; `serial` is the number of the configuration.

        `approval_mode` is what was configured, which `approval` may tighten.
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
        """The JSON schema of what the model gives, in a dict of the caller's own."""
        return copy.deepcopy(INPUT_SCHEMA)

    @cached_property
    def instructions(self) -> str:
        """A short text for the model's instructions. It names no tool, and so stays as it is when they change."""
        return describing.instructions(self)

    @cached_property
    def description(self) -> str:
        """What the model reads of `execute_code`: what its programs may call and use. It suffices alone."""
        return describing.description(self)

    def build_instructions(self, *, tools_visible_to_model: bool) -> str:
        """Return instructions for an agent that is put together by hand.

        Where the model can also call the tools directly (`tools_visible_to_model`), and so has read of them, they are
        only named with their parameters; else they are spelled out with their types.
        """
        return describing.whole_instructions(self, tools_visible_to_model=tools_visible_to_model)

    def state(self) -> dict[str, Any]:
        """Return as JSON data what this run has, for logs and for the state that a framework keeps."""
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
        if self.listing is not None:
            document["listing"] = self.listing.to_dict()
        return document


def _are_searched(own: Toolset, settings: CodeActSettings, pinned: Listing | None) -> bool:
    """Return whether programs search these tools; in a conversation that began so they do while there are any."""
    few = settings.search_above if settings.language == "python" else None
    return few is not None and len(own) > (few if pinned is None else 0)


def _digest(*parts: object) -> str:
    # The text of values that say all there is of them; what they leave out stands beside them.
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
