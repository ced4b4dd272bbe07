"""Whether somebody is asked before a program of an agent runs: modes, styles and the bundle rule. Nothing is awaited.

Only the tools that programs can call count: neither tools that the model calls directly, nor mounts, nor domains, which
whoever wrote the policy has allowed by writing it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal, get_args

from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult
from actbox.tools import Approval, ApprovalDecision, ApprovalRequest, Toolset

from .naming import NamedTools, named_tools

ApprovalStyle = Literal["bundled", "inspected", "nested"]
"""When somebody is asked.

`bundled`: once before the run, if any tool requires approval; never again in it. `inspected`: once before the run, if
the program names a tool that does; a call that could not be read out of the program is asked about when it is made.
`nested`: at each call of a tool that requires approval. Where the default mode of execution is `always_require`,
somebody is asked before every run, whatever the style.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunApproval:
    """What must be approved before one program runs, and the tools that it then runs with.

    `tools` are those because of which `mode` is `always_require`; none where the default mode alone says so. `findings`
    is why a review of the program wants somebody to be asked, empty where it does not.
    """

    mode: Approval
    toolset: Toolset
    tools: tuple[str, ...] = ()
    findings: str = ""

    @property
    def required(self) -> bool:
        """Whether somebody must be asked before the run."""
        return self.mode == "always_require" or bool(self.findings)

    @property
    def reason(self) -> str:
        """Why, as a sentence without its full stop."""
        reasons = []
        if self.tools:
            listed = ", ".join(repr(name) for name in self.tools)
            reasons.append(f"the program may call tools that require approval: {listed}")
        elif self.mode == "always_require":
            reasons.append("every program requires approval")
        return "; ".join([*reasons, self.findings] if self.findings else reasons)

    def request(self, program: str) -> ApprovalRequest:
        """Return the question about the program."""
        return ApprovalRequest(
            id=secrets.token_hex(8), what="run", program=program, reason=self.reason, tools=self.tools
        )


def effective_mode(toolset: Toolset, default: Approval = "never_require") -> Approval:
    """Return the mode of a run by the bundle rule: it requires approval where the default or any tool does."""
    return "always_require" if default == "always_require" or toolset.requiring else "never_require"


def run_approval(
    program: str,
    toolset: Toolset,
    *,
    default: Approval = "never_require",
    style: ApprovalStyle = "bundled",
    named: NamedTools | None = None,
) -> RunApproval:
    """Return what must be approved before a program runs with these tools; `named` where that is known already."""
    if style == "nested":
        return RunApproval(mode=default, toolset=toolset)
    names = toolset.requiring
    if style == "inspected" and names:
        names = (named or named_tools(program, toolset)).requiring(toolset)
    mode: Approval = "always_require" if default == "always_require" or names else "never_require"
    return RunApproval(mode=mode, toolset=toolset.approved(names), tools=names)


def refused(decision: ApprovalDecision, engine: str) -> ExecutionResult:
    """Return the result of a program that did not run because it was not approved."""
    how = "was not approved in time" if decision.cause == "timeout" else "was refused approval"
    error = ErrorInfo(
        kind=ErrorKind.POLICY,
        type="ApprovalRefused",
        message=f"the program {how} and did not run" + (f": {decision.reason}" if decision.reason else ""),
        hint="do not send it again as it is; do without what was refused, or answer in words",
    )
    return ExecutionResult(exit_code=EXIT_NOT_RUN, error=error, sandbox=engine)


def check_modes(default: str, style: str) -> None:
    """Raise `InvalidValue` for a mode or a style that there is not."""
    if default not in get_args(Approval):
        raise InvalidValue(f"approval must be one of {', '.join(get_args(Approval))}, not {default!r}")
    if style not in get_args(ApprovalStyle):
        raise InvalidValue(f"approval_style must be one of {', '.join(get_args(ApprovalStyle))}, not {style!r}")
