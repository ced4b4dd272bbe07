"""RTFS: a pure computation is written in a small Lisp that can touch nothing, so it needs no operating-system sandbox.

The tasks leave their language open. The model says first what each one needs; by that it is decided whether RTFS will
do. Where a task writes a file, it will not.
"""

import asyncio
import json

from scripted import chosen_model

import actbox
from actbox.codegen import CodingAgent, Example, Task

READINGS = [{"city": "Oslo", "degrees": -3}, {"city": "Rome", "degrees": 12}, {"city": "Rome", "degrees": 14}]

HIGHEST = Task(
    "The answer is an object with the highest of the readings of each city.",
    inputs={"readings": READINGS},
    language="auto",
    examples=[Example({"readings": [{"city": "Rome", "degrees": 1}, {"city": "Rome", "degrees": 5}]}, {"Rome": 5})],
)
PAGE = Task(
    "Write the readings into page.html, as a table.",
    inputs={"readings": READINGS},
    outputs=["page.html"],
    language="auto",
)

REPLIES = [
    json.dumps({"goal": "the highest reading of each city", "required": ["computation"], "lines": 5, "pure": True}),
    """\
```rtfs
(let [groups (group-by (fn [r] (:city r)) readings)]
  (reduce (fn [found city] (assoc found city (apply max (map (fn [r] (:degrees r)) (get groups city)))))
          {}
          (keys groups)))
```""",
    json.dumps({"goal": "a page with a table", "required": ["files"], "language": "python", "lines": 6}),
    """\
```python
rows = "".join(f"<tr><td>{one['city']}<td>{one['degrees']}" for one in readings)
with open("output/page.html", "w") as file:
    file.write(f"<!doctype html><title>Readings</title><table>{rows}</table>")
```""",
]


async def main() -> None:
    """Solve both tasks, and say how each was solved and why so."""
    async with chosen_model(*REPLIES) as model, actbox.open_sandbox("linux") as box:
        agent = CodingAgent(model, box)
        for task in (HIGHEST, PAGE):
            outcome = await agent.solve(task)
            assert outcome.decision is not None
            print("task:   ", task.goal)
            print("way:    ", f"{outcome.decision.way}, in {outcome.decision.language}: {outcome.decision.reason}")
            print("program:", *outcome.code.strip().splitlines(), sep="\n  | ")
            ran = outcome.last and outcome.last.result
            print("ran on: ", ran and f"the {ran.sandbox} engine, for {ran.usage.wall_ms:.1f} ms")
            print("answer: ", outcome.answer)
            print("files:  ", *(file.name for file in outcome.artifacts))
            print("solved: ", outcome.solved, f"({outcome.stopped})", outcome.reason, end="\n\n")


asyncio.run(main())
