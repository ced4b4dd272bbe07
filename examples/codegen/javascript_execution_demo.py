"""JavaScript: the agent's own sandbox runs Python, and the agent opens the node engine for the program of this task."""

import asyncio

from scripted import chosen_model

import actbox
from actbox.codegen import CodingAgent, Task

EVENTS = [
    {"user": "ann", "page": "/", "ms": 120},
    {"user": "bob", "page": "/docs", "ms": 340},
    {"user": "ann", "page": "/docs", "ms": 80},
]

TASK = Task(
    "Read events.json. Write pages.json: an object with the mean of ms for each page. The answer is the slowest page.",
    inputs={"events.json": EVENTS},
    outputs=["pages.json"],
    language="javascript",
    checks=[lambda result: result.value == "/docs" or f"the slowest page is not {result.value}"],
)

REPLIES = [
    """\
```javascript
const events = JSON.parse(await fs.readFile("input/events.json", "utf8"));
```""",
    """\
`fs.readFile` takes a callback here; the synchronous functions are simpler.

```javascript
import { readFileSync, writeFileSync } from "node:fs";

const times = {};
for (const { page, ms } of JSON.parse(readFileSync("input/events.json", "utf8"))) {
  (times[page] ??= []).push(ms);
}
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
const pages = Object.entries(times).map(([page, seen]) => [page, mean(seen)]);

writeFileSync("output/pages.json", JSON.stringify(Object.fromEntries(pages)));
pages.sort(([, one], [, other]) => other - one)[0][0];
```""",
]


async def main() -> None:
    """Solve the task, and print each attempt and the file."""
    async with chosen_model(*REPLIES) as model, actbox.open_sandbox("linux") as box:
        outcome = await CodingAgent(model, box).solve(TASK)
        for attempt in outcome.attempts:
            print(f"attempt {attempt.number}:", *attempt.code.strip().splitlines(), sep="\n  | ")
            if (result := attempt.result) is not None:
                print("ran on: ", result.sandbox)
                print("result: ", f"{attempt.error_class}: {result.error.message}" if result.error else "fine")
        print("solved: ", outcome.solved, f"({outcome.stopped})", outcome.reason)
        print("answer: ", outcome.answer, *(file.data.decode() for file in outcome.artifacts))


asyncio.run(main())
