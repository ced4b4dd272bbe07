"""The progress of `actbox map`: a bar on a terminal, and one sentence at the end."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich import progress as bars
from rich.console import Console
from rich.text import Text

from actbox.core.errors import ErrorKind
from actbox.core.result import ExecutionResult


@dataclass(slots=True)
class Tally:
    """The counts so far. `refused` and `unrun` are among the `failed`."""

    done: int = 0
    failed: int = 0
    refused: int = 0
    """Lines that could not be run as written."""
    unrun: int = 0
    """Programs that did not run because the sandbox failed."""
    skipped: int = 0
    """Programs whose results existed already."""
    _begun: float = field(default_factory=time.monotonic)

    def add(self, result: ExecutionResult) -> None:
        """Count a result."""
        self.done += 1
        self.failed += not result.success
        if result.error is not None:
            self.refused += result.error.kind is ErrorKind.UNSUPPORTED
            self.unrun += result.error.kind is ErrorKind.SANDBOX

    def summary(self) -> str:
        """Return one sentence: the number of programs, the rate, and the failures by reason."""
        seconds = time.monotonic() - self._begun
        text = f"{programs(self.done)} in {seconds:.1f} s, {_rate(self.done / seconds if seconds else None)}"
        text += f": {self.done - self.failed} succeeded, {self.failed} failed"
        reasons = [
            f"{count} {what}"
            for count, what in ((self.refused, "could not be run as given"), (self.unrun, "failed by the sandbox"))
            if count
        ]
        text += f" ({', '.join(reasons)})" if reasons else ""
        return text + (f"; {self.skipped} were done before" if self.skipped else "")


class ProgressBar:
    """A progress bar on standard error if that is a terminal, else nothing. A context manager.

    `total` is how many programs there are, those done before included; without it there is no estimate.
    """

    def __init__(self, tally: Tally, total: int | None) -> None:
        self._tally = tally
        self._total = total
        self._bar: bars.Progress | None = None
        self._task = bars.TaskID(0)

    def __enter__(self) -> Self:
        if os.isatty(2):
            self._bar = bars.Progress(
                bars.BarColumn(),
                bars.MofNCompleteColumn(),
                _RateColumn(),
                bars.TextColumn("{task.fields[failed]} failed"),
                bars.TimeElapsedColumn(),
                bars.TextColumn("left"),
                bars.TimeRemainingColumn(),
                console=Console(stderr=True),
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._bar.add_task("", total=self._total, failed=0)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self) -> None:
        """Show the tally. Skipped programs count neither as work nor for the rate."""
        if self._bar is not None:
            left = None if self._total is None else self._total - self._tally.skipped
            self._bar.update(self._task, completed=self._tally.done, total=left, failed=self._tally.failed)


class _RateColumn(bars.ProgressColumn):
    def render(self, task: bars.Task) -> Text:
        return Text(_rate(task.finished_speed or task.speed))


def _rate(each_second: float | None) -> str:
    if each_second is None:
        return "–/s"
    return f"{each_second:,.0f}/s" if each_second >= 10 else f"{each_second:.1f}/s"


def programs(count: int) -> str:
    """Return "1 program" or "N programs"."""
    return "1 program" if count == 1 else f"{count} programs"
