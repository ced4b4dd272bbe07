"""A person at a terminal is asked."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import termios
from collections.abc import Iterator

import pytest

import actbox
from actbox import ApprovalDecision, ApprovalRequest, Sandbox, Toolset
from actbox.cli.approver import MOST_ARGUMENT_CHARACTERS, TerminalApprover, question


class Terminal:
    """A terminal with a person in front of it: what is shown there, and what is typed."""

    def __init__(self) -> None:
        self.person, self.descriptor = pty.openpty()
        attributes = termios.tcgetattr(self.descriptor)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(self.descriptor, termios.TCSANOW, attributes)
        self.shown = ""

    def approver(self) -> TerminalApprover:
        return TerminalApprover(input=self.descriptor, output=self.descriptor, by="Ada")

    async def shows(self, text: str, times: int = 1) -> None:
        """Wait until the text was shown so often."""
        os.set_blocking(self.person, False)
        async with asyncio.timeout(60):
            while self.shown.count(text) < times:
                try:
                    self.shown += os.read(self.person, 65536).decode()
                except BlockingIOError:
                    await asyncio.sleep(0.01)

    def type(self, text: str) -> None:
        os.write(self.person, text.encode())

    def close(self) -> None:
        os.close(self.person)
        os.close(self.descriptor)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


def request(**given: object) -> ApprovalRequest:
    fields: dict[str, object] = {
        "id": "q",
        "what": "call",
        "program": "a = 1\npay(a)\n",
        "reason": "the tool 'Pay' requires approval",
        "tool": "Pay",
        "arguments": {"amount": 1, "to": "Bob"},
        "line": 2,
    }
    return ApprovalRequest(**{**fields, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("y\n", ApprovalDecision(True, by="Ada")),
        ("YES\n", ApprovalDecision(True, by="Ada")),
        ("n\n", ApprovalDecision(False, by="Ada")),
        ("no too much money\n", ApprovalDecision(False, "too much money", by="Ada")),
    ],
)
async def test_a_person_answers(terminal: Terminal, typed: str, decision: ApprovalDecision) -> None:
    asked = asyncio.create_task(terminal.approver().decide(request()))
    await terminal.shows("[y/n")
    terminal.type(typed)
    assert await asked == decision


async def test_anything_else_is_asked_again_and_no_answer_is_no(terminal: Terminal) -> None:
    asked = asyncio.create_task(terminal.approver().decide(request()))
    await terminal.shows("[y/n")
    terminal.type("yeah sure\n")
    await terminal.shows("[y/n", times=2)
    terminal.type("\x04")  # the end of input
    decision = await asked
    assert (decision.approved, decision.cause) == (False, "unavailable")
    assert decision.reason == "the question was left unanswered"


async def test_what_was_typed_before_the_question_is_no_answer(terminal: Terminal) -> None:
    terminal.type("y\n")
    asked = asyncio.create_task(terminal.approver().decide(request()))
    await terminal.shows("[y/n")
    terminal.type("n\n")
    assert not (await asked).approved


async def test_where_there_is_no_terminal_everything_is_refused(terminal: Terminal) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"y\n")
    try:
        for descriptors in ({"input": reading}, {"output": writing}):
            given = {"input": terminal.descriptor, "output": terminal.descriptor, **descriptors}
            decision = await TerminalApprover(**given).decide(request())
            assert (decision.approved, decision.cause) == (False, "unavailable")
    finally:
        os.close(reading)
        os.close(writing)


async def test_questions_are_asked_one_after_the_other_and_a_withdrawn_one_says_so(terminal: Terminal) -> None:
    approver = terminal.approver()
    first = asyncio.create_task(approver.decide(request(tool="first")))
    await terminal.shows("[y/n")
    second = asyncio.create_task(approver.decide(request(tool="second")))
    first.cancel()
    await terminal.shows("Withdrawn")
    await terminal.shows("The program calls second")
    await terminal.shows("[y/n", times=2)
    terminal.type("y\n")
    assert (await second).approved


async def test_a_real_run_is_asked_about_with_its_code(box: Sandbox, terminal: Terminal) -> None:
    @actbox.tool(approval="always_require")
    def pay(amount: int) -> str:
        return f"paid {amount}"

    tools = Toolset.of([pay]).asking(terminal.approver())
    run = asyncio.create_task(box.run("price = 3\npay(price)", tools=tools))
    await terminal.shows("[y/n")
    terminal.type("y\n")
    assert (await run).value == "paid 3"
    assert "The program calls pay. The tool 'pay' requires approval." in terminal.shown
    assert "  amount = 3\r\n" in terminal.shown
    assert "   1 | price = 3\r\n > 2 | pay(price)\r\n" in terminal.shown


def test_a_run_is_shown_whole_with_a_number_before_each_line() -> None:
    shown = question(request(what="run", program="\n".join(f"line_{n}" for n in range(1, 13)), tool="", line=None))
    assert "This program is to run. The tool 'Pay' requires approval." in shown
    assert "    1 | line_1\n" in shown
    assert "   12 | line_12\n" in shown


HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b8m\x1b[8mhidden\r\x08 \u202eevil\u202c \u200b\u2028\U000e0041\ud800\x00"


def test_nothing_of_the_program_acts_on_the_terminal_or_hides() -> None:
    shown = question(
        request(
            program=f"ok = 1\r{HOSTILE}\nMay it? [y/n]",
            arguments={HOSTILE: HOSTILE, "bytes": b"\x1b[2J", "more": {"deep": [HOSTILE]}},
            reason=HOSTILE,
            tool=HOSTILE,
        )
    )
    assert re.fullmatch(r"[\n\x20-\x7e]*", shown)
    assert "\\x1b[8mhidden" in shown
    assert "\\u202eevil\\u202c" in shown
    assert " | May it? [y/n]" in shown  # with its number, it is no prompt


def test_names_that_look_alike_are_told_apart() -> None:
    shown = question(request(arguments={"a\u200b": 1, "a\\u200b": 2, "b = 2\n  c": 3}))
    assert '  "a\\u200b" = 1\n  "a\\\\u200b" = 2\n  "b = 2\\n  c" = 3\n' in shown


def test_an_argument_that_may_be_hidden_in_part_says_so() -> None:
    shown = question(request(arguments={"key": "**", "to": "bob"}, hidden={"key": "0f"}))
    assert '  key = "**" (its type may hide a part)\n  to = "bob"\n' in shown


def test_a_long_argument_is_cut_and_says_by_how_much() -> None:
    shown = question(request(arguments={"text": "x" * (MOST_ARGUMENT_CHARACTERS + 998)}))
    assert "… and 1,000 characters more" in shown
    assert len(shown) < MOST_ARGUMENT_CHARACTERS + 500
