"""Agents that act with code: the model writes a program, the program runs, the model reads what came of it."""

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
from .approval import ApprovalStyle
from .approvers import CallbackApprover
from .capabilities import AllowedDomainInput, FileMountInput
from .config import CodeActConfig, ToolEntry
from .frozen import FrozenRun
from .model import (
    AssistantMessage,
    ChatModel,
    Message,
    ModelReply,
    SystemMessage,
    TokenUsage,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from .outcome import CodeActOutcome
from .pending import PendingApproval, PendingApprovals
from .runner import ApprovalNeeded, CodeActRunner
from .scripted import ScriptedModel
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
    "PendingApproval",
    "PendingApprovals",
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
