"""Coding agents with the providers' real clients, over loopback, against servers that answer well and badly."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ActboxError, Sandbox
from actbox.capabilities import Budget
from actbox.codeact import Message, ModelReply, ScriptedModel, ToolSpec
from actbox.codeact.model import ChatModel
from actbox.codegen import CodingAgent, Profiles, RetryPolicy, Task
from actbox.integrations.pydantic_ai import PydanticAIModel
from tests.conftest import engine_check
from tests.integrations.model_wires import (
    KEY,
    MODEL,
    ChatCompletions,
    Fault,
    GenerateContent,
    Messages,
    Refused,
    Reply,
    Request,
    Responses,
    Wire,
    serving,
)
from tests.scripts import run_script

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "codegen"

NAMES = {
    "openai": (Responses(), f"openai:{MODEL}"),
    "openai-chat": (ChatCompletions(), f"openai-chat:{MODEL}"),
    "anthropic": (Messages(), "anthropic:claude-sonnet-4-6"),  # one that has structured output, and is streamed
    "google": (GenerateContent(), f"google:{MODEL}"),
}
EACH_MODEL = pytest.mark.parametrize(("wire", "name"), NAMES.values(), ids=NAMES)
TASK = Task("Add up the amounts.", inputs={"sales.csv": "amount\n20\n22\n"}, checks=[lambda result: result.value == 42])
READS = "import csv\n\nrows = list(csv.DictReader(open('input/sales.csv')))\n"
FAILS = f"{READS}sum(row['sum'] for row in rows)"
RIGHT = f"{READS}sum(int(row['amount']) for row in rows)"


def block(code: str) -> Reply:
    return Reply(f"```python\n{code}\n```")


def answer(code: str) -> str:
    return json.dumps({"code": code, "language": "python", "dependencies": [], "explanation": "It adds them up."})


@pytest.fixture(autouse=True)
def only_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test an environment with one key for every provider, and no address."""
    pytest.importorskip("pydantic_ai", reason="the extra actbox[models] is not installed")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux") as opened:
        yield opened


# A whole task


@EACH_MODEL
async def test_a_task_is_solved_by_answers_that_fit_a_schema(wire: Wire, name: str, box: Sandbox) -> None:
    with serving(wire, [Reply(answer(FAILS)), Reply(answer(RIGHT))]) as server:
        outcome = await CodingAgent(name, box, base_url=server.base_url).solve(TASK)
        await server.wait_until_no_connection_is_open()
    assert (outcome.stopped, outcome.answer) == ("solved", 42)
    assert [(one.error_class, one.response.form) for one in outcome.attempts] == [
        ("runtime_error", "json"),
        (None, "json"),
    ]
    assert [one.explanation for one in outcome.attempts] == ["It adds them up."] * 2
    for request in server.requests:
        assert wire.schema(request.body)["properties"]["code"]["type"] == "string"
        assert "You write Python programs" in wire.system(request.body)
    assert "amount" in json.dumps(server.requests[0].body)  # the file's columns
    assert "KeyError: 'sum'" in json.dumps(server.requests[1].body)
    tokens = outcome.usage.by_model[name]
    assert (tokens.input_tokens, tokens.output_tokens, outcome.usage.usd) == (14, 10, None)


class WithoutSchemas(ChatCompletions):
    """A server that refuses the schema of an answer, as many that are compatible do."""

    def check(self, request: Request) -> None:
        super().check(request)
        if self.schema(request.body) is not None:
            raise Refused(400, "unknown field: response_format")


async def test_a_server_that_refuses_schemas_is_asked_for_blocks(box: Sandbox) -> None:
    wire = WithoutSchemas()
    with serving(wire, [block(FAILS), block(RIGHT)]) as server:
        outcome = await CodingAgent(f"openai-chat:{MODEL}", box, base_url=server.base_url).solve(TASK)
    assert (outcome.stopped, outcome.answer, len(outcome.attempts)) == ("solved", 42, 2)
    assert [wire.schema(request.body) is not None for request in server.requests] == [True, False, False]
    assert "If you see no schema, answer with the program in one fenced ```python block" in wire.system(
        server.requests[1].body
    )


async def test_the_specifications_default_profile_writes_and_its_money_is_counted(box: Sandbox, tmp_path: Path) -> None:
    wire = ChatCompletions()
    with serving(wire, [block(FAILS), block(RIGHT)]) as server:
        (tmp_path / "agent_config.toml").write_text(f"""
            [coding_agents]
            default = "openrouter:deepseek-coder"

            [[coding_agents.profiles]]
            name = "deepseek-coder"
            provider = "openrouter"
            model = "deepseek/deepseek-coder-v2-instruct"
            api_key_env = "OPENROUTER_API_KEY"
            system_prompt = "Generate clean, well-documented code."
            base_url = "{server.base_url}"
            max_tokens = 2048
            input_usd = 0.14
            output_usd = 0.28
        """)
        profiles = Profiles.load(tmp_path / "agent_config.toml")
        agent = CodingAgent(profiles, box, budget=Budget(usd=0.2))
        outcome = await agent.solve(TASK)
        await server.wait_until_no_connection_is_open()
    assert (outcome.solved, outcome.answer) == (True, 42)
    assert outcome.decision is not None and outcome.decision.way == "delegated"
    a_call = (7 * 0.14 + 5 * 0.28) / 1e6
    assert [one.cost for one in outcome.attempts] == pytest.approx([a_call, a_call])
    assert outcome.usage.usd == pytest.approx(2 * a_call)
    assert float(agent.account.left_of("usd") or 0) == pytest.approx(0.2 - 2 * a_call)
    assert {one.model for one in outcome.attempts} == {"openai-chat:deepseek/deepseek-coder-v2-instruct"}
    for request in server.requests:
        assert request.body["model"] == "deepseek/deepseek-coder-v2-instruct"
        assert wire.system(request.body).startswith("Generate clean, well-documented code.\n\nYou write Python")
        assert request.body["max_tokens"] == 2048


# Each takes a real model in the same way, so most of them are left to the run that takes its time.
@pytest.mark.parametrize(
    ("example", "provider"),
    [
        ("iterative_refinement_demo", "openai-chat"),
        ("rtfs_execution_demo", "google"),
        pytest.param("python_execution_demo", "openai", marks=pytest.mark.long),
        pytest.param("javascript_execution_demo", "anthropic", marks=pytest.mark.long),
        pytest.param("sales_by_region", "openai-chat", marks=pytest.mark.long),
    ],
)
def test_an_example_asks_the_model_that_it_is_given(
    example: str, provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = "node" if "javascript" in example else "linux"
    if not (found := engine_check(engine)).works:
        pytest.skip(f"the {engine} engine does not work here: {found.reason}")
    source = (EXAMPLES / f"{example}.py").read_text()
    names: dict[str, Any] = {}
    with monkeypatch.context() as patched:
        patched.syspath_prepend(EXAMPLES)
        exec(source.partition("\nasync def ")[0], names)
        del sys.modules["scripted"]
    wire, name = NAMES[provider]
    with serving(wire, [Reply(text) for text in names["REPLIES"]]) as server:
        arguments = ("--model", name, "--base-url", server.base_url)
        done = run_script(source, tmp_path, file=EXAMPLES / f"{example}.py", arguments=arguments)
    assert done.returncode == 0, done.stderr
    assert "NO MODEL IS ASKED" not in done.stdout
    assert "solved" in done.stdout.lower()
    assert len(server.requests) == len(names["REPLIES"])


# Servers that answer badly


@EACH_MODEL
async def test_a_rate_limit_is_waited_for(wire: Wire, name: str, box: Sandbox) -> None:
    busy = Refused(429, "too many requests", {"retry-after": "0"})
    with serving(wire, [block(FAILS), busy, busy, block(RIGHT)]) as server:
        outcome = await CodingAgent(name, box, base_url=server.base_url).solve(TASK)
    assert (outcome.stopped, outcome.answer, len(outcome.attempts)) == ("solved", 42, 2)
    assert (len(server.requests), outcome.usage.model_calls) == (4, 2)
    assert outcome.usage.tokens.output_tokens == 10


FAULTS = {
    "rate limit": (Refused(429, "too many requests", {"retry-after": "3600"}), "too many requests", 1),
    "dropped connection": (Fault.DROPS, " did not answer: ", 3),
}


@EACH_MODEL
@pytest.mark.parametrize(("fault", "reason", "requests"), FAULTS.values(), ids=FAULTS)
async def test_a_model_that_does_not_answer_ends_the_task_with_all_attempts(
    wire: Wire, name: str, fault: Refused | Fault, reason: str, requests: int, box: Sandbox
) -> None:
    with serving(wire, [block(FAILS), *[fault] * 9]) as server:
        outcome = await CodingAgent(name, box, base_url=server.base_url).solve(TASK)
        await server.wait_until_no_connection_is_open()
    assert (outcome.solved, outcome.stopped, outcome.answer) == (False, "model", None)
    assert reason in outcome.reason
    assert name in outcome.reason
    assert len(server.requests) == 1 + requests
    assert isinstance(outcome.failure, ActboxError)
    (attempt,) = outcome.attempts
    assert (attempt.code.strip(), attempt.error_class) == (FAILS, "runtime_error")
    assert attempt.result is not None and attempt.result.error is not None
    assert (outcome.usage.model_calls, outcome.usage.runs, outcome.usage.tokens.output_tokens) == (2, 1, 5)


class AfterFirst:
    """A model whose first answer comes from a script, so that a test need not wait for a server to give it."""

    def __init__(self, model: ChatModel, first: str) -> None:
        self.name, self._model, self._first = model.name, model, ScriptedModel([first])

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        if not self._first.asked:
            return await self._first.complete(messages, tools)
        return await self._model.complete(messages, tools)


@EACH_MODEL
async def test_a_model_that_is_silent_is_waited_for_no_longer_than_said(wire: Wire, name: str, box: Sandbox) -> None:
    with serving(wire, [Fault.HANGS]) as server:
        async with PydanticAIModel(name, base_url=server.base_url) as model:
            agent = CodingAgent(AfterFirst(model, block(FAILS).text), box, model_seconds=0.5)
            outcome = await agent.solve(TASK)
    assert (outcome.stopped, outcome.reason) == ("model", f"the model {name} did not answer in 0.5 s")
    assert isinstance(outcome.failure, TimeoutError)
    assert [one.error_class for one in outcome.attempts] == ["runtime_error"]


@EACH_MODEL
async def test_half_an_answer_is_an_attempt_that_the_model_may_correct(wire: Wire, name: str, box: Sandbox) -> None:
    half = answer(RIGHT)[:60]
    with serving(wire, [Reply(half, cut=True), Reply(f"```python\n{READS}sum(", cut=True), block(RIGHT)]) as server:
        outcome = await CodingAgent(name, box, base_url=server.base_url).solve(TASK)
    assert (outcome.stopped, outcome.answer) == ("solved", 42)
    assert [one.error_class for one in outcome.attempts] == ["no_code", "syntax_error", None]
    assert "ends in the middle" in outcome.attempts[0].explanation
    assert "the answer ended in the middle of its program" in outcome.notes


async def test_answers_that_are_always_cut_off_end_with_all_of_them(box: Sandbox) -> None:
    cut = [Reply(answer(RIGHT)[: 50 + n], cut=True) for n in range(3)]
    with serving(ChatCompletions(), cut) as server:
        agent = CodingAgent(
            f"openai-chat:{MODEL}", box, base_url=server.base_url, retry=RetryPolicy(attempt_backoff_ms=())
        )
        outcome = await agent.solve(TASK)
    assert (outcome.solved, outcome.stopped) == (False, "attempts")
    assert [one.error_class for one in outcome.attempts] == ["no_code"] * 3
    assert outcome.usage.tokens.output_tokens == 15
