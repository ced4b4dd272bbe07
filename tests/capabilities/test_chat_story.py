"""The example of a governed chart, with a person who approves in a real browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.content.browser import CHROMIUM, MISSING, Browser

EXAMPLE = Path(__file__).parents[2] / "examples" / "governed_chart.py"


@pytest.mark.engines
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_a_chart_of_personal_data_is_approved_in_a_browser_and_does_not_leave(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(EXAMPLE), "--ask"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as example, Browser() as browser:
        assert example.stdout is not None
        address = example.stdout.readline().removeprefix("answer at ").strip()
        seen = browser.visit(address)
        while not seen.evaluate("document.querySelectorAll('td a').length"):
            browser.follow(seen, "location.reload()")
        seen.click("td a")
        text = seen.evaluate("document.body.innerText")
        assert "execute.python" in text and "read_csv" in text and "pii" in text
        seen.evaluate("document.querySelector('[name=by]').value = 'ann'")
        seen.click("#approve")
        told = example.stdout.read()
    assert example.returncode == 0
    assert "shown to the user:" in told
    assert "not sent: network.http_request may be given data up to public, and this has the label pii" in told
    assert "the journal verifies: True" in told
