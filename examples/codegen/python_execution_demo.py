"""Python: a model writes a program for each task, and a sandbox runs it on the files of the task."""

import asyncio

from scripted import chosen_model

import actbox
from actbox.codegen import CodingAgent, Task

READINGS = "city,day,degrees\nOslo,1,-3.5\nOslo,2,-1.0\nRome,1,11.5\nRome,2,13.0\nRome,3,12.1\n"

FACTORIAL = Task("Calculate the factorial of 100.")
SUMMARY = Task(
    "Write the number of readings and the mean temperature of each city into summary.csv, with the columns city, count "
    "and mean. The answer is the city with the highest mean.",
    inputs={"readings.csv": READINGS},
    outputs=["summary.csv"],
)

REPLIES = [
    "```python\nimport math\n\nmath.factorial(100)\n```",
    """\
The readings are grouped by city first.

```python
import csv
from statistics import mean

cities = {}
with open("input/readings.csv", newline="") as file:
    for row in csv.DictReader(file):
        cities.setdefault(row["city"], []).append(float(row["degrees"]))

with open("output/summary.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["city", "count", "mean"])
    writer.writerows([city, len(degrees), round(mean(degrees), 2)] for city, degrees in cities.items())

max(cities, key=lambda city: mean(cities[city]))
```""",
]


async def main() -> None:
    """Solve each task, and print the program with all that came of it."""
    async with chosen_model(*REPLIES) as model, actbox.open_sandbox("linux") as box:
        agent = CodingAgent(model, box)
        for task in (FACTORIAL, SUMMARY):
            outcome = await agent.solve(task)
            print("task:   ", task.goal)
            print("program:", *outcome.code.strip().splitlines(), sep="\n  | ")
            print("solved: ", outcome.solved, f"({outcome.stopped})", outcome.reason)
            print("answer: ", outcome.answer)
            for file in outcome.artifacts:
                print(f"file:    {file.name}, {file.media_type}", *file.data.decode().splitlines(), sep="\n  | ")
            print("schema: ", outcome.output_schema, end="\n\n")


asyncio.run(main())
