"""Refinement: a program fails, the model reads how, and writes the next one, until the checks pass or nothing helps.

The first task is solved by the third program. The second one ends early, since the model sends the same program again;
its outcome has all attempts nevertheless.
"""

import asyncio
import difflib

from scripted import PRICES, chosen_model

import actbox
from actbox.codegen import CodingAgent, RetryPolicy, Task
from actbox.codegen.outcome import Asked, AttemptFinished, Finished

ORDERS = [
    {"order": "A-17", "lines": [{"price": 4.5, "count": 2}, {"price": 3.2, "count": 1}]},
    {"order": "B-4", "lines": [{"price": 3.2, "count": 3}]},
    {"order": "C-9", "lines": []},
]
TOTALS = Task(
    "Read orders.json. The answer is a dict with the total of each order, rounded to cents.",
    inputs={"orders.json": ORDERS},
    checks=[lambda result: result.value == {"A-17": 12.2, "B-4": 9.6, "C-9": 0} or f"{result.value} is not right"],
)
PRIME = Task(
    "The answer is the smallest prime number that ends in 4.",
    checks=[lambda result: result.value is not None or "there is no answer"],
)

PROGRAM = """\
```python
import {module}

with open("input/orders.json") as file:
    orders = {module}.load(file)
{{order["order"]: {total} for order in orders}}
```"""
COUNTS_LINES = 'sum(line["price"] for line in order["lines"])'
COUNTS_ITEMS = 'round(sum(line["price"] * line["count"] for line in order["lines"]), 2)'
SEARCH = "```python\n[n for n in range(4, 999, 10) if all(n % d for d in range(2, n))][0]\n```"
REPLIES = [
    PROGRAM.format(module="jsonlib", total=COUNTS_LINES),
    PROGRAM.format(module="json", total=COUNTS_LINES),
    PROGRAM.format(module="json", total=COUNTS_ITEMS),
    SEARCH,
    SEARCH,
]


async def follow(agent: CodingAgent, task: Task) -> None:
    """Print each attempt as it ends: the change to the program before, and why it failed."""
    print("task:", task.goal)
    before: list[str] = []
    async for event in agent.stream(task):
        match event:
            case Asked(turn=turn):
                print(f"the model is asked, time {turn}")
            case AttemptFinished(attempt=attempt, usd=usd):
                code = attempt.code.splitlines()
                for line in [*difflib.unified_diff(before, code, lineterm="", n=0)][2:]:
                    print("   ", line)
                before = code
                print(f"attempt {attempt.number}: {attempt.error_class or 'success'}", end="; ")
                print("so far", "an unknown cost" if usd is None else f"${usd:.4f}")
                for problem in attempt.problems:
                    print("    it read:", problem)
            case Finished(outcome=outcome):
                print("solved:" if outcome.solved else "not solved:", outcome.stopped, outcome.reason)
                print("answer:", outcome.answer, "after", len(outcome.attempts), "attempts\n")


async def main() -> None:
    """Work on both tasks under the specification's retry policy."""
    retry = RetryPolicy(
        max_attempts=3,
        attempt_backoff_ms=(0, 100, 500),
        error_specific={"import_error": 2, "syntax_error": 2, "timeout": 1, "resource_exhausted": 0},
    )
    async with chosen_model(*REPLIES) as model, actbox.open_sandbox("linux") as box:
        agent = CodingAgent(model, box, retry=retry, prices=PRICES)
        await follow(agent, TOTALS)
        await follow(agent, PRIME)


asyncio.run(main())
