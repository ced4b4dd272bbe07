"""What results look like: to models, to people, and in each provider's format.

Loaded when it is first used, since `pydantic` takes longer to import than all the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .items import (
        Annotation,
        CodeInterpreterCall,
        CodeInterpreterResult,
        Content,
        DataContent,
        ErrorContent,
        FunctionCall,
        FunctionResult,
        HostedFileContent,
        HostedVectorStoreContent,
        Item,
        LaterContent,
        ReasoningContent,
        TextContent,
        UnknownContent,
        UriContent,
        UsageContent,
        code_content,
        content_from_dict,
    )
    from .messages import Message, Update, message_from_dict
    from .streaming import MessageBuilder, coalesce, message_from_updates, messages_from_updates
    from .tools import HostedCodeInterpreterTool, HostedFileSearchTool

_HOMES = {
    "items": (
        "Annotation CodeInterpreterCall CodeInterpreterResult Content DataContent ErrorContent FunctionCall "
        "FunctionResult HostedFileContent HostedVectorStoreContent Item LaterContent ReasoningContent TextContent "
        "UnknownContent UriContent UsageContent code_content content_from_dict"
    ),
    "messages": "Message Update message_from_dict",
    "streaming": "MessageBuilder coalesce message_from_updates messages_from_updates",
    "tools": "HostedCodeInterpreterTool HostedFileSearchTool",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Annotation",
    "CodeInterpreterCall",
    "CodeInterpreterResult",
    "Content",
    "DataContent",
    "ErrorContent",
    "FunctionCall",
    "FunctionResult",
    "HostedCodeInterpreterTool",
    "HostedFileContent",
    "HostedFileSearchTool",
    "HostedVectorStoreContent",
    "Item",
    "LaterContent",
    "Message",
    "MessageBuilder",
    "ReasoningContent",
    "TextContent",
    "UnknownContent",
    "Update",
    "UriContent",
    "UsageContent",
    "coalesce",
    "code_content",
    "content_from_dict",
    "message_from_dict",
    "message_from_updates",
    "messages_from_updates",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
