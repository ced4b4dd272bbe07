"""The pictures of docs/images/ are what their programs draw, and can be read, on a phone too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

import actbox
from tests.content.browser import CHROMIUM, MISSING, Browser

ROOT = Path(__file__).resolve().parents[1]
PICTURES = sorted((ROOT / "docs" / "images").glob("*.svg"))
_SVG = "{http://www.w3.org/2000/svg}"
_PHONE_PIXELS = 360
_LEAST_TEXT_PIXELS = 12
_LEAST_CONTRAST = 4.5  # WCAG AA, for text of any size
_WIDER = {"Liberation Sans": 1.1, "DejaVu Sans": 1.0}
"""By font, how much more room than in it a text may need in others; the second is as wide as any that is usual."""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=240)


def test_the_picture_of_the_box_is_what_its_script_draws() -> None:
    done = run(ROOT / "scripts" / "box-picture", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("chart", ["speed_chart.py", "history_chart.py"])
def test_a_chart_is_what_is_drawn_from_the_kept_figures(chart: str) -> None:
    done = run(ROOT / "benchmarks" / chart, "--check")
    assert done.returncode == 0, done.stderr


_DRAW = f"""
import dataclasses, json, sys
sys.path.insert(0, {str(ROOT / "benchmarks")!r})
import drawing, history_chart, speed_chart
from figures import Figure, Missing, Row, Target
from parts import SUBJECTS
from passes import Found, Pass, kept, newest
from verdict import Verdict
"""


@pytest.mark.slow
def test_the_speed_chart_has_the_newest_figures_and_their_machine_and_day() -> None:
    code = """
one, found = newest(kept(), SUBJECTS)["fresh_run"]
row = next(row for row in found.rows if row.measure.startswith("fresh run of `print(1+1)`, paced"))
shown = [row.peers.get(name) for name in speed_chart.PANELS[0].peers]
figures = [dataclasses.asdict(figure) for figure in (row.ours, *shown) if isinstance(figure, Figure)]
print(json.dumps([figures, one.machine["date"], one.machine["processor"]]))
"""
    done = run("-c", _DRAW + code)
    assert done.returncode == 0, done.stderr
    figures, *about = json.loads(done.stdout)
    for picture in (picture for picture in PICTURES if picture.name.startswith("speed-")):
        words = " ".join(text.text or "" for text in ElementTree.parse(picture).iter(f"{_SVG}text"))
        for figure in figures:
            assert f"{figure['p50']:.3g} {figure['p99']:.3g}" in words
        assert [word for word in about if word not in words] == []


@pytest.mark.slow
def test_what_was_not_measured_is_said_and_rows_of_a_newer_benchmark_are_drawn() -> None:
    code = """
found, rate, none = Figure(2.5, 5.25, 9), Figure(180.0, None, 9), {"bubblewrap": Missing("none")}
rows = (
    Row("fresh run of `print(1+1)`, paced", "ms", found, peers=none),
    Row("sustained fresh runs, 4 at once, 30 s", "runs/s", rate, peers=none, more_is_better=True),
    Row("each of the sustained fresh runs, 4 at once, 30 s", "ms", found, peers=none),
)
machine = dict.fromkeys(("date", "processor", "processors", "kernel", "python", "load"), "one")
one = Pass(machine)
print(speed_chart.draw({"fresh_run": (one, Found(Verdict(), rows))}, drawing.LIGHT))
"""
    done = run("-c", _DRAW + code)
    assert done.returncode == 0, done.stderr
    words = [text.text for text in ElementTree.fromstring(done.stdout).iter(f"{_SVG}text")]
    assert words.count("not measured") == 13  # all peers: five in one panel, and four in each of two
    assert (words.count("2.5"), words.count("5.25"), words.count("180")) == (2, 2, 1)


@pytest.mark.slow
def test_the_chart_by_date_marks_each_pass_and_leaves_rings_where_there_is_no_verdict() -> None:
    code = """
def at(moment, value, *reasons):
    row = Row("cold start: the first sandbox of a process", "ms", Figure(value, None, 1), Target(p50=80))
    return Pass({}, moment=moment, found={"cold_start": Found(Verdict(reasons), (row,))})

passes = [at("2026-01-01-000000", 160.0, "busy"), at("2026-01-02-000000", 120.0), at("2026-01-05-000000", 40.0)]
print(history_chart.draw(passes, drawing.LIGHT))
"""
    done = run("-c", _DRAW + code)
    assert done.returncode == 0, done.stderr
    picture = ElementTree.fromstring(done.stdout)
    dots = [dot.attrib for dot in picture.iter(f"{_SVG}circle")]
    assert [dot["fill"] == dot["stroke"] for dot in dots] == [False, True, True]
    across, heights = ([float(dot[name]) for dot in dots] for name in ("cx", "cy"))
    assert (across[2] - across[0]) == pytest.approx(4 * (across[1] - across[0]), abs=0.5)
    assert heights == sorted(heights)
    words = [text.text for text in picture.iter(f"{_SVG}text")]
    assert words[:5] == ["Cold start", "ms, less is better", "now 40, to reach 80", "2026-01-01", "2026-01-05"]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_text_is_large_enough_where_the_picture_is_as_wide_as_a_phone(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    scale = _PHONE_PIXELS / float(root.attrib["width"])
    assert min(float(text.attrib["font-size"]) for text in root.iter(f"{_SVG}text")) * scale >= _LEAST_TEXT_PIXELS


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_text_has_enough_contrast_with_what_it_stands_on(picture: Path) -> None:
    rectangles: list[dict[str, str]] = []
    for element in ElementTree.parse(picture).getroot():
        if element.tag == f"{_SVG}rect":
            rectangles.append(dict(element.attrib))
        if element.tag == f"{_SVG}text":
            x, y = float(element.attrib["x"]), float(element.attrib["y"]) - 1
            below = next(rectangle for rectangle in reversed(rectangles) if _holds(rectangle, x, y))
            assert _contrast(element.attrib["fill"], below["fill"]) >= _LEAST_CONTRAST, element.text


def _holds(rectangle: dict[str, str], x: float, y: float) -> bool:
    left, top, width, height = (float(rectangle[name]) for name in ("x", "y", "width", "height"))
    return left <= x <= left + width and top <= y <= top + height


def _contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colors, as WCAG 2 defines it."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [int(pair, 16) / 255 for pair in re.findall("[0-9a-f]{2}", color)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


_HAS_FONT = """
[..."sm"].every(kind => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    const other = kind === "s" ? "serif" : "monospace";
    const width = font => { pen.font = font; return pen.measureText("mmmiii").width };
    return width(`20px "%s", ${other}`) !== width(`20px ${other}`);
})
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with Browser() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_in_a_browser_no_text_overlaps_another_text_or_an_edge(picture: Path, browser: Browser) -> None:
    seen = browser.visit(picture)
    assert seen.complaints == []
    font = next((name for name in _WIDER if seen.evaluate(_HAS_FONT % name)), None)
    if font is None:
        pytest.skip(f"none of the fonts {', '.join(_WIDER)} is installed (the Debian package `fonts-liberation`)")
    seen.evaluate(f"document.documentElement.setAttribute('font-family', '{font}')")
    boxes = seen.evaluate(
        "[...document.querySelectorAll('text')].map(text => { const box = text.getBBox();"
        " return [text.textContent, text.getAttribute('text-anchor'), box.x, box.y, box.width, box.height] })"
    )
    assert boxes
    width = float(ElementTree.parse(picture).getroot().attrib["width"])
    found = []
    for words, anchor, x, y, wide, high in boxes:
        more = wide * (_WIDER[font] - 1)
        left = x - {"start": 0.0, "middle": more / 2, "end": more}[anchor]
        assert left >= 0 and left + wide + more <= width, words
        found.append((words, left, y, left + wide + more, y + high))
    for one, other in combinations(found, 2):
        apart = one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] + 4 or other[4] <= one[2] + 4
        assert apart, f"{one[0]!r} overlaps {other[0]!r}"


@pytest.mark.slow
def test_the_transcript_and_the_chart_are_what_the_demo_prints_and_draws() -> None:
    pytest.importorskip("vega_datasets", reason="the extra actbox[demo] is not installed")
    if not (found := actbox.check("linux")).works:
        pytest.skip(found.reason)
    done = run(ROOT / "scripts" / "demo-page", "--check")
    assert done.returncode == 0, done.stderr
