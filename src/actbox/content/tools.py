"""Tools that a provider runs itself, as an agent requests them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .items import Content, Part


class HostedCodeInterpreterTool(Part):
    """A request that the provider run code. `inputs` are files for the code, hosted or as data."""

    type: Literal["code_interpreter"] = "code_interpreter"
    name: str = "code_interpreter"
    inputs: tuple[Content, ...] = ()


class HostedFileSearchTool(Part):
    """A request that the provider search files. `inputs` are hosted vector stores; some providers take hosted files
    too.
    """

    type: Literal["file_search"] = "file_search"
    name: str = "file_search"
    inputs: tuple[Content, ...] = ()
    maximum_result_count: int | None = Field(default=None, ge=1)


HostedTool = HostedCodeInterpreterTool | HostedFileSearchTool
