"""Classes of pandas and NumPy in a tool's annotations: results are shown as what a program gets, parameters refused."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from actbox.core.errors import InvalidValue
from actbox.tools import Tool, Toolset, stubs

TABLE = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["x", "y"], name="city"))
MOMENT = datetime.datetime(2026, 1, 2)


@dataclasses.dataclass
class Report:
    table: pd.DataFrame
    count: np.int64


def tool(annotation: Any, result: Any) -> Tool:
    def give(): return result  # fmt: skip

    give.__annotations__ = {} if annotation is None else {"return": annotation}
    return Tool.from_function(give)


RESULTS: list[tuple[Any, Any, str]] = [
    (pd.DataFrame, TABLE, "DataFrame"),
    (pd.Series, TABLE["n"], "Series"),
    (pd.Index, TABLE.index, "list[Any]"),
    (pd.Timestamp, pd.Timestamp(MOMENT), "datetime.datetime"),
    (pd.Timedelta, pd.Timedelta(days=1), "datetime.timedelta"),
    (np.ndarray, np.eye(2), "list[Any]"),
    (npt.NDArray[np.float64], np.arange(2.0), "list[Any]"),
    (np.float64, np.float64(1.5), "float"),
    (np.int64, np.int64(1), "int"),
    (np.bool_, np.bool_(True), "bool"),
    (np.datetime64, np.datetime64(MOMENT), "datetime.datetime"),
    (dict[str, pd.DataFrame], {"a": TABLE}, "dict[str, DataFrame]"),
    (pd.DataFrame | None, None, "DataFrame | None"),
    (list[Report], [Report(TABLE, np.int64(2))], "list[Report]"),
    (Report, Report(TABLE, np.int64(2)), "Report"),
]


@pytest.mark.parametrize(("annotation", "result", "written"), RESULTS, ids=[str(row[0]) for row in RESULTS])
async def test_an_annotated_result_crosses_as_an_unannotated_one_and_its_type_is_shown(
    annotation: Any, result: Any, written: str
) -> None:
    annotated = tool(annotation, result)
    assert annotated.signature == f"() -> {written}"
    crossed, unannotated = await annotated.call({}), await tool(None, result).call({})
    assert (crossed, repr(crossed)) == (unannotated, repr(unannotated))


def test_the_stub_declares_the_fields_of_a_table() -> None:
    text = stubs(Toolset([tool(pd.DataFrame, TABLE)]), awaitable=False)
    assert "class DataFrame(TypedDict):" in text
    assert "    records: list[dict[str, Any]]\n    index: NotRequired[list[Any]]\n" in text
    assert "def give() -> DataFrame:" in text


@pytest.mark.parametrize(
    ("annotation", "advice"),
    [
        (
            pd.DataFrame,
            "DataFrame; annotate dict, and make the table in the function: pandas.DataFrame(given['records'])",
        ),
        (pd.DataFrame | None, "DataFrame; annotate dict"),
        (pd.DataFrame | int, "DataFrame; annotate dict"),
        (Report, "DataFrame; annotate dict"),
        (pd.Series, "Series; annotate dict"),
        (np.ndarray, "ndarray; annotate list, and make the array in the function: numpy.array(given)"),
        (np.int64, "int64; annotate int"),
        (list[np.float32], "float32; annotate float"),
        (pd.Timestamp, "Timestamp; annotate datetime.datetime"),
    ],
    ids=str,
)
def test_a_parameter_is_refused_with_the_annotation_to_write_instead(annotation: Any, advice: str) -> None:
    def take(given): ...

    take.__annotations__ = {"given": annotation}
    with pytest.raises(InvalidValue) as caught:
        Tool.from_function(take)
    assert f"parameter 'given' has no JSON form: no argument becomes an instance of {advice}" in str(caught.value)
    assert "pydantic" not in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "given", "made"),
    [
        (dict, TABLE, lambda given: pd.DataFrame(given["records"])["n"].tolist()),
        (dict, TABLE["n"], lambda given: pd.Series(given["values"]).tolist()),
        (list, np.arange(1, 3), lambda given: np.array(given).tolist()),
    ],
    ids=["table", "column", "array"],
)
async def test_the_advice_leads_to_the_value(annotation: Any, given: Any, made: Any) -> None:
    from actbox.core.values import crossed

    def take(given): return made(given)  # fmt: skip

    take.__annotations__ = {"given": annotation}
    assert await Tool.from_function(take).call({"given": crossed(given)}) == [1, 2]
