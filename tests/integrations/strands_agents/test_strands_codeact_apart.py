"""Agents in CodeAct at once, one after the other, from everywhere, and in other languages."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, tool
from strands.multiagent import GraphBuilder

import actbox
from actbox.core.errors import InvalidValue
from actbox.integrations.strands import StrandsSandbox
from actbox.integrations.strands.plugin import CodeActPlugin
from tests.conftest import engine_check
from tests.integrations.strands_agents.acting import acting, block, observations, seen
from tests.integrations.strands_agents.scripted import ScriptedModel


def agent_of(plugin: CodeActPlugin, *turns: Any, **more: Any) -> Agent:
    return Agent(model=ScriptedModel(*turns), plugins=[plugin], callback_handler=None, **more)


# Apart


@pytest.mark.slow
async def test_two_agents_of_one_plugin_share_no_variables_at_once(linux: StrandsSandbox) -> None:
    both = threading.Barrier(2, timeout=60)

    @tool
    def meet() -> str:
        """Wait for the other."""
        both.wait()
        return "met"

    plugin = CodeActPlugin(linux)
    agents = [
        agent_of(plugin, block(f"mine = {number}\nmeet()"), block("meet()\nfinal_answer(mine)"), tools=[meet])
        for number in (1, 2)
    ]
    results = await asyncio.gather(*(agent.invoke_async("go") for agent in agents))
    assert [result.state["codeact"]["answer"] for result in results] == [1, 2]


@pytest.mark.slow
async def test_two_agents_that_are_given_one_state_have_results_of_their_own(linux: StrandsSandbox) -> None:
    shared: dict[str, Any] = {"request_state": {"mine": 1}}
    agents = [acting(linux, block(f"x = {number}"), block("final_answer(x)")) for number in (1, 2)]
    results = await asyncio.gather(*(agent.invoke_async("go", invocation_state=shared) for agent in agents))
    assert [result.state["codeact"]["answer"] for result in results] == [1, 2]
    assert results[0].state["mine"] == 1
    assert shared["request_state"] == {"mine": 1}


@pytest.mark.slow
async def test_agents_in_a_graph_act_at_once_and_hand_on_their_answers(linux: StrandsSandbox) -> None:
    plugin = CodeActPlugin(linux)
    builder = GraphBuilder()
    for number in (1, 2):
        turns = [block(f"x = {number}"), block("final_answer(x)")]
        builder.add_node(agent_of(plugin, *turns, name=f"n{number}"), f"n{number}")
    last = agent_of(plugin, block("print('joins')"), "done", name="last")
    builder.add_node(last, "last")
    builder.add_edge("n1", "last")
    builder.add_edge("n2", "last")
    builder.set_execution_timeout(120)
    result = await builder.build().invoke_async("go")
    answers = {name: node.result.state["codeact"]["answer"] for name, node in result.results.items()}  # type: ignore[union-attr]
    assert answers == {"n1": 1, "n2": 2, "last": "done"}
    assert sorted(item["text"] for item in last.messages[0]["content"] if "Agent: " in item["text"]) == [
        "  - Agent: 1\n",
        "  - Agent: 2\n",
    ]


@pytest.mark.slow
async def test_one_agent_twice_at_once_has_a_session_for_each(linux: StrandsSandbox) -> None:
    met: list[str] = []
    all_met = asyncio.Event()

    @tool
    async def meet(who: str) -> str:
        """Wait for the other."""
        met.append(who)
        if len(met) == 2:
            all_met.set()
        await all_met.wait()
        return who

    def says(messages: Any) -> str:
        return block("mine = globals().get('mine', 0) + 1\nmeet('x')\nfinal_answer(mine)")

    agent = acting(linux, says, tools=[meet], agent={"concurrent_invocation_mode": "unsafe_reentrant"})
    results = await asyncio.gather(agent.invoke_async("one"), agent.invoke_async("two"))
    assert [result.state["codeact"]["answer"] for result in results] == [1, 1]


@pytest.mark.slow
async def test_agents_of_a_plugin_with_an_engines_name_share_no_files() -> None:
    engine_check("linux")
    plugin = CodeActPlugin("linux")
    writes = agent_of(plugin, block("open('mine', 'w').write('x')"), "done")
    reads = agent_of(plugin, block("import os\nfinal_answer(os.listdir())"))
    await writes.invoke_async("go")
    result = await reads.invoke_async("go")
    assert "mine" not in result.state["codeact"]["answer"]


@pytest.mark.slow
async def test_variables_last_as_long_as_the_model_is_told(linux: StrandsSandbox) -> None:
    for keep, answer, told in (
        (False, None, "Those of earlier requests are gone"),
        (True, 7, "also with those of earlier requests"),
    ):
        agent = acting(linux, block("x = 7"), "done", block("final_answer(globals().get('x'))"), keep_session=keep)
        await agent.invoke_async("one")
        result = await agent.invoke_async("two")
        assert result.state["codeact"]["answer"] == answer
        assert all(told in sent["system"] for sent in seen(agent))


def test_a_session_is_kept_over_event_loops(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("x = 7"), "done", block("final_answer(x)"), keep_session=True)
    agent("one")
    assert agent("two").state["codeact"]["answer"] == 7


@pytest.mark.slow
async def test_two_agents_of_one_kept_plugin_have_sessions_of_their_own(linux: StrandsSandbox) -> None:
    plugin = CodeActPlugin(linux, keep_session=True)
    one, other = agent_of(plugin, block("x = 1"), "done"), agent_of(plugin, block("x"), "done")
    await one.invoke_async("go")
    await other.invoke_async("go")
    assert "NameError" in observations(other)[0]


# Which sandbox


@pytest.mark.slow
async def test_without_a_sandbox_of_its_own_it_uses_that_of_the_agent(linux: StrandsSandbox) -> None:
    agent = agent_of(
        CodeActPlugin(), block("open('/workspace/made', 'w').write('by a program')"), "done", sandbox=linux
    )
    await agent.invoke_async("go")
    assert await linux.read_text("made") == "by a program"
    assert "def shell(" in seen(agent)[0]["system"]


@pytest.mark.slow
async def test_an_agent_without_a_sandbox_has_one_that_isolates() -> None:
    engine_check("linux")
    agent = agent_of(CodeActPlugin(), block("import os\nfinal_answer(os.getcwd())"))
    result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == "/workspace"


def test_a_sandbox_of_somebody_elses_is_refused() -> None:
    from strands.sandbox.docker import DockerSandbox

    with pytest.raises(InvalidValue, match=r"the agent's is a DockerSandbox: give CodeActPlugin\(sandbox=…\)"):
        agent_of(CodeActPlugin(), sandbox=DockerSandbox("some-container"))


@pytest.mark.slow
async def test_a_sandbox_of_actbox_will_do() -> None:
    engine_check("linux")
    box = actbox.open_sandbox("linux")
    async with box:
        result = await acting(box, block("final_answer(1)")).invoke_async("go")
    assert result.state["codeact"]["answer"] == 1


# From everywhere


@pytest.mark.slow
def test_a_plain_call_works(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("x = 6"), block("final_answer(x * 7)"))
    assert str(agent("go")) == "42\n"


@pytest.mark.slow
async def test_a_plain_call_works_inside_a_running_event_loop(linux: StrandsSandbox) -> None:
    @tool
    async def double(number: int) -> int:
        """Double it."""
        await asyncio.sleep(0)
        return 2 * number

    agent = acting(linux, block("raise ValueError('first')"), block("final_answer(double(21))"), tools=[double])
    assert str(agent("go")) == "42\n"
    assert "ValueError: first" in observations(agent)[0]


# Programs in CodeAct that have agents run programs


@pytest.mark.slow
async def test_a_tool_that_is_an_agent_in_codeact_runs_no_programs_in_a_program(linux: StrandsSandbox) -> None:
    inner = acting(linux, block("1"), "I may not.", agent={"name": "inner"})
    outer = acting(linux, block("print(inner(input='go'))"), "done", tools=[inner.as_tool(name="inner")])
    await outer.invoke_async("go")
    assert "cannot run programs" in observations(inner)[0]
    assert "I may not." in observations(outer)[0]


# Other languages


@pytest.mark.slow
@pytest.mark.parametrize("language", ["javascript", "typescript"])
async def test_programs_may_be_in_another_language_of_the_sandbox(language: str) -> None:
    found = engine_check("node")
    if not found.works or found.traits is None or language not in found.traits.languages:
        pytest.skip(f"the node engine does not run {language} here: {found.reason}")

    @tool
    def price(item: str) -> int:
        """Return the price of an item in cents."""
        return {"tea": 450, "cake": 320}[item]

    typed = ": number" if language == "typescript" else ""
    short = "ts" if language == "typescript" else "js"
    async with StrandsSandbox("node") as sandbox:
        agent = acting(
            sandbox,
            block("print('Python is not run')", "python") + "\n" + block("const kept = 1\ntotl", short),
            block(f"const tea{typed} = await price('tea')\nconsole.log(kept, tea)", language),
            block("await final_answer({total: await price({item: 'tea'}) + await price('cake')})", short),
            tools=[price],
            language=language,
        )
        result = await agent.invoke_async("go")
    failed, mended = observations(agent)[:2]
    assert "ReferenceError: totl is not defined" in failed
    assert mended == "[stdout]\n1 450"
    assert result.state["codeact"]["answer"] == {"total": 770}
    system = seen(agent)[0]["system"]
    assert f"fenced ```{language} block" in system
    assert "await final_answer(value)" in system
    assert "price(" in system


async def test_programs_may_be_in_rtfs() -> None:
    @tool
    def price(item: str) -> int:
        """Return the price of an item in cents."""
        return {"tea": 450, "cake": 320}[item]

    async with StrandsSandbox("rtfs") as sandbox:
        agent = acting(
            sandbox,
            block('(def total (+ (call :price {:item "tea"}) (call :price ["cake"])))', "rtfs"),
            block('(def total (+ (call :price {:item "tea"}) (call :price {:item "cake"})))', "rtfs"),
            block("(call :final_answer {:value total})", "rtfs"),
            tools=[price],
            language="rtfs",
        )
        result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == 770
    system = seen(agent)[0]["system"]
    assert "a small pure Lisp" in system
    assert "(call :final_answer {:value value})" in system


async def test_without_sessions_each_program_starts_fresh_and_the_model_is_told_so() -> None:
    engine_check("linux")
    box = actbox.open_sandbox("linux")
    box.traits = dataclasses.replace(box.traits, sessions=False)
    async with StrandsSandbox(box) as sandbox:
        agent = acting(
            sandbox, block("x = 1\nopen('kept', 'w').write('1')"), block("print(open('kept').read(), x)"), "done"
        )
        await agent.invoke_async("go")
    assert "NameError: name 'x' is not defined" in observations(agent)[1]
    assert "Each program starts fresh" in seen(agent)[0]["system"]
    assert "share one interpreter" not in seen(agent)[0]["system"]


async def test_an_engine_of_a_part_of_python_says_so() -> None:
    found = engine_check("monty")
    if not found.works:
        pytest.skip(f"the monty engine does not work here: {found.reason}")

    @tool
    def price(item: str) -> int:
        """Return the price of an item in cents."""
        return 450

    async with StrandsSandbox("monty") as sandbox:
        agent = acting(sandbox, block("x = price('tea')"), block("final_answer(x + 1)"), tools=[price])
        result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == 451
    assert "Of Python there is: subset" in seen(agent)[0]["system"]
