"""Pydantic AI's models as chat models: the real library, with its own model made of a function."""

from __future__ import annotations

import pytest

from actbox import ActboxError, Sandbox
from actbox.codeact import CodeAgent
from actbox.codeact.model import AssistantMessage, UserMessage
from actbox.integrations.pydantic_ai import PydanticAIModel


@pytest.fixture(autouse=True)
def pydantic_ai_is_there() -> None:
    """Import it for the first test, which takes long."""
    pytest.importorskip("pydantic_ai", reason="the extra actbox[models] is not installed")


@pytest.mark.slow
async def test_an_agent_solves_a_task_with_a_model_of_pydantic_ais(box: Sandbox) -> None:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    seen: list[list[ModelMessage]] = []
    offered: list[AgentInfo] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(list(messages))
        offered.append(info)
        if len(seen) == 1:
            return ModelResponse(
                [TextPart("Let me see."), ToolCallPart("execute_code", {"code": "double(21)"}, "id-1")]
            )
        if len(seen) == 2:
            return ModelResponse([ToolCallPart("execute_code", '{"code": "final_answer(double(21))"}', "id-2")])
        raise AssertionError("asked too often")

    def double(n: int) -> int:
        """Double."""
        return 2 * n

    outcome = await CodeAgent(PydanticAIModel(FunctionModel(answer)), box, tools=[double]).run("21 * 2?")
    assert outcome.answer == 42
    assert outcome.usage.tokens.input_tokens > 0
    assert [tool.name for tool in offered[0].function_tools] == ["execute_code"]
    first = seen[0][0]
    assert isinstance(first, ModelRequest)
    assert [type(part) for part in first.parts] == [SystemPromptPart, UserPromptPart]
    _, response, result = seen[1]
    assert isinstance(response, ModelResponse)
    assert [type(part) for part in response.parts] == [TextPart, ToolCallPart]
    returned = result.parts[0]
    assert isinstance(returned, ToolReturnPart)
    assert returned.tool_call_id == "id-1"
    assert "42" in str(returned.content)


async def test_a_reply_says_if_the_model_ran_out_of_tokens() -> None:
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("half")], finish_reason="length" if len(messages) == 1 else "stop")

    model = PydanticAIModel(FunctionModel(answer))
    asked = UserMessage("?")
    assert (await model.complete([asked], [])).cut
    assert not (await model.complete([asked, AssistantMessage("half"), asked], [])).cut


def test_a_missing_provider_package_names_what_to_install() -> None:
    import importlib.util

    if importlib.util.find_spec("groq") is not None:
        pytest.skip("the package of the provider groq is installed here, so that it cannot be missing")
    with pytest.raises(ActboxError, match=r"pip install|groq"):
        PydanticAIModel("groq:llama-3.3-70b-versatile")
