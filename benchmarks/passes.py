"""The kept results: a file for each pass of `make bench`, named by its moment, so that names sort by date."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from figures import Figure, Missing, Row, Target
from verdict import Verdict

FOLDER = Path(__file__).parent / "results" / "passes"


@dataclass(frozen=True)
class Found:
    """The findings of a pass about one subject: its rows, or why there are none, and the verdict on the machine.

    `failure` is the error of a measurement; `absent` is the reason why an engine does not work on that machine.
    """

    verdict: Verdict
    rows: tuple[Row, ...] = ()
    failure: str = ""
    absent: str = ""
    seconds: float | None = None
    """The duration of the measurement."""


@dataclass
class Pass:
    """One run of `make bench`, of all subjects or of some."""

    machine: Mapping[str, Any]
    effort: Mapping[str, Any] = field(default_factory=dict)
    moment: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S"))
    """In UTC."""
    found: dict[str, Found] = field(default_factory=dict)
    """By subject."""

    @property
    def when(self) -> str:
        """The moment as people read it."""
        return f"{self.moment[:10]} {self.moment[11:13]}:{self.moment[13:15]}"


def keep(one: Pass, folder: Path = FOLDER) -> Path:
    """Write a pass to its file, and return its path. A pass that goes on replaces what it kept before."""
    subjects = {
        name: {
            **({"seconds": found.seconds} if found.seconds is not None else {}),
            "verdict": asdict(found.verdict),
            **{name: text for name, text in (("failure", found.failure), ("absent", found.absent)) if text},
            "rows": [asdict(row) for row in found.rows],
        }
        for name, found in one.found.items()
    }
    document = {"machine": dict(one.machine), "effort": dict(one.effort), "subjects": subjects}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{one.moment}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


def kept(folder: Path = FOLDER) -> list[Pass]:
    """Return all passes that were kept, the oldest first."""
    return [_read(path) for path in sorted(folder.glob("*.json"), key=lambda path: path.stem)]


def newest(passes: Iterable[Pass], subjects: Iterable[str]) -> dict[str, tuple[Pass, Found]]:
    """Return, for each subject, the newest pass with a verdict on it and what that pass found.

    Without any such pass it is the newest that has rows of the subject, or else the newest that tried.
    """
    best: dict[str, tuple[Pass, Found]] = {}
    for one in passes:
        for subject, found in one.found.items():
            if subject not in best or _rank(found) >= _rank(best[subject][1]):
                best[subject] = (one, found)
    return {subject: best[subject] for subject in subjects if subject in best}


def _rank(found: Found) -> int:
    return bool(found.rows) + bool(found.rows and found.verdict.quiet)


def _read(path: Path) -> Pass:
    document = json.loads(path.read_text())
    found = {
        subject: Found(
            Verdict(tuple(of_it["verdict"]["reasons"]), of_it["verdict"]["conditions"]),
            tuple(map(_row, of_it["rows"])),
            of_it.get("failure", ""),
            of_it.get("absent", ""),
            of_it.get("seconds"),
        )
        for subject, of_it in document["subjects"].items()
    }
    return Pass(document["machine"], document["effort"], path.stem, found)


def _row(document: Mapping[str, Any]) -> Row:
    return Row(
        document["measure"],
        document["unit"],
        _figure(document["ours"]),
        Target(**document["target"]),
        {name: _figure(peer) for name, peer in document["peers"].items()},
        document["more_is_better"],
    )


def _figure(document: Mapping[str, Any]) -> Figure | Missing:
    return Missing(**document) if "reason" in document else Figure(**document)
