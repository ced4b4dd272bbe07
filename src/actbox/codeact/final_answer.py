"""The tool by which a program says what the answer is."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from actbox.core.errors import ToolError
from actbox.tools import Tool

FINAL_ANSWER: Final = "final_answer"

_AWAITS: Final = re.compile(r"\b(?:await|async)\b")
_PLAIN_CALL: Final = re.compile(rf"(?<!await )(?<![\w.]){FINAL_ANSWER}\s*\(")
_NOT_AWAITED: Final = (
    f"the answer was not given: in a program that uses `await` write `await {FINAL_ANSWER}(…)`, since without it"
    " nothing is called"
)


class FinalAnswer:
    """What a program has given as the answer, if it has: `None` may be one.

    It is JSON data. To a program that gives something else `final_answer` raises `ToolError`, and nothing is given.
    """

    def __init__(self) -> None:
        self.given = False
        self.value: Any = None

        async def final_answer(value: Any = None) -> None:
            """Give the final answer, as a JSON value, and end the task with this program."""
            _check(value)
            self.given = True
            self.value = value

        self.tool = Tool.from_function(final_answer, name=FINAL_ANSWER)

    def missed_by(self, program: str) -> str:
        """Return what to write where a Python program that succeeded seems to have called it without `await`, or
        nothing.

        There a call alone makes a coroutine that does nothing, and Python does not warn of each.
        """
        if self.given or not (_AWAITS.search(program) and _PLAIN_CALL.search(program)):
            return ""
        return _NOT_AWAITED


def _check(value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"the answer is a JSON value ({error}): give bytes as base64 text, and NaN or an infinity as text or None",
            tool=FINAL_ANSWER,
        ) from None
