"""What SDKs name and our tables do not is found."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tests.content.wire.drift import strings_in
from tests.content.wire.sdk_types import SdkType


class Text(BaseModel):
    type: Literal["text"]


class Dance(BaseModel):
    type: Literal["dance", "waltz"]


Block = Text | Dance


def test_the_types_of_an_sdks_union_are_those_of_its_members() -> None:
    assert SdkType(f"{__name__}:Block").names() == {"text", "dance", "waltz"}
    assert SdkType(f"{__name__}:Text").names() == {"text"}


def test_a_format_names_what_its_source_and_its_tables_have() -> None:
    named = set(strings_in("actbox.content.wire.anthropic"))
    assert {"text", "bash_code_execution_tool_result"} <= named  # the second is made in a table
    assert "dance" not in named
