"""Agents that act with code: the model writes a program, the program runs, and the model reads the result."""

from .agent import (
    AgentOutcome,
    AgentUsage,
    Answered,
    CodeAgent,
    CodeFinished,
    CodeStarted,
    ModelSpoke,
    RunEvent,
    TurnStarted,
)
from .approvals import ApprovalStyle
from .approvers import CallbackApprover
from .capabilities import AllowedDomainInput, FileMountInput
from .config import CodeActConfig, ToolEntry
from .frozen import FrozenRun
from .model import (
    AssistantMessage,
    ChatModel,
    Message,
    ModelReply,
    ScriptedModel,
    SystemMessage,
    TokenUsage,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from .outcome import CodeActOutcome
from .pending_questions import PendingApproval, PendingApprovals
from .program_events import OnEvent, ProgramEvent
from .runner import ApprovalNeeded, CodeActRunner
from .settings import CodeActOptions, CodeActSettings

__all__ = [
    "AgentOutcome",
    "AgentUsage",
    "AllowedDomainInput",
    "Answered",
    "ApprovalNeeded",
    "ApprovalStyle",
    "AssistantMessage",
    "CallbackApprover",
    "ChatModel",
    "CodeActConfig",
    "CodeActOptions",
    "CodeActOutcome",
    "CodeActRunner",
    "CodeActSettings",
    "CodeAgent",
    "CodeFinished",
    "CodeStarted",
    "FileMountInput",
    "FrozenRun",
    "Message",
    "ModelReply",
    "ModelSpoke",
    "OnEvent",
    "PendingApproval",
    "PendingApprovals",
    "ProgramEvent",
    "RunEvent",
    "ScriptedModel",
    "SystemMessage",
    "TokenUsage",
    "ToolCall",
    "ToolEntry",
    "ToolResultMessage",
    "ToolSpec",
    "TurnStarted",
    "UserMessage",
]
