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
from .pending import PendingApproval, PendingApprovals
from .scripted import ScriptedModel

__all__ = [
    "AgentOutcome",
    "AgentUsage",
    "Answered",
    "ApprovalStyle",
    "AssistantMessage",
    "CallbackApprover",
    "ChatModel",
    "CodeAgent",
    "CodeFinished",
    "CodeStarted",
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
    "ToolResultMessage",
    "ToolSpec",
    "TurnStarted",
    "UserMessage",
]
