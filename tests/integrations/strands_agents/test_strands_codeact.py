"""A Strands agent that acts by programs: they are found, run in a session, observed, and answer."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent, tool

from actbox.integrations.strands import StrandsSandbox
from tests.integrations.strands_agents.acting import acting, block, observations, roles, seen, told


@tool
def price(item: str) -> int:
    """Return the price of an item in cents."""
    return {"tea": 450, "cake": 320}[item]


# The loop


@pytest.mark.slow
async def test_a_program_that_fails_is_mended_and_finds_what_the_first_one_left(sandbox: StrandsSandbox) -> None:
    agent = acting(
        sandbox,
        block("prices = [price('tea'), price('cake')]\nprint(totl(prices))"),
        block("print(sum(prices))"),
        "Together they cost 7.70.",
        tools=[price],
    )
    result = await agent.invoke_async("What do tea and cake cost together?")
    failed, mended = observations(agent)
    assert "NameError: name 'totl' is not defined" in failed
    assert '1. price({"item": "tea"}) → returned' in failed
    assert mended == "[stdout]\n770"
    assert str(result) == "Together they cost 7.70.\n"
    assert result.stop_reason == "end_turn"
    assert result.state["codeact"] == {
        "stopped": "answer",
        "answer": "Together they cost 7.70.",
        "turns": 3,
        "programs": 2,
    }
    assert roles(agent) == ["user", "assistant"] * 3


@pytest.mark.slow
async def test_a_hundred_calls_take_one_turn_of_the_model(sandbox: StrandsSandbox) -> None:
    agent = acting(sandbox, block("final_answer(sum(price('tea') for _ in range(100)))"), tools=[price])
    result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == 45_000
    assert len(seen(agent)) == 1
    assert agent.event_loop_metrics.tool_metrics["price"].call_count == 100


@pytest.mark.slow
async def test_a_final_answer_is_the_last_message_and_the_model_is_not_asked_again(sandbox: StrandsSandbox) -> None:
    agent = acting(sandbox, block("final_answer({'total': 770, 'currency': '€'})"))
    result = await agent.invoke_async("go")
    assert result.message["content"] == [{"text": '{"total": 770, "currency": "€"}'}]
    assert result.state["codeact"]["answer"] == {"total": 770, "currency": "€"}
    assert result.state["codeact"]["stopped"] == "final_answer"
    assert result.stop_reason == "end_turn"
    assert agent.messages[-1] == result.message
    assert roles(agent) == ["user", "assistant"] * 2
    assert len(seen(agent)) == 1


async def test_nothing_is_a_final_answer_too(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("final_answer(None)"))
    result = await agent.invoke_async("go")
    assert result.state["codeact"] == {"stopped": "final_answer", "answer": None, "turns": 1, "programs": 1}
    assert str(result) == "null\n"


@pytest.mark.slow
async def test_the_final_answer_of_a_program_that_fails_does_not_count(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("final_answer(1)\n1 / 0"), block("final_answer(2)"))
    result = await agent.invoke_async("go")
    assert result.state["codeact"]["answer"] == 2
    failed, _ = observations(agent)
    assert "ZeroDivisionError" in failed
    assert "already happened" not in failed


@pytest.mark.slow
async def test_a_question_after_a_final_answer_finds_it_in_the_conversation(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("final_answer('forty-two')"), "You are welcome.")
    await agent.invoke_async("go")
    await agent.invoke_async("Thanks.")
    assert [item["content"][-1]["text"] for item in seen(agent)[-1]["messages"]][-2:] == ["forty-two", "Thanks."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("print(sorted(locals())[:0], callable(locals))", "[] True"),
        ("class A:\n    pass\nclass B(A):\n    kept = 1\nprint(B.kept)", "1"),
        ("def count():\n    yield 1\nprint(*count())", "1"),
        ('text = """\n  two\n    lines\n"""\nprint(repr(text))', r"'\n  two\n    lines\n'"),
        ("# only a comment", None),
        ("import asyncio\nasync def one():\n    return 1\nprint(await asyncio.wait_for(one(), 5))", "1"),
        ("import sys\nsys.stdout.write('by hand\\n')\nprint('else', file=sys.stderr)", "by hand\n\n[stderr]\nelse"),
    ],
)
async def test_programs_are_all_of_python(linux: StrandsSandbox, program: str, printed: str | None) -> None:
    agent = acting(linux, block(program), "done")
    await agent.invoke_async("go")
    (observed,) = observations(agent)
    said = observed.partition("\n\n[value]")[0]
    assert said == (
        f"[stdout]\n{printed}"
        if printed
        else "The program ran and printed nothing. Print what you want to see, or end with an expression."
    )


@pytest.mark.slow
async def test_what_was_bound_before_an_exception_in_a_function_stays(linux: StrandsSandbox) -> None:
    agent = acting(
        linux, block("def f():\n    global x\n    x = 1\n    raise ValueError\ny = 2\nf()"), block("x + y"), "done"
    )
    await agent.invoke_async("go")
    assert observations(agent)[1] == "[value]\n3"


@pytest.mark.slow
async def test_programs_reach_nothing_of_the_host(
    linux: StrandsSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    monkeypatch.setenv("SECRET", "of the host")
    program = (
        f"import os, sys\nprint(os.environ.get('SECRET'), os.path.exists({str(secret)!r}), 'strands' in sys.modules)"
    )
    agent = acting(linux, block(program), "done")
    await agent.invoke_async("go")
    assert observations(agent) == ["[stdout]\nNone False False"]


# What counts as a program


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        ("```python\nprint(1)\nx = 2\n```\nand then\n```py\nprint(x)\n```", "1\n2"),
        ("~~~python\nprint('tildes')\n~~~", "tildes"),
        ("````python\ntext = '''\n```\nnested\n```\n'''\nprint(len(text.split()))\n````", "3"),
        ("1. Like this:\n\n   ```python\n   if True:\n       print('in a list')\n   ```", "in a list"),
        ("```\nprint('no language')\n```", "no language"),
        ('```json\n{"a": 1}\n```\n```python\nprint("beside JSON")\n```', "beside JSON"),
        ("```python\nprint('unclosed')", "unclosed"),
    ],
)
async def test_programs_are_found_as_markdown_means_them(linux: StrandsSandbox, answer: str, printed: str) -> None:
    agent = acting(linux, answer, "done")
    await agent.invoke_async("go")
    assert observations(agent) == [f"[stdout]\n{printed}"]


@pytest.mark.slow
async def test_a_fence_inside_that_ends_a_program_too_early_is_told_as_an_error(
    linux: StrandsSandbox,
) -> None:
    agent = acting(linux, "```python\ntext = '''\n```\nnested\n```\n'''\nprint(text)\n```", "done")
    await agent.invoke_async("go")
    (observed,) = observations(agent)
    assert "error SYNTAX" in observed
    assert "nothing ran" in observed
    assert "stands between longer fences" in seen(agent)[0]["system"]


@pytest.mark.parametrize("answer", ['```json\n{"answer": 4}\n```', "It is 4.", "```bash\nrm -rf /\n```", "`4`"])
async def test_an_answer_without_a_program_is_the_answer(linux: StrandsSandbox, answer: str) -> None:
    agent = acting(linux, answer)
    result = await agent.invoke_async("go")
    assert result.state["codeact"] == {"stopped": "answer", "answer": answer, "turns": 1, "programs": 0}
    assert len(seen(agent)) == 1


# What the model sees


async def test_tools_are_hidden_and_the_prompt_of_the_agent_stays_as_it_is(linux: StrandsSandbox) -> None:
    prompt: Any = [{"text": "You keep a shop."}, {"cachePoint": {"type": "default"}}]
    for given in ("You keep a shop.", prompt, None):
        agent = acting(linux, block("1"), "done", tools=[price], agent={"system_prompt": given})
        before = agent.system_prompt
        await agent.invoke_async("go")
        assert agent.system_prompt == before
        for sent in seen(agent):
            assert not sent["tools"]
            assert sent["system"].startswith("You keep a shop." if given else "You solve tasks by writing Python")
            assert "def price(item: str)" in sent["system"]
            assert "def final_answer(value: Any = None)" in sent["system"]
            assert sent["system"].count("You solve tasks") == 1


async def test_without_the_plugin_all_is_as_before(linux: StrandsSandbox) -> None:
    with_it = acting(linux, "done", tools=[price])
    await with_it.invoke_async("go")
    plain = Agent(model=type(with_it.model)(block("1")), tools=[price], callback_handler=None)  # type: ignore[call-arg]
    result = await plain.invoke_async("go")
    assert str(result).startswith("I try this")
    assert [spec["name"] for spec in seen(plain)[0]["tools"]] == ["price"]
    assert seen(plain)[0]["system"] is None
    assert "codeact" not in result.state


async def test_guidance_comes_before_the_instructions(linux: StrandsSandbox) -> None:
    agent = acting(linux, "done", guidance="Prefer short programs.")
    await agent.invoke_async("go")
    assert seen(agent)[0]["system"].startswith("Prefer short programs.\n\nYou solve tasks")


@pytest.mark.slow
async def test_five_megabytes_of_output_are_cut_for_the_model(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("print('x' * 5_000_000)\nprint('the end')"), "done")
    await agent.invoke_async("go")
    (observed,) = observations(agent)
    assert len(observed) <= 20_000
    assert "characters left out" in observed
    assert "stdout" in observed


async def test_the_model_is_shown_pictures(linux: StrandsSandbox) -> None:
    png = base64.b64encode(PNG).decode()
    program = f"import base64\nopen('/output/dot.png', 'wb').write(base64.b64decode('{png}'))"
    agent = acting(linux, block(program), "done")
    await agent.invoke_async("go")
    pictures = [item["image"] for item in agent.messages[2]["content"] if "image" in item]
    assert pictures == [{"format": "png", "source": {"bytes": PNG}}]


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


# Tools


@pytest.mark.slow
async def test_programs_call_the_tools_that_belong_to_the_sandbox() -> None:
    def stock(item: str) -> int:
        """Return how many there are."""
        return 12

    async with StrandsSandbox("linux", code_tools=[stock]) as sandbox:
        agent = acting(sandbox, block("print(stock('tea'), price('tea'))"), "done", tools=[price])
        await agent.invoke_async("go")
        assert "stock" not in agent.tool_registry.registry
    assert observations(agent) == ["[stdout]\n12 450"]
    assert "def stock(item: str)" in seen(agent)[0]["system"]


async def test_programs_call_allowed_tools_only(linux: StrandsSandbox) -> None:
    @tool
    def wipe() -> str:
        """Remove all."""
        raise AssertionError("it was called")

    agent = acting(linux, block("print(price('tea'))\nwipe()"), "done", tools=[price, wipe], allowed_tools=["price"])
    await agent.invoke_async("go")
    assert "def wipe" not in seen(agent)[0]["system"]
    assert "NameError: name 'wipe' is not defined" in observations(agent)[0]


@pytest.mark.slow
async def test_an_exception_in_a_tool_is_the_programs_to_catch(linux: StrandsSandbox) -> None:
    caught = "try:\n    price('gold')\nexcept ToolError as error:\n    print('caught', error)"
    agent = acting(linux, block(caught), block("price('silver')"), "done", tools=[price])
    await agent.invoke_async("go")
    first, second = observations(agent)
    assert first.startswith("[stdout]\ncaught")
    assert "'gold'" in first
    assert second.startswith("[error TOOL")


@pytest.mark.slow
async def test_a_tool_that_hides_a_function_of_pythons_is_told(linux: StrandsSandbox) -> None:
    @tool(name="print")
    def show(text: str) -> None:
        """Print on paper."""

    agent = acting(linux, block("print(text='a')"), "done", tools=[show])
    await agent.invoke_async("go")
    assert "print is the tool of that name in programs; Python's own is builtins.print" in observations(agent)[0]


async def test_a_tool_of_the_name_of_the_final_answer_is_refused(linux: StrandsSandbox) -> None:
    @tool
    def final_answer(text: str) -> str:
        """Say it."""
        return text

    from actbox.core.errors import InvalidValue

    with pytest.raises(InvalidValue, match="rename it"):
        await acting(linux, "done", tools=[final_answer]).invoke_async("go")


# What those who stream see


@pytest.mark.slow
async def test_those_who_stream_see_programs_output_and_calls_as_they_happen(linux: StrandsSandbox) -> None:
    agent = acting(linux, block("print('one')\nprice('tea')"), block("final_answer('fin')"), tools=[price])
    events = [event async for event in agent.stream_async("go")]
    programs = told(events, "program")
    assert [program["number"] for program in programs] == [1, 2]
    assert programs[0] == {"code": "print('one')\nprice('tea')\n", "language": "python", "number": 1}
    assert "".join(piece["text"] for piece in told(events, "printed")) == "one\n"
    (call,) = told(events, "tool_use")
    assert (call["name"], call["input"]) == ("price", {"item": "tea"})
    assert told(events, "tool_result")[0]["content"] == [{"text": "450"}]
    assert [event["data"] for event in events if "data" in event][-1] == "fin"
    results = [event["result"] for event in events if "result" in event]
    assert len(results) == 1
    assert events[-1]["result"].state["codeact"]["answer"] == "fin"


@pytest.mark.slow
async def test_callback_handlers_are_told_as_well(linux: StrandsSandbox) -> None:
    heard: list[Any] = []
    agent = acting(
        linux,
        block("print('hello')"),
        "done",
        agent={"callback_handler": lambda **said: heard.append(said)},
    )
    await agent.invoke_async("go")
    assert told(heard, "printed") == [{"stream": "stdout", "text": "hello\n"}]


async def test_an_answer_that_a_session_manager_keeps_is_the_final_one(linux: StrandsSandbox) -> None:
    from strands.hooks import MessageAddedEvent

    added: list[Any] = []
    agent = acting(linux, block("final_answer('kept')"))
    agent.add_hook(lambda event: added.append(event.message), MessageAddedEvent)
    await agent.invoke_async("go")
    assert added == agent.messages
    assert added[-1]["content"] == [{"text": "kept"}]
