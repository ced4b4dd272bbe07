"""The demo, whole: a scripted model, the real sandbox, real data, an answer and a chart."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import actbox
from actbox.cli.app import run_app
from actbox.cli.demo import demo
from actbox.cli.demo_case import SCRIPTED_REPLIES
from actbox.cli.demo_story import LEDGER, REPLIES, every_row_counts
from actbox.core.result import ExecutionResult


@pytest.mark.slow
async def test_the_demo_ends_with_an_answer_and_a_chart(isolated_engine: str, tmp_path: Path) -> None:
    written = io.StringIO()
    console = Console(file=written, width=120)
    code = await demo(None, tmp_path, console, lambda: actbox.open_sandbox(isolated_engine))
    text = written.getvalue()
    assert code == 0, text
    assert "scripted" in text
    assert isolated_engine in text
    for part in ("list_datasets", "load_dataset", "KeyError", "July", "August"):
        assert part in text
    chart = tmp_path / "temperatures.png"
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert chart.stat().st_size > 10_000
    first, second, third = (text.split(f"attempt {number} ─")[1] for number in (1, 2, 3))
    assert "runtime error in line 6: ValueError" in first
    assert '-        amount = float(row["amount"])' in second and "✗ every_row_counts: the totals add up to" in second
    assert "✓ every_row_counts" in third and "solved" in third and "3 attempts, 3 model calls, 0 tokens, $0" in third
    assert (tmp_path / "sales.png").read_bytes().startswith(b"\x89PNG")


def test_the_scripted_replies_have_no_result_in_them() -> None:
    pandas = pytest.importorskip("pandas", reason="the extra actbox[demo] is not installed")
    from vega_datasets import local_data

    frames = [local_data(name) for name in ("seattle-temps", "sf-temps")]
    joined = frames[0].merge(frames[1], on="date")
    difference = (joined["temp_x"] - joined["temp_y"]).groupby(pandas.to_datetime(joined["date"]).dt.month).mean()
    figures = [f"{value:.1f}" for value in difference[difference > 0]]
    assert figures
    assert not any(figure in reply for figure in figures for reply in SCRIPTED_REPLIES)
    amounts = [row.partition(",")[2].strip('"()') for row in LEDGER.splitlines()[1:]]
    assert not any(amount in reply for amount in amounts for reply in REPLIES)


def test_the_check_of_the_story_sees_a_row_that_is_left_out() -> None:
    right = {"North": 950.5, "South": 2085.75, "East": 1310.3, "West": 640}
    assert every_row_counts(ExecutionResult(value=right)) is True
    for wrong in ({**right, "East": 1410.25}, {"North": "much"}, {"North": float("nan")}, [950.5], None):
        assert isinstance(every_row_counts(ExecutionResult(value=wrong)), str)


def test_an_address_without_a_model_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["demo", "--base-url", "http://127.0.0.1:8000/v1"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "actbox: --base-url is the address of a model, and there is no --model",
        "hint: such as --model openai-chat:NAME --base-url http://127.0.0.1:8000/v1",
    ]


@pytest.mark.slow
def test_an_address_that_is_no_url_is_one_sentence_that_names_the_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra actbox[models] is not installed")
    arguments = ["--model", "openai-chat:qwen3", "--base-url", "localhost:8000", "--output", str(tmp_path)]
    assert run_app(["demo", *arguments]) == 2
    assert capsys.readouterr().err == (
        "actbox: --base-url must be a URL such as 'http://127.0.0.1:8000/v1', not 'localhost:8000'\n"
    )
