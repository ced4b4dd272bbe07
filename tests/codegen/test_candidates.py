"""Several candidates at once and the choice among them; and attempts that start from copies of a session."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import AllowedDomain, Policy, Sandbox
from actbox.capabilities import Budget, Prices, TokenPrice
from actbox.codeact import ModelReply, ScriptedModel
from actbox.codegen import CodingAgent, ErrorClass, RetryPolicy, Task
from actbox.codegen.outcome import AttemptEvent, Chosen, Outcome
from actbox.sandbox.contract import Session
from tests.codegen.stories import Model, block, linux_box, reply

ONCE = RetryPolicy(max_attempts=1)


@pytest_asyncio.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with linux_box() as opened:
        yield opened


@contextmanager
def copies_of(session: Session) -> Iterator[list[Session]]:
    """Record the copies that are made of a session and of its copies."""
    made: list[Session] = []
    kind = type(session)
    fork = kind.fork

    async def recorded(self: Session) -> Session:
        made.append(await fork(self))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "fork", recorded)
        yield made


async def chosen_from(
    replies: Sequence[str | ModelReply], box: Sandbox, *, retry: RetryPolicy = ONCE, **options: Any
) -> Outcome:
    """Return the outcome with one candidate for each reply, whose programs `check` may reject."""
    checks = options.pop("checks", ())
    agent = CodingAgent(ScriptedModel(replies), box, retry=retry, **options)
    return await agent.solve(Task("do it", best_of=len(replies), checks=checks))


class Sent:
    """A tool with effects that records its calls."""

    def __init__(self) -> None:
        self.to: list[str] = []
        self.tool = actbox.Tool.from_function(self._send, name="send", description="Send.")

    def _send(self, to: str) -> str:
        self.to.append(to)
        return f"sent to {to}"


# At once


async def test_candidates_are_asked_for_and_run_at_once(box: Sandbox) -> None:
    asked, running = asyncio.Barrier(3), asyncio.Barrier(3)

    @actbox.tool(retry_safe=True)
    async def meet() -> int:
        """Wait for the others."""
        return await running.wait()

    async def says() -> str:
        await asked.wait()
        return block("meet()\n'met'")

    outcome = await CodingAgent(Model(lambda _: says()), box, tools=[meet], retry=ONCE).solve(Task("meet", best_of=3))
    assert outcome.solved and outcome.answer == "met"
    assert sorted(attempt.candidate for attempt in outcome.attempts) == [1, 2, 3]


async def test_turns_are_the_same_for_all_candidates(box: Sandbox) -> None:
    numbers = iter(range(100))
    model = Model(lambda _: block(f"1 / 0 + {next(numbers)}"))
    retry = RetryPolicy(max_attempts=5, max_coding_turns=2, attempt_backoff_ms=[0])
    outcome = await CodingAgent(model, box, retry=retry).solve(Task("divide", best_of=3))
    assert (outcome.stopped, outcome.usage.model_calls, len(outcome.attempts)) == ("max_turns", 6, 6)


# The choice


async def test_checks_come_first(box: Sandbox) -> None:
    replies = [block("2"), block("2"), block("3")]
    outcome = await chosen_from(replies, box, checks=[lambda result: result.value == 3])
    assert (outcome.solved, outcome.answer, outcome.candidate) == (True, 3, 3)


async def test_then_comes_agreement(box: Sandbox) -> None:
    outcome = await chosen_from([block("1"), block("1 + 1"), block("2")], box)
    assert (outcome.answer, outcome.candidate) == (2, 2)


async def test_then_comes_cost(box: Sandbox) -> None:
    prices = Prices(models={"scripted": TokenPrice(input=1, output=1)})
    outcome = await chosen_from([reply("1", 10, 90), reply("2", 10, 10), reply("3", 10, 50)], box, prices=prices)
    assert (outcome.answer, outcome.candidate) == (2, 2)
    assert (
        sum(attempt.cost for attempt in outcome.attempts) == pytest.approx(outcome.usage.usd) == pytest.approx(180e-6)
    )


async def test_without_success_it_is_the_one_that_came_nearest(box: Sandbox) -> None:
    checks = [lambda result: result.value > 1, lambda result: result.value > 5]
    outcome = await chosen_from([block("1 / 0"), block("0"), block("3")], box, checks=checks)
    assert (outcome.solved, outcome.candidate, len(outcome.attempts)) == (False, 3, 3)
    assert outcome.stopped == "attempts" and outcome.artifacts == ()


async def test_the_choice_is_told_with_its_reason(box: Sandbox) -> None:
    agent = CodingAgent(ScriptedModel([block("1"), block("2"), block("2")]), box, retry=ONCE)
    events = [event async for event in agent.stream(Task("two", best_of=3))]
    (chosen,) = (event for event in events if isinstance(event, Chosen))
    assert (chosen.candidate, chosen.reason) == (2, "2 of 3 candidates agree, and the first of equals")


async def test_one_candidate_that_succeeds_is_not_called_the_only_one_of_all(box: Sandbox) -> None:
    agent = CodingAgent(ScriptedModel([block("1 / 0"), block("2")]), box, retry=ONCE)
    events = [event async for event in agent.stream(Task("two", best_of=2))]
    (chosen,) = (event for event in events if isinstance(event, Chosen))
    assert (chosen.candidate, chosen.reason) == (2, "the only one that ran to its end")


async def test_a_budget_that_covers_two_candidates_leaves_the_third_out(box: Sandbox) -> None:
    outcome = await chosen_from([block("1"), block("1"), block("1")], box, budget=Budget(steps=2))
    assert (outcome.solved, outcome.usage.model_calls, len(outcome.attempts)) == (True, 2, 2)


async def test_a_candidate_whose_prompt_fails_raises_it_as_one_alone_does(box: Sandbox) -> None:
    def prompt(failure: object) -> str:
        raise LookupError("no such template")

    agent = CodingAgent(ScriptedModel([block("1 / 0")] * 2), box, prompt=prompt)
    with pytest.raises(LookupError, match="no such template"):
        await agent.solve(Task("divide", best_of=2))


# Effects


async def test_the_effects_of_losers_never_happen(box: Sandbox) -> None:
    sent = Sent()
    outcome = await chosen_from([block("send('a')"), block("send('b')"), block("send('b')")], box, tools=[sent.tool])
    assert (sent.to, outcome.answer, outcome.candidate) == (["b"], "sent to b", 2)
    held = {attempt.candidate: attempt.held_back for attempt in outcome.attempts if attempt.held_back}
    assert held == {1: ('send({"to": "a"})',), 2: ('send({"to": "b"})',), 3: ('send({"to": "b"})',)}
    assert outcome.happened == ('send({"to": "b"}) → returned',)
    assert outcome.usage.tokens.input_tokens == sum(attempt.tokens.input_tokens for attempt in outcome.attempts)


async def test_a_candidate_that_passed_its_checks_without_effects_goes_first(box: Sandbox) -> None:
    sent = Sent()
    replies = [block("send('a')\n1"), block("send('a')\n1"), block("1")]
    outcome = await chosen_from(replies, box, tools=[sent.tool], checks=[lambda result: result.value == 1])
    assert (outcome.answer, outcome.candidate, sent.to) == (1, 3, [])


async def test_a_chosen_candidate_that_fails_goes_on_and_repeats_no_effect(box: Sandbox) -> None:
    sent = Sent()
    wants = "send('a')\n"
    model = ScriptedModel([block(f"{wants}1 / 0"), block(f"{wants}1 / 0"), block(f"{wants}'done'")])
    agent = CodingAgent(model, box, tools=[sent.tool], retry=RetryPolicy(attempt_backoff_ms=[0]))
    outcome = await agent.solve(Task("send", best_of=2))
    assert (outcome.answer, outcome.candidate, sent.to) == ("done", 1, ["a"])
    own = [one for one in outcome.attempts if one.candidate == 1]
    assert [(one.number, one.error_class, bool(one.held_back)) for one in own] == [
        (1, None, True),
        (1, ErrorClass.RUNTIME_ERROR, False),
        (2, None, False),
    ]


async def test_a_program_that_hides_a_call_that_was_held_back_has_shown_nothing(box: Sandbox) -> None:
    sent = Sent()
    hides = "try:\n    send('a')\nexcept Exception:\n    pass\n1"
    outcome = await chosen_from([block(hides), block("1 / 0")], box, tools=[sent.tool])
    assert (outcome.solved, outcome.answer, outcome.candidate, sent.to) == (True, 1, 1, ["a"])


# Sessions


async def test_each_attempt_starts_from_a_copy_of_the_session(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        await session.run("rows = [1, 2]; open('state.txt', 'w').write('old')")
        replies = [
            block("rows.append(9); left = 1; open('state.txt', 'w').write('new')\n1 / 0"),
            block("rows.append(3)\n(rows, 'left' in globals(), open('state.txt').read())"),
        ]
        with copies_of(session) as copies:
            agent = CodingAgent(ScriptedModel(replies), box, retry=RetryPolicy(attempt_backoff_ms=[0]))
            outcome = await agent.solve("append 3", session=session)
        assert outcome.answer == ([1, 2, 3], False, "old")
        assert outcome.session is not None
        assert [copy.alive for copy in copies] == [False, True] and copies[1] is outcome.session
        assert (await outcome.session.run("rows")).value == [1, 2, 3]
        assert (await session.run("rows, open('state.txt').read()")).value == ([1, 2], "old")
        await outcome.session.close()


async def test_candidates_start_from_copies_of_which_the_chosen_one_is_left(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        await session.run("x = 5")
        with copies_of(session) as copies:
            model = ScriptedModel([block("x += 1\nx"), block("x *= 2\nx"), block("x = x + 5\nx")])
            outcome = await CodingAgent(model, box, retry=ONCE).solve(Task("double x", best_of=3), session=session)
        assert (outcome.answer, outcome.candidate) == (10, 2)
        assert [copy for copy in copies if copy.alive] == [outcome.session]
        assert outcome.session is not None
        await outcome.session.close()
        assert (await session.run("x")).value == 5


async def test_a_task_that_is_not_solved_leaves_no_copy(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        with copies_of(session) as copies:
            agent = CodingAgent(ScriptedModel([block("1 / 0")]), box, retry=ONCE)
            outcome = await agent.solve("divide", session=session)
        assert outcome.session is None and not any(copy.alive for copy in copies)
        async with box.session() as rigid:
            outcome = await CodingAgent(ScriptedModel([block("1")]), box, retry=ONCE).solve("one", session=rigid)
        assert (outcome.stopped, outcome.attempts[0].error_class) == ("sandbox", ErrorClass.SANDBOX)
        assert "forkable" in outcome.reason


async def test_no_tests_are_written_for_a_program_that_has_a_sessions_variables(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        await session.run("x = 5")
        model = ScriptedModel([block("def twice(n):\n    return 2 * n\ntwice(x)")])
        outcome = await CodingAgent(model, box, write_tests=True).solve("twice x", session=session)
        assert (outcome.answer, len(model.asked)) == (10, 1)
        assert outcome.notes == ("no tests were written, since tests do not have the session's variables",)
        assert outcome.session is not None
        await outcome.session.close()


async def test_a_stream_that_is_left_ends_its_programs(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        with copies_of(session) as copies:
            agent = CodingAgent(ScriptedModel([block("print('up', flush=True)\nimport time; time.sleep(600)")]), box)
            events = agent.stream("wait", session=session)
            async for event in events:
                if isinstance(event, AttemptEvent):
                    break
            await events.aclose()
        assert [copy.alive for copy in copies] == [False]


async def test_an_outcome_that_nobody_takes_leaves_no_copy(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        with copies_of(session) as copies:
            events = CodingAgent(ScriptedModel([block("1")]), box).stream("one", session=session)
            await anext(events)
            await asyncio.wait([one for one in asyncio.all_tasks() if "_solve" in str(one.get_coro())])
            await events.aclose()
        assert [copy.alive for copy in copies] == [False]


class Received(ThreadingHTTPServer):
    """A server on loopback that records what it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []

    def program(self, number: int) -> str:
        """Return a program that sends a request."""
        request = f"urllib.request.Request('http://localhost:{self.server_port}/{number}', method='POST')"
        return f"import urllib.request\nurllib.request.urlopen({request}).status"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Received)
        self.server.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def received() -> Iterator[Received]:
    with Received() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


async def test_a_request_that_changes_something_is_sent_by_the_chosen_candidate_alone(received: Received) -> None:
    domain = AllowedDomain(f"http://localhost:{received.server_port}", private=True)
    async with linux_box(Policy(domains=(domain,))) as box:
        outcome = await chosen_from([block(received.program(number)) for number in (1, 2, 1)], box)
        assert (outcome.solved, outcome.answer, received.paths) == (True, 200, ["/1"])
        held = [one.held_back for one in outcome.attempts if one.held_back]
        assert len(held) == 3 and held[0][0].startswith("POST localhost:")
        async with box.session(forkable=True) as session:
            agent = CodingAgent(ScriptedModel([block("1"), block("1")]), box, retry=ONCE)
            outcome = await agent.solve(Task("one", best_of=2), session=session)
            assert outcome.session is not None
            await outcome.session.close()
    assert outcome.notes == ("candidates that were not chosen may have changed something by requests to the network",)


async def test_candidates_at_once_share_the_wall_time_that_is_left(box: Sandbox) -> None:
    slow = block("import time\ntime.sleep(60)")
    outcome = await chosen_from([slow] * 4, box, budget=Budget(wall_seconds=2))
    said = [one.result.error.message for one in outcome.attempts if one.result is not None and one.result.error]
    limits = [float(found[1]) for text in said if (found := re.search(r"([\d.]+) s", text))]
    assert (outcome.solved, len(limits)) == (False, 4)
    assert max(limits) <= 0.5, said
