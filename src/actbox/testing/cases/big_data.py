"""Cases of large data."""

from __future__ import annotations

import hashlib

from actbox.sandbox.contract import Sandbox

from .ground import Cases
from .needs import FILES, TOOLS, VALUE, case, python, word

MEGABYTE = 1_000_000


class BigDataCases(Cases):
    """Data within the limits is never cut."""

    @case(word("repeat"))
    async def test_two_megabytes_of_output(self, box: Sandbox) -> None:
        """Two megabytes of output in many lines arrive whole."""
        result = await box.run(self.program(self.words.repeat(20_000, self.words.say("x" * 99))))
        assert (result.success, len(result.stdout)) == (True, 2 * MEGABYTE)

    @case(word("say"))
    async def test_one_long_line_of_output(self, box: Sandbox) -> None:
        """A long line of output arrives whole."""
        result = await box.run(self.program(self.words.say("ü" * 300_000)))
        assert result.stdout == "ü" * 300_000 + "\n"

    @case(VALUE)
    async def test_a_large_value(self, box: Sandbox) -> None:
        """A value of half a megabyte of text arrives whole."""
        assert await self.answer(box, self.words.answer("text"), inputs={"text": "x" * 500_000}) == "x" * 500_000

    @case()
    async def test_a_large_input(self, box: Sandbox) -> None:
        """An input may be a list of many numbers."""
        numbers = list(range(50_000))
        program = self.words.answer("last") if self.words.language != "python" else "len(numbers)\n"
        answer = await self.answer(box, program, inputs={"numbers": numbers, "last": len(numbers)})
        assert answer == 50_000

    @case(TOOLS)
    async def test_a_large_argument_and_a_large_result(self, box: Sandbox) -> None:
        """An argument and a result of a megabyte each arrive whole."""
        received: list[int] = []

        def echo(text: str) -> str:
            received.append(len(text))
            return text

        program = (
            self.words.let("text", self.words.call_on("echo", self.words.long_text(MEGABYTE))),
            self.words.let("again", self.words.call_on("echo", "text")),
            self.words.answer("1"),
        )
        assert await self.answer(box, *program, tools=[echo]) == 1
        assert received == [MEGABYTE, MEGABYTE]

    @case(FILES)
    async def test_a_large_file_goes_in_and_comes_out(self, box: Sandbox) -> None:
        """A file of eight megabytes with every byte value is written and read whole."""
        data = hashlib.sha256(b"kit").digest() * (8 * 2**20 // 32)
        await box.write_file("large", data)
        assert (await box.stat("large")).size == len(data)
        assert await box.read_file("large") == data

    @case(FILES)
    async def test_hundreds_of_files_are_listed(self, box: Sandbox) -> None:
        """Hundreds of files are listed completely and in order."""
        names = [f"many/{n:03}" for n in range(300)]
        for name in names:
            await box.write_file(name, b"")
        assert [entry.path for entry in await box.list_files("many")] == names

    @case(FILES, python("core"))
    async def test_a_large_artifact(self, box: Sandbox) -> None:
        """An artifact of four megabytes arrives whole."""
        result = await box.run("with open('output/large', 'wb') as file: file.write(bytes(range(256)) * (2**14))")
        assert result.artifact("large").data == bytes(range(256)) * 2**14

    @case(FILES, word("write"))
    async def test_a_large_file_of_a_program(self, box: Sandbox) -> None:
        """A program may come with a file of a megabyte below `/input`."""
        text = "0123456789" * 100_000
        program = self.program(
            self.words.let("text", self.words.read("input/a.txt")), self.words.answer("1"), files={"a.txt": text}
        )
        assert (await box.run(program)).success
        assert await box.read_text("input/a.txt") == text

    @case()
    async def test_a_megabyte_of_source(self, box: Sandbox) -> None:
        """A program's source may contain a megabyte of text."""
        program = (self.words.let("text", self.words.literal("x" * MEGABYTE)), self.words.answer("1"))
        assert await self.answer(box, *program) == 1
