"""What becomes of one program by the approval style of its run, before anything of it has run. Nothing is awaited."""

from __future__ import annotations

from dataclasses import dataclass

from actbox.tools import Approval

from .approval import RunApproval, run_approval
from .frozen import FrozenRun
from .naming import MOST_CHARACTERS, NamedTools, named_tools
from .tool_search import DESCRIBE_TOOL, SEARCH_TOOLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be approved before a program runs, the tools that it then has, and those that it names literally.

    `refused` is why it must not run at all, as a sentence without its full stop, and empty where it may.
    """

    approval: RunApproval
    named: tuple[str, ...]
    refused: str = ""

    @property
    def may_ask(self) -> bool:
        """Whether somebody may be asked about a call that the program makes."""
        return bool(self.approval.toolset.requiring)

    @property
    def will_ask(self) -> bool:
        """Whether it names a tool about whose calls somebody is asked."""
        return any(name in self.named for name in self.approval.toolset.requiring)


def plan_of(run: FrozenRun, program: str) -> Plan:
    """Return the plan for a program.

    Where the frozen run itself requires approval, that was given by whoever calls: in the bundled style for all tools,
    in the inspected one for those that are named, in the nested one for the program alone.
    """
    settings, toolset = run.settings, run.toolset
    named, refused = NamedTools((), all_told=False), ""
    if settings.approval_style != "bundled":
        named = named_tools(program, toolset)
    if settings.only_named_tools:
        if len(program) > MOST_CHARACTERS:
            refused = (
                f"the program has {len(program):,} characters, and did not run: only those of at most"
                f" {MOST_CHARACTERS:,} are read for the tools that they name"
            )
        always = (SEARCH_TOOLS, DESCRIBE_TOOL) if run.listing is not None else ()
        toolset = toolset.only((*named.names, *always))
    if run.approval == "always_require":  # and has been given
        given = toolset.requiring if settings.approval_style == "bundled" else ()
        if settings.approval_style == "inspected":
            given = tuple(name for name in toolset.requiring if name in named.names)
        approval = RunApproval(mode="never_require", toolset=toolset.approved(given))
    elif settings.only_named_tools:
        asked = toolset.requiring
        mode: Approval = "always_require" if asked else "never_require"
        approval = RunApproval(mode=mode, toolset=toolset.approved(asked), tools=asked)
    else:
        approval = run_approval(program, toolset, style=settings.approval_style, named=named)
    return Plan(approval=approval, named=named.names, refused=refused)
