"""The content model: results as items for models, people, and each provider's format.

This room is loaded when first used, because importing `pydantic` takes longer than the rest of actbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.lazy import lazy_attributes

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


__getattr__ = lazy_attributes(
    __name__,
    {
        "items": (
            "Annotation CodeInterpreterCall CodeInterpreterResult Content DataContent ErrorContent FunctionCall "
            "FunctionResult HostedFileContent HostedVectorStoreContent Item LaterContent ReasoningContent TextContent "
            "UnknownContent UriContent UsageContent code_content content_from_dict"
        ),
        "messages": "Message Update message_from_dict",
        "streaming": "MessageBuilder coalesce message_from_updates messages_from_updates",
        "tools": "HostedCodeInterpreterTool HostedFileSearchTool",
    },
)
