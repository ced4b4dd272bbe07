"""The whole story of the specification: "Analyze this CSV and create a chart showing sales by region".

The model says first what the task needs, then writes a program. The first one fails; the second one runs and is wrong,
which the checks see before its answer counts. Needs actbox[demo].
"""

import asyncio
import csv
import io
import json
import tempfile

from scripted import PRICES, chosen_model

import actbox
from actbox import ExecutionResult
from actbox.capabilities import Budget
from actbox.codegen import CodingAgent, Constraints, Outcome, RetryPolicy, Task
from actbox.codegen.outcome import AttemptFinished, AttemptStarted, Finished, Planned

SALES = """\
region,amount,date
North,120.50,2026-01-03
South,80.00,2026-01-04
north,99.50,2026-01-09
West,45.25,2026-01-11
South,20.00,2026-01-15
"""


def adds_up(result: ExecutionResult) -> bool | str:
    """Check that the answer has the total of each region, whatever the case of its name."""
    totals: dict[str, float] = {}
    for row in csv.DictReader(io.StringIO(SALES)):
        region = row["region"].title()
        totals[region] = totals.get(region, 0) + float(row["amount"])
    return result.value == totals or f"the file spells some regions in two ways; {result.value} counts them apart"


TASK = Task(
    "Analyze this CSV and create a chart showing sales by region. The answer is a dict with the total of each region.",
    inputs={"sales.csv": SALES},
    outputs=["chart.png"],
    output_requirements=["PNG image", "stdout summary"],
    constraints=Constraints(max_lines=100, max_dependencies=5, timeout_ms=30_000),
    checks=[adds_up],
    language="auto",
)

PROGRAM = """\
```python
import matplotlib.pyplot as plt
import pandas as pd

sales = pd.read_csv("input/sales.csv")
{totals}
totals.plot.bar(title="Sales by region")
plt.savefig("output/chart.png")
print(totals.to_string())
totals.to_dict()
```"""
REPLIES = [
    json.dumps(
        {
            "goal": "Analyze the CSV, create a chart of sales by region",
            "required": ["data processing", "visualization"],
            "language": "python",
            "lines": 10,
            "dependencies": ["pandas", "matplotlib"],
        }
    ),
    PROGRAM.format(totals='totals = sales.groupby("region")["sales"].sum()'),
    PROGRAM.format(totals='totals = sales.groupby("region")["amount"].sum()'),
    PROGRAM.format(totals='totals = sales.groupby(sales["region"].str.title())["amount"].sum()'),
]


def report(outcome: Outcome) -> None:
    """Save the program and the chart, and print what all of it cost."""
    folder = tempfile.mkdtemp()
    print("solved:", outcome.solved, f"({outcome.stopped})", outcome.reason)
    print("answer:", outcome.answer)
    print("saved: ", *(path.name for path in outcome.save(folder)), "in", folder)
    for attempt in outcome.attempts:
        print(f"attempt {attempt.number}: {attempt.tokens.output_tokens} tokens written, ${attempt.cost:.4f}")
    usage = outcome.usage
    spent = "an unknown price" if usage.usd is None else f"${usage.usd:.4f}"
    print(f"all:    {usage.model_calls} calls of the model and {usage.runs} runs, for {spent}")


async def main() -> None:
    """Follow the agent from the intent to the chart."""
    async with chosen_model(*REPLIES) as model, actbox.open_sandbox("linux") as box:
        agent = CodingAgent(model, box, retry=RetryPolicy(max_attempts=4), budget=Budget(steps=6), prices=PRICES)
        async for event in agent.stream(TASK):
            match event:
                case Planned(decision=decision, intent=intent):
                    print("intent:", intent and "; ".join([intent.goal, *intent.required]))
                    print("decision:", f"{decision.way}, in {decision.language}: {decision.reason}")
                case AttemptStarted(number=number, code=code):
                    print(f"attempt {number} runs {len(code.splitlines())} lines")
                case AttemptFinished(attempt=attempt):
                    print("   ", attempt.error_class or "success", *attempt.problems)
                case Finished(outcome=outcome):
                    report(outcome)


asyncio.run(main())
