"""What becomes of one program by the approval style of its run, before anything of it has run. Nothing is awaited."""

from __future__ import annotations

from dataclasses import dataclass

from actbox.tools import Approval, Toolset

from .approval import RunApproval, run_approval
from .frozen import FrozenRun
from .tool_search import DESCRIBE_TOOL, SEARCH_TOOLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be approved before a program runs, the tools that it then has, and those that it names literally."""

    approval: RunApproval
    named: tuple[str, ...]

    @property
    def will_ask(self) -> bool:
        """Whether the program calls, by a name that can be read out of it, a tool about which somebody is asked then."""
        return any(name in self.named for name in self.approval.toolset.requiring)


def plan_of(run: FrozenRun, program: str) -> Plan:
    """Return the plan for a program.

    Where the frozen run itself requires approval, that was given by whoever calls: in the bundled style for all tools,
    in the inspected one for those that are named, in the nested one for the program alone.
    """
    settings, toolset = run.settings, run.toolset
    named: tuple[str, ...] = ()
    if settings.approval_style != "bundled":
        named = _named_tools(program, toolset)
    if settings.only_named_tools:
        always = (SEARCH_TOOLS, DESCRIBE_TOOL) if run.listing is not None else ()
        toolset = toolset.only((*named, *always))
    if run.approval == "always_require":  # and has been given
        given = toolset.requiring if settings.approval_style == "bundled" else ()
        if settings.approval_style == "inspected":
            given = tuple(name for name in toolset.requiring if name in named)
        return Plan(approval=RunApproval(mode="never_require", toolset=toolset.approved(given)), named=named)
    if settings.only_named_tools:
        asked = toolset.requiring
        mode: Approval = "always_require" if asked else "never_require"
        return Plan(approval=RunApproval(mode=mode, toolset=toolset.approved(asked), tools=asked), named=named)
    return Plan(approval=run_approval(program, toolset, style=settings.approval_style), named=named)


def _named_tools(program: str, toolset: Toolset) -> tuple[str, ...]:
    """Return the tools that a program calls by names that can be read out of it, in the order of the toolset."""
    from actbox.review import tool_calls  # what it costs is for those who ask

    found = set()
    for call in tool_calls(program, (*toolset.names, *toolset.aliases.values())):
        tool = toolset.get(call.tool) if call.tool is not None else None
        if tool is not None:
            found.add(tool.name)
    return tuple(name for name in toolset.names if name in found)
