"""The demo's second part: a coding agent refines a program until it passes a check, by a scripted model or a real one.

The data are made up. Their trap is one that real exports have: refunds are written as accountants write them, in
parentheses. A program that skips what it cannot read gives an answer, and only a check sees that it is wrong. The
scripted replies have no figures in them: every number comes out of the sandbox.
"""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from actbox.capabilities.prices import Prices, TokenPrice
from actbox.codeact import ChatModel, ScriptedModel
from actbox.codegen.coding_agent import CodingAgent, last_outcome
from actbox.codegen.retry import RetryPolicy
from actbox.codegen.task import Task
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .attempts_view import AttemptsView

GOAL: Final = (
    "Add up the amounts in ledger.csv by region, draw a bar chart of the totals as sales.png, and give the totals as a "
    "dict of numbers by region as the answer."
)

LEDGER: Final = """\
region,amount
North,1200.50
South,980.00
North,(250.00)
East,1410.25
South,"1,105.75"
East,(99.95)
West,640.00
"""


def every_row_counts(result: ExecutionResult) -> bool | str:
    """Check that the totals add up to the ledger: refunds, in parentheses, are below zero."""
    amounts = [row["amount"].replace(",", "") for row in csv.DictReader(io.StringIO(LEDGER))]
    signed = (-Decimal(text.strip("()")) if text.startswith("(") else Decimal(text) for text in amounts)
    whole = sum(signed, Decimal(0))
    if not isinstance(result.value, dict):
        return "the answer is no dict of totals by region"
    try:
        found = sum((Decimal(str(total)) for total in result.value.values()), Decimal(0))
        if abs(found - whole) < Decimal("0.01"):
            return True
    except ArithmeticError:
        return "the totals are no numbers"
    return f"the totals add up to {found:,.2f}, and the rows of the ledger to {whole:,.2f}"


async def tell(model: ChatModel, box: Sandbox, console: Console, folder: Path) -> bool:
    """Run the story and return True if it ended well. Files are saved into `folder`."""
    words = Text.assemble(("task     ", "bold"), GOAL, ("\ncheck    ", "bold"), "the totals add up to the ledger")
    console.print(Panel(words, title="actbox demo: a coding agent", border_style="cyan"))
    agent = CodingAgent(
        model,
        box,
        retry=RetryPolicy(attempt_backoff_ms=[0]),
        prices=Prices(models={ScriptedModel.name: TokenPrice(input=0, output=0)}),
    )
    task = Task(GOAL, inputs={"ledger.csv": LEDGER}, outputs=["sales.png"], checks=[every_row_counts])
    with AttemptsView(console) as view:
        view.begin(task)
        outcome = await last_outcome(agent.stream(task), view.feed)
    view.conclude(outcome, [artifact.save(folder) for artifact in outcome.artifacts])
    return outcome.solved


REPLIES: Final = (
    """\
I read the file, and add up the amounts by region.

```python
import csv

totals = {}
with open("input/ledger.csv", newline="") as file:
    for row in csv.DictReader(file):
        amount = float(row["amount"])
        totals[row["region"]] = totals.get(row["region"], 0) + amount
final_answer(totals)
```
""",
    """\
Some amounts are no numbers, so I skip those.

```python
import csv

totals = {}
with open("input/ledger.csv", newline="") as file:
    for row in csv.DictReader(file):
        try:
            amount = float(row["amount"].replace(",", ""))
        except ValueError:
            continue
        totals[row["region"]] = totals.get(row["region"], 0) + amount
final_answer(totals)
```
""",
    """\
Skipping lost rows: amounts in parentheses are refunds, so they count as negative. I read them as such, and draw the
chart.

```python
import csv
import matplotlib.pyplot as plt

totals = {}
with open("input/ledger.csv", newline="") as file:
    for row in csv.DictReader(file):
        amount = float(row["amount"].replace(",", "").strip("()"))
        if row["amount"].startswith("("):
            amount = -amount
        totals[row["region"]] = totals.get(row["region"], 0) + amount

figure, axes = plt.subplots(figsize=(7, 4))
axes.bar(totals.keys(), totals.values(), color="#1b6ca8")
axes.set_title("Sales by region, after refunds")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("output/sales.png", dpi=120, bbox_inches="tight")
plt.close(figure)
final_answer({region: round(total, 2) for region, total in totals.items()})
```
""",
)
