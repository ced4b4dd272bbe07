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


def test_the_scripted_replies_have_no_result_in_them() -> None:
    pandas = pytest.importorskip("pandas", reason="the extra actbox[demo] is not installed")
    from vega_datasets import local_data

    frames = [local_data(name) for name in ("seattle-temps", "sf-temps")]
    joined = frames[0].merge(frames[1], on="date")
    difference = (joined["temp_x"] - joined["temp_y"]).groupby(pandas.to_datetime(joined["date"]).dt.month).mean()
    figures = [f"{value:.1f}" for value in difference[difference > 0]]
    assert figures
    assert not any(figure in reply for figure in figures for reply in SCRIPTED_REPLIES)


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
