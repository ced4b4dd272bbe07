"""Text of every kind, on every way in and out."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.sandbox.contract import Sandbox

from .ground import NO_ERROR, Cases
from .needs import FILES, TOOLS, case, python, word

TEXTS = {
    "umlauts": "äöüß ÄÖÜ",
    "far away": "日本語 العربية עברית",
    "beyond 16 bits": "😀👨‍👩‍👧‍👦 𝒳",
    "combining": "e\u0301 n\u0303",
    "controls": "a\tb\x01\x7f",
    "line separators": "a\u2028b\u2029c\x85d",
    "byte order mark": "\ufeffa",
}
EVERY_TEXT = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


class UnicodeCases(Cases):
    """A text arrives as it was sent."""

    @EVERY_TEXT
    @case(word("say"))
    async def test_printed(self, box: Sandbox, text: str) -> None:
        """A printed text of any characters arrives unchanged."""
        assert (await box.run(self.program(self.words.say(text)))).stdout == f"{text}\n"

    @EVERY_TEXT
    @case()
    async def test_as_an_input_and_back(self, box: Sandbox, text: str) -> None:
        """An input of any characters comes back unchanged as the value."""
        assert await self.answer(box, self.words.answer("text"), inputs={"text": text}) == text

    @EVERY_TEXT
    @case(TOOLS)
    async def test_to_a_tool_and_back(self, box: Sandbox, text: str) -> None:
        """An argument and a result of any characters arrive unchanged."""
        received: list[Any] = []

        def note(text: str) -> str:
            received.append(text)
            return text

        program = (self.words.let("found", self.words.call_on("note", "text")), self.words.answer("found"))
        assert await self.answer(box, *program, tools=[note], inputs={"text": text}) == text
        assert received == [text]

    @EVERY_TEXT
    @case(FILES, word("write"))
    async def test_in_a_file(self, box: Sandbox, text: str) -> None:
        """Files are bytes, and a program writes UTF-8."""
        assert (await box.run(self.program(self.words.write("a.txt", text)))).success
        assert await box.read_file("a.txt") == text.encode()

    @case(word("message"))
    async def test_in_an_error(self, box: Sandbox) -> None:
        """An error's message may have any characters."""
        error = (await box.run(self.program(self.words.fail("日本 😀")))).error
        assert error is not None, NO_ERROR
        assert error.message == "日本 😀"

    @case(python("core"))
    async def test_as_a_name(self, box: Sandbox) -> None:
        """A variable's name may have characters beyond ASCII."""
        assert (await box.run("größe = 3\ngröße + 1")).value == 4

    @case(python("core"))
    async def test_a_lone_surrogate_breaks_nothing(self, box: Sandbox) -> None:
        """A lone surrogate is shown in some form, and the sandbox works on."""
        await box.run("print('\\ud800')\n'\\ud800'")
        await self.still_works(box)
