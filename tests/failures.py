"""A pytest plugin that writes which tests failed, and with what. `-p tests.failures` writes to the path in `REPORT`.

The file is one JSON object of node ids, each with the first line of its first failure. It is written at the end of the
run, by the process that controls it. A file or folder that could not be collected is in it too, marked by `COLLECTION`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

REPORT: Final = "ACTBOX_TESTS_FAILURES"
COLLECTION: Final = "could not be collected: "


def pytest_configure(config: pytest.Config) -> None:
    if REPORT in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(Path(os.environ[REPORT])))


class _Failures:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._first_lines: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._first_lines.setdefault(report.nodeid, _first_line(report.longrepr))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._first_lines.setdefault(report.nodeid, COLLECTION + _first_line(report.longrepr))

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._first_lines))


def _first_line(failure: Any) -> str:
    crash = getattr(failure, "reprcrash", None)
    text = str(failure if crash is None else crash.message).strip()
    return text.splitlines()[0] if text else "no message"
