"""The tool by which a program says what the answer is."""

from __future__ import annotations

from typing import Any, Final

from actbox.tools import Tool

FINAL_ANSWER: Final = "final_answer"


class FinalAnswer:
    """What a program has given as the answer, if it has: `None` may be one."""

    def __init__(self) -> None:
        self.given = False
        self.value: Any = None

        async def final_answer(value: Any = None) -> None:
            """Give the final answer, as a JSON value, and end the task with this program."""
            self.given = True
            self.value = value

        self.tool = Tool.from_function(final_answer, name=FINAL_ANSWER)
