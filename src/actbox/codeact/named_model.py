"""`named_model`: a chat model by its name, such as `openai:gpt-5`.

The adapter names a framework, so it stands in `actbox.integrations`, above this room. This room therefore holds the
name of its module as data, as the table of engines does, and imports the module only if a model is given by name.
"""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import Any, Final, Protocol, Self

from .model import ChatModel

_ADAPTER: Final = "actbox.integrations.pydantic_ai"


class ConnectedModel(ChatModel, Protocol):
    """A chat model with connections of its own, which are closed at the end of an `async with` block.

    Blocks may overlap: the last one closes the connections. A later block opens new ones.
    """

    async def __aenter__(self) -> Self:
        """Begin to use the model."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections unless another block still uses them."""
        ...


def named_model(
    name: str, *, base_url: str | None = None, api_key: str | None = None, system_prompt: str = "", **settings: Any
) -> ConnectedModel:
    """Return the model that `PROVIDER:MODEL` names, at another address than its provider's if `base_url` is given.

    `api_key` is used instead of the key in the provider's environment variable, `system_prompt` is put before the
    instructions of every request, and `settings` (`max_tokens`, `temperature`, …) are sent with it.

    No request is sent. Raises `ActboxError` if the name or the address is invalid, or a package or a key is missing.
    """
    model: ConnectedModel = import_module(_ADAPTER).PydanticAIModel(
        name, base_url=base_url, api_key=api_key, system_prompt=system_prompt, **settings
    )
    return model
