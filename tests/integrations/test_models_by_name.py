"""Models by name: the providers' real clients, over loopback, against a server that speaks each provider's wire."""

from __future__ import annotations

import io
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
from rich.console import Console

import actbox
from actbox import ActboxError, InvalidValue, Sandbox
from actbox.cli.demo import demo
from actbox.cli.demo_case import SCRIPTED_REPLIES
from actbox.cli.demo_story import REPLIES
from actbox.codeact import CodeAgent, ScriptedModel
from actbox.codeact.instructions import execute_code_spec
from actbox.codeact.model import ToolSpec, UserMessage, complete, has_structured_output
from actbox.integrations.pydantic_ai import PydanticAIModel
from tests.integrations.model_wires import (
    KEY,
    MODEL,
    WIRES,
    ChatCompletions,
    Refused,
    Reply,
    Request,
    Responses,
    Wire,
    serving,
)

EACH_WIRE = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)

VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    *("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_BASE_URL", "OLLAMA_API_KEY"),
)


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test an environment without a provider's key or address."""
    pytest.importorskip("pydantic_ai", reason="the extra actbox[models] is not installed")
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def idle_box() -> Sandbox:
    """A sandbox that is not started, for agents whose model writes no program."""
    return actbox.open_sandbox("process", allow_unisolated=True)


def double(n: int) -> int:
    """Return twice a number."""
    return 2 * n


def shows_no_cause(error: BaseException) -> bool:
    """Return True if a traceback of this error shows no other one."""
    return error.__cause__ is None and error.__suppress_context__


@pytest.mark.slow
@EACH_WIRE
async def test_an_agent_solves_a_task_over_each_wire(
    wire: Wire, isolated_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.variable, KEY)
    replies = [
        Reply("Let me see.", "print(double(20) + 1)\n1 / 0"),
        Reply(program="print('twice:', double(21))\nfinal_answer(double(21))"),
    ]
    with serving(wire, replies) as provider:
        agent = CodeAgent(f"{wire.provider}:{MODEL}", isolated_box, base_url=provider.base_url, tools=[double])
        assert provider.requests == []
        outcome = await agent.run("21 * 2?")
        await provider.wait_until_no_connection_is_open()
    assert (outcome.answer, outcome.stopped) == (42, "final_answer")
    assert (outcome.usage.tokens.input_tokens, outcome.usage.tokens.output_tokens) == (14, 10)
    assert [result.success for result in outcome.results] == [False, True]
    assert [request.path for request in provider.requests] == [wire.path] * 2
    spec = execute_code_spec()
    for request in provider.requests:
        assert request.headers[wire.key_header] == wire.key_prefix + KEY
        assert "def double(n: int) -> int:" in wire.system(request.body)
        assert wire.tools(request.body) == [(spec.name, spec.description, spec.input_schema)]
    assert wire.results(provider.requests[0].body) == []
    [(_, observation)] = wire.results(provider.requests[1].body)
    assert "41" in observation
    assert "ZeroDivisionError" in observation


@pytest.mark.slow
@EACH_WIRE
async def test_an_agent_answers_one_question_after_another_and_keeps_no_connection(
    wire: Wire, idle_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.variable, KEY)
    with serving(wire, [Reply("Oslo."), Reply("Rome.")]) as provider:
        agent = CodeAgent(f"{wire.provider}:{MODEL}", idle_box, base_url=provider.base_url)
        for capital in ("Oslo.", "Rome."):
            outcome = await agent.run("The capital?")
            assert outcome.answer == capital
            await provider.wait_until_no_connection_is_open()


@pytest.mark.slow
@EACH_WIRE
async def test_a_refusal_of_the_provider_is_raised_with_its_reason(
    wire: Wire, idle_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.variable, "another-key")
    with serving(wire, []) as provider:
        agent = CodeAgent(f"{wire.provider}:{MODEL}", idle_box, base_url=provider.base_url)
        with pytest.raises(ActboxError, match=f"^the model {wire.provider}:{MODEL} did not answer: .*the key is wrong"):
            await agent.run("?")
        await provider.wait_until_no_connection_is_open()


@pytest.mark.slow
@EACH_WIRE
async def test_an_error_about_a_server_that_cannot_be_reached_names_its_address(
    wire: Wire, idle_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.variable, KEY)
    with serving(wire, []) as provider:
        address = provider.base_url  # nothing listens there once the block has ended
    agent = CodeAgent(
        f"{wire.provider}:{MODEL}", idle_box, base_url=address.replace("http://", "http://me:the-password@")
    )
    with pytest.raises(ActboxError, match=f"^the model {wire.provider}:{MODEL} at {address}/? did not answer: ."):
        await agent.run("?")


class WithoutSchemas(ChatCompletions):
    """A server that knows no schema of an answer, as many that are compatible do not."""

    def check(self, request: Request) -> None:
        super().check(request)
        if "response_format" in request.body:
            raise Refused(400, "unknown field: response_format")


@pytest.mark.slow
@pytest.mark.parametrize("wire", [ChatCompletions(), WithoutSchemas()], ids=["takes it", "refuses it"])
async def test_a_model_gets_the_schema_of_its_answer_unless_its_server_refuses_that(
    wire: ChatCompletions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.variable, KEY)
    schema = {
        "type": "object",
        "properties": {"code": {"type": "string"}},
        "required": ["code"],
        "additionalProperties": False,
    }
    output = ToolSpec("write_code", "Answer with a program.", schema)
    refuses = isinstance(wire, WithoutSchemas)
    with serving(wire, [Reply('{"code": "1"}')] * 2) as provider:
        async with PydanticAIModel(f"openai-chat:{MODEL}", base_url=provider.base_url) as model:
            assert has_structured_output(model)
            for _ in range(2):
                reply = await complete(model, [UserMessage("one?")], [], output)
                assert (reply.text, reply.cut) == ('{"code": "1"}', False)
            assert has_structured_output(model) is not refuses
        await provider.wait_until_no_connection_is_open()
    formats = [request.body.get("response_format", {}).get("json_schema") for request in provider.requests]
    assert [form is not None for form in formats] == ([True, False, False] if refuses else [True, True])
    assert (formats[0]["name"], formats[0]["schema"]) == ("write_code", schema)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["argument", "variable"])
async def test_a_server_without_responses_is_told_apart_from_a_broken_one(
    by: str, idle_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(ChatCompletions(), []) as provider:
        if by == "variable":
            monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        agent = CodeAgent("openai:qwen3", idle_box, base_url=provider.base_url if by == "argument" else None)
        with pytest.raises(ActboxError, match=r"name the model openai-chat:qwen3$"):
            await agent.run("?")
    assert [request.path for request in provider.requests] == [Responses.path]


@pytest.mark.slow
@pytest.mark.parametrize("provider_name", ["openai-chat", "ollama", "vllm"])
async def test_a_server_of_ones_own_needs_no_key(provider_name: str, idle_box: Sandbox) -> None:
    with serving(ChatCompletions(key=None), [Reply("Oslo.")]) as provider:
        agent = CodeAgent(f"{provider_name}:{MODEL}", idle_box, base_url=provider.base_url)
        assert (await agent.run("The capital?")).answer == "Oslo."
    assert [request.path for request in provider.requests] == [ChatCompletions.path]
    assert provider.requests[0].body["model"] == MODEL


@pytest.mark.slow
async def test_the_demo_asks_the_model_at_the_given_address(
    isolated_engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire, written = ChatCompletions(), io.StringIO()
    monkeypatch.setenv(wire.variable, KEY)
    with serving(wire, [Reply(text) for text in (*SCRIPTED_REPLIES, *REPLIES)]) as provider:
        name, console = f"{wire.provider}:{MODEL}", Console(file=written, width=120)
        code = await demo(
            name, tmp_path, console, lambda: actbox.open_sandbox(isolated_engine), base_url=provider.base_url
        )
        await provider.wait_until_no_connection_is_open()
    assert code == 0, written.getvalue()
    assert name in written.getvalue()
    assert "scripted" not in written.getvalue()
    assert len(provider.requests) == len(SCRIPTED_REPLIES) + len(REPLIES)


@pytest.mark.slow
@EACH_WIRE
async def test_a_missing_key_is_one_sentence_that_names_its_variable(wire: Wire, idle_box: Sandbox) -> None:
    with pytest.raises(ActboxError) as caught:
        CodeAgent(f"{wire.provider}:{MODEL}", idle_box)
    assert str(caught.value) == (
        f"the model '{wire.provider}:{MODEL}' needs an API key: set the environment variable {wire.variable}"
    )
    assert shows_no_cause(caught.value)


@pytest.mark.slow
def test_an_empty_key_is_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(ActboxError, match=r"set the environment variable OPENAI_API_KEY$"):
        PydanticAIModel("openai:gpt-5")


@pytest.mark.slow
def test_a_missing_address_is_one_sentence_that_names_its_variable() -> None:
    with pytest.raises(ActboxError) as caught:
        PydanticAIModel("ollama:qwen3")
    assert str(caught.value) == (
        "the model 'ollama:qwen3' needs the address of its server: "
        "give base_url, or set the environment variable OLLAMA_BASE_URL"
    )
    assert shows_no_cause(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "provider, package", [("openai", "openai"), ("anthropic", "anthropic"), ("google", "google.genai")]
)
def test_a_missing_package_of_a_provider_is_one_sentence_that_names_the_extra(
    provider: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules]:
        if name.startswith((f"{package}.", f"pydantic_ai.providers.{provider}", f"pydantic_ai.models.{provider}")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    told = rf"'{provider}' cannot be imported \(.*\): pip install 'actbox\[models\]'$"
    with pytest.raises(ActboxError, match=told) as caught:
        PydanticAIModel(f"{provider}:{MODEL}")
    assert shows_no_cause(caught.value)


async def test_a_missing_extra_is_one_sentence_that_names_it(
    idle_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NotInstalled(MetaPathFinder):
        def find_spec(self, fullname: str, path: object, target: object = None) -> None:
            if fullname.partition(".")[0] == "pydantic_ai":
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    for name in [*sys.modules]:
        if name.partition(".")[0] == "pydantic_ai":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NotInstalled(), *sys.meta_path])
    with pytest.raises(ActboxError, match=r"^pydantic_ai is not installed: pip install 'actbox\[models\]'$") as caught:
        CodeAgent("openai:gpt-5", idle_box)
    assert shows_no_cause(caught.value)


async def test_an_unknown_provider_is_one_sentence_that_names_it_and_the_known_ones(idle_box: Sandbox) -> None:
    with pytest.raises(InvalidValue) as caught:
        CodeAgent("nobody:x", idle_box)
    assert str(caught.value) == (
        "there is no model provider 'nobody': use openai, openai-chat, anthropic, google or another provider of "
        "Pydantic AI"
    )
    assert shows_no_cause(caught.value)


@pytest.mark.parametrize("name", ["gpt-5", "", ":gpt-5", "openai:"])
async def test_a_name_without_a_provider_or_a_model_is_refused(name: str, idle_box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="a model is named PROVIDER:MODEL, such as 'openai:gpt-5', not "):
        CodeAgent(name, idle_box)


@pytest.mark.slow
@pytest.mark.parametrize("address", ["", "localhost:8000", "/v1", "ftp://127.0.0.1/v1", "http://"])
def test_an_address_that_is_no_url_is_refused(address: str) -> None:
    with pytest.raises(InvalidValue, match=r"base_url must be a URL such as 'http://127.0.0.1:8000/v1', not "):
        PydanticAIModel("openai-chat:qwen3", base_url=address)


@pytest.mark.slow
def test_a_provider_whose_address_is_fixed_takes_no_base_url() -> None:
    with pytest.raises(InvalidValue, match="the model provider 'gateway/openai' takes no base_url"):
        PydanticAIModel("gateway/openai:gpt-5", base_url="http://127.0.0.1:8000/v1")


async def test_a_model_that_is_given_whole_takes_no_base_url(idle_box: Sandbox) -> None:
    with pytest.raises(InvalidValue, match="base_url is for a model given by name"):
        CodeAgent(ScriptedModel([]), idle_box, base_url="http://127.0.0.1:8000/v1")
