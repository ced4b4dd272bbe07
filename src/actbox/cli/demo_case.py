"""The demo's task: a question about real data, the host tools that reach it, and the scripted model's replies.

The data are hourly normal temperatures of two cities, published by the United States' NOAA, as they ship inside the
`vega-datasets` package. The scripted replies have no figures in them: every number comes out of the sandbox.
"""

from __future__ import annotations

from typing import Any

from actbox.core.errors import ActboxError, ToolError
from actbox.tools import Tool, tool

QUESTION = (
    "Seattle is said to be colder than San Francisco all year round. Compare the two cities' hourly temperatures: in "
    "which months is Seattle warmer on average, and by how much? Draw a chart of both cities by month, and give the "
    "months with their differences as the answer."
)

_DATA_SETS = {
    "seattle-temps": "hourly normal temperatures in Seattle, in degrees Fahrenheit",
    "sf-temps": "hourly normal temperatures in San Francisco, in degrees Fahrenheit",
}


@tool
def list_datasets() -> dict[str, str]:
    """List the data sets that there are, each with a sentence about it."""
    return dict(_DATA_SETS)


@tool
def load_dataset(name: str) -> list[dict[str, Any]]:
    """Load a data set as a list of records.

    Args:
        name: one of the names that list_datasets() gives
    """
    if name not in _DATA_SETS:
        raise ToolError(f"there is no data set {name!r}; there are: {', '.join(_DATA_SETS)}")
    frame = _local_data()(name)
    frame["date"] = frame["date"].astype(str)
    return [{str(key): value for key, value in record.items()} for record in frame.to_dict("records")]


def _local_data() -> Any:
    try:
        from vega_datasets import local_data
    except ImportError as error:
        raise ActboxError("the demo needs its data and pandas: pip install 'actbox[demo]'") from error
    return local_data


def demo_tools() -> list[Tool]:
    """Return the demo's host tools. Raises `ActboxError` if the demo's packages are missing."""
    _local_data()
    return [list_datasets, load_dataset]


SCRIPTED_REPLIES = (
    """\
I start by looking at what there is: the data sets, and a few records of each.

```python
import asyncio

names = await list_datasets()
frames = await asyncio.gather(*(load_dataset(name) for name in names))
for name, records in zip(names, frames):
    print(f"{name}: {names[name]}; {len(records)} records, for example {records[0]}")
```
""",
    """\
Both have one record an hour, so I join them on the hour, and average by month.

```python
import pandas as pd

seattle = pd.DataFrame(load_dataset("seattle-temps"))
san_francisco = pd.DataFrame(load_dataset("sf-temps"))
joined = seattle.merge(san_francisco, on="date", suffixes=("_seattle", "_sf"))
joined["month"] = pd.to_datetime(joined["date"]).dt.month
monthly = joined.groupby("month")[["temperature_seattle", "temperature_sf"]].mean()
print(monthly)
```
""",
    """\
The column is called `temp`, not `temperature`. Fixed, with the chart and the answer.

```python
import calendar
import matplotlib.pyplot as plt
import pandas as pd

seattle = pd.DataFrame(load_dataset("seattle-temps"))
san_francisco = pd.DataFrame(load_dataset("sf-temps"))
joined = seattle.merge(san_francisco, on="date", suffixes=("_seattle", "_sf"))
joined["month"] = pd.to_datetime(joined["date"]).dt.month
monthly = joined.groupby("month")[["temp_seattle", "temp_sf"]].mean()
monthly["difference"] = monthly["temp_seattle"] - monthly["temp_sf"]
print(monthly.round(1).to_string())

figure, axes = plt.subplots(figsize=(9, 5))
labels = [calendar.month_abbr[month] for month in monthly.index]
axes.plot(labels, monthly["temp_seattle"], marker="o", color="#1b6ca8", label="Seattle")
axes.plot(labels, monthly["temp_sf"], marker="o", color="#e07b39", label="San Francisco")
axes.fill_between(
    range(len(labels)), monthly["temp_seattle"], monthly["temp_sf"],
    where=monthly["difference"] > 0, interpolate=True, color="#1b6ca8", alpha=0.15, label="Seattle is warmer",
)
axes.set_title("Average temperature by month, hourly normals")
axes.set_ylabel("degrees Fahrenheit")
axes.spines[["top", "right"]].set_visible(False)
axes.grid(axis="y", alpha=0.3)
axes.legend(frameon=False)
figure.savefig("output/temperatures.png", dpi=150, bbox_inches="tight")
plt.close(figure)

warmer = monthly[monthly["difference"] > 0]["difference"].round(1)
final_answer({calendar.month_name[month]: f"{value:+.1f} °F" for month, value in warmer.items()})
```
""",
)
