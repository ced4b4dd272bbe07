"""`final_answer`: the tool by which a program gives the agent's answer."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any, Final

from actbox.core.result import ExecutionResult
from actbox.tools import Tool

FINAL_ANSWER: Final = "final_answer"

_AWAITS: Final = re.compile(r"\b(?:await|async)\b")
_PLAIN_CALL: Final = re.compile(rf"(?<!await )(?<![\w.]){FINAL_ANSWER}\s*\(")
_NOT_AWAITED: Final = (
    f"the answer was not given: in a program that uses `await` write `await {FINAL_ANSWER}(…)`, since without it"
    " nothing is called"
)


class FinalAnswer:
    """The answer that a program has given, if any. `None` may be an answer, as may any value that can cross."""

    def __init__(self, *, cleared: str | None = None) -> None:
        """`cleared` is the highest label that the answer may have, by default what the policy says."""
        self.given = False
        self.value: Any = None
        self.tool = replace(_tool(cleared), function=self.final_answer)

    async def final_answer(self, value: Any = None) -> None:
        """Give the final answer, and end the task with this program."""
        self.given = True
        self.value = value

    def missed_by(self, program: str) -> str:
        """Return a hint if a successful Python program seems to have called `final_answer` without `await`, else "".

        In a program that uses `await`, a plain call only makes a coroutine, and Python does not always warn about that.
        """
        if self.given or not (_AWAITS.search(program) and _PLAIN_CALL.search(program)):
            return ""
        return _NOT_AWAITED

    def warn(self, result: ExecutionResult, program: str) -> ExecutionResult:
        """Return the result of a program, with the hint of `missed_by` if it was successful."""
        missed = self.missed_by(program) if result.success else ""
        return replace(result, warnings=(*result.warnings, missed)) if missed else result


@cache
def _tool(cleared: str | None) -> Tool:
    """Return the tool of an answer that nobody reads. Reading the signature takes more than a millisecond."""
    return Tool.from_function(object.__new__(FinalAnswer).final_answer, cleared=cleared)
