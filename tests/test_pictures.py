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
_WIDER = 1.1  # what other systems' fonts may need more room than the one here


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=240)


def test_the_picture_of_the_box_is_what_its_script_draws() -> None:
    done = run(ROOT / "scripts" / "box-picture", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_speed_chart_is_what_is_drawn_from_the_kept_figures() -> None:
    done = run(ROOT / "benchmarks" / "speed_chart.py", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_speed_chart_has_the_figures_of_the_results_and_their_machine_and_day() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "latest.json").read_text())
    for picture in (picture for picture in PICTURES if picture.name.startswith("speed-")):
        words = " ".join(text.text or "" for text in ElementTree.parse(picture).iter(f"{_SVG}text"))
        fresh = next(row for row in results["rows"] if row["measure"].startswith("fresh run of `print(1+1)`, paced"))
        for figure in (fresh["ours"], *fresh["peers"].values()):
            assert f"{figure['p50']:.3g} {figure['p99']:.3g}" in words
        assert results["machine"]["date"] in words
        assert results["machine"]["processor"] in words


@pytest.mark.slow
def test_what_was_not_measured_is_said_and_rows_of_a_newer_benchmark_are_drawn(tmp_path: Path) -> None:
    found = {"p50": 2.5, "p99": 5.25, "samples": 9}
    rate = {"p50": 180.0, "p99": None, "samples": 9}
    rows = [
        {"measure": "fresh run of `print(1+1)`, paced", "ours": found, "more_is_better": False},
        {"measure": "sustained fresh runs, 4 at once, 30 s", "ours": rate, "more_is_better": True},
        {"measure": "each of the sustained fresh runs, 4 at once, 30 s", "ours": found, "more_is_better": False},
    ]
    machine = dict.fromkeys(("date", "processor", "processors", "kernel", "python", "load"), "one")
    results = {"machine": machine, "rows": [{**row, "peers": {"bubblewrap": {"reason": "none"}}} for row in rows]}
    code = "import json, sys, drawing, speed_chart; print(speed_chart.draw(json.loads(sys.argv[1]), drawing.LIGHT))"
    setup = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); "
    done = run("-c", setup + code, json.dumps(results))
    assert done.returncode == 0, done.stderr
    words = [text.text for text in ElementTree.fromstring(done.stdout).iter(f"{_SVG}text")]
    assert words.count("not measured") == 13  # all peers: five in one panel, and four in each of two
    assert (words.count("2.5"), words.count("5.25"), words.count("180")) == (2, 2, 1)


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
    boxes = seen.evaluate(
        "[...document.querySelectorAll('text')].map(text => { const box = text.getBBox();"
        " return [text.textContent, text.getAttribute('text-anchor'), box.x, box.y, box.width, box.height] })"
    )
    assert boxes
    width = float(ElementTree.parse(picture).getroot().attrib["width"])
    found = []
    for words, anchor, x, y, wide, high in boxes:
        more = wide * (_WIDER - 1)
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
