"""The schemas of input files, found by looking at the files in a sandbox: kind, columns, types, ranges, first rows.

No byte of a file is parsed on the host. A program of our own (`file_reading/`) looks at the files, and its description
is bounded in the sandbox and here: a hostile file can lie about itself, and no more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final

from actbox.core.counted import counted
from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.labels import PUBLIC, Label
from actbox.core.program import Program
from actbox.core.result import Artifact
from actbox.sandbox.contract import Sandbox

from .task import InputFile, Task

SECONDS: Final = 20.0
"""The seconds that looking at the files may take."""
MOST_SCHEMAS_CHARS: Final = 8_000
"""The most characters of all schemas together in a prompt."""
_MOST_TIMES: Final = 3
_MOST_LISTED: Final = 1_000
_MOST_TEXT: Final = 2_000
_NOT_DESCRIBED: Final = "its description makes no sense, so it is damaged"
_READER: Final = "file_reading"
_FOLDER: Final = ".reader"
_LOOKING: Final = f"""\
import os, sys
sys.path.insert(0, os.path.abspath("input/{_FOLDER}"))
from {_READER}.looking import look_at_all
look_at_all("input", names)
"""


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """A column of a table. `least` and `most` are its range, `values` the different texts if they are few."""

    name: str
    type: str
    least: Any = None
    most: Any = None
    missing: int = 0
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the column in words, such as `amount: number 0.5 to 99, 3 missing`."""
        text = f"{self.name}: {self.type}"
        if self.least is not None:
            text += f" {self.least} to {self.most}" if self.least != self.most else f" {self.least}"
        if self.values:
            text += f" ({', '.join(self.values)})"
        return text + (f", {self.missing} missing" if self.missing else "")


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table of a file; `name` is "" if the file has only one.

    `rows` counts those that were looked at, all of them if `is_whole`. `first` are the first rows, cells cut.
    """

    name: str = ""
    columns: tuple[ColumnSchema, ...] = ()
    rows: int = 0
    first: tuple[tuple[Any, ...], ...] = ()
    is_whole: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The schema of an input file, by its content.

    `kind` is `csv`, `json`, `json lines`, `parquet`, `excel`, `sqlite`, `png` and so on, `text`, `binary`, `empty`,
    `missing`, or `unknown` if nobody could look. `note` says what is odd, such as content that its name does not
    promise. `label` is that of the file, and so of all that is here.
    """

    name: str
    kind: str = "unknown"
    size: int = 0
    tables: tuple[TableSchema, ...] = ()
    pixels: tuple[int, int] | None = None
    outline: str = ""
    """The types in JSON data that is no table, in its form."""
    note: str = ""
    label: Label = PUBLIC

    def summary(self, cleared: Label | None = None) -> str:
        """Return the schema on one line: the columns of its tables, or its kind. `cleared` is as for `text`."""
        if not self._may_read(cleared):
            return ""
        tables = [(f"{one.name}: " if one.name else "") + ", ".join(map(str, one.columns)) for one in self.tables]
        return _cut("; ".join(filter(None, tables)) or self._about())

    def text(self, cleared: Label | None = None) -> str:
        """Return the schema for a prompt, with the first rows.

        `cleared` is the highest label that the reader may see, `None` for any: of a file above it only the name, the
        kind and the size are told.
        """
        head = f"- {self.name}: {self._about()}"
        if not self._may_read(cleared):
            return f"{head}; its content has the label {self.label}, which you may not read"
        lines = [head + (f"; {self.note}" if self.note and self.kind != "missing" else "")]
        for table in self.tables:
            count = f"{'' if table.is_whole else 'more than '}{counted(table.rows, 'row' if table.columns else 'line')}"
            lines.append(
                f"  {table.name + ': ' if table.name else ''}{count}" + (f"; {table.note}" if table.note else "")
            )
            lines += [f"    {column}" for column in table.columns]
            lines += [f"    {json.dumps(list(row), ensure_ascii=False, default=str)}" for row in table.first]
        if self.outline:
            lines.append(f"  its form: {self.outline}")
        return _cut("\n".join(lines))

    def _about(self) -> str:
        if self.kind == "missing":
            return f"not given; its columns are said to be {self.note}" if self.note else "not given"
        pixels = f", {self.pixels[0]} x {self.pixels[1]} pixels" if self.pixels else ""
        return f"{self.kind}, {counted(self.size, 'byte')}{pixels}"

    def _may_read(self, cleared: Label | None) -> bool:
        return cleared is None or self.label <= cleared


async def describe(
    box: Sandbox, files: Mapping[str, InputFile | Artifact | bytes], *, timeout: float = SECONDS
) -> tuple[FileSchema, ...]:
    """Return the schema of each file, by a program that looks at them in a workspace of its own.

    A file that cannot be looked at, because it takes longer than `timeout` seconds or too much memory, has the kind
    `unknown` and a note; the others are looked at all the same, as long as all together take no more than three times
    as long. So have all files on an engine that has no full Python.
    """
    given = {name: _as_file(one) for name, one in files.items()}
    blank = {name: FileSchema(name, size=len(one.data), label=Label(one.label)) for name, one in given.items()}
    if not given:
        return ()
    if box.traits.python not in ("full", "standard library") or not box.traits.files:
        why = f"nobody has looked at it, since the {box.traits.engine} engine has no full Python"
        return tuple(replace(one, note=why) for one in blank.values())
    found = await _looked_at(box, given, timeout)
    if isinstance(found, str) and len(given) > 1:  # one of them may be to blame
        schemas = []
        end = time.monotonic() + _MOST_TIMES * timeout
        for name, one in given.items():
            if time.monotonic() > end:
                schemas.append(replace(blank[name], note="nobody has looked at it, since the others took too long"))
                continue
            alone = await _looked_at(box, {name: one}, timeout)
            schemas.append(replace(blank[name], note=alone) if isinstance(alone, str) else alone[0])
    else:
        schemas = [replace(one, note=found) for one in blank.values()] if isinstance(found, str) else found
    return tuple(replace(one, size=blank[one.name].size, label=blank[one.name].label) for one in schemas)


async def describe_inputs(box: Sandbox, task: Task, *, timeout: float = SECONDS) -> tuple[FileSchema, ...]:
    """Return the schemas of a task's input files, those that somebody named without giving them as `missing`."""
    missing = (FileSchema(name, "missing", note=text) for name, text in task.declared.items())
    return (*await describe(box, task.files, timeout=timeout), *missing)


def schemas_text(schemas: Iterable[FileSchema], cleared: Label | None = None) -> str:
    """Return the schemas for a prompt, one below the other, of at most `MOST_SCHEMAS_CHARS` characters."""
    texts = [one.text(cleared) for one in schemas]
    if sum(map(len, texts)) > MOST_SCHEMAS_CHARS:
        each = max(MOST_SCHEMAS_CHARS // len(texts), 100)
        texts = [_cut(text, each) for text in texts[: MOST_SCHEMAS_CHARS // each]]
    return "\n".join(texts)


async def _looked_at(box: Sandbox, files: Mapping[str, InputFile], timeout: float) -> list[FileSchema] | str:
    """Return the schemas of files in their order, or why they could not be looked at."""
    sent: dict[str, bytes | str] = {name: one.data for name, one in files.items()}
    sent |= {f"{_FOLDER}/{path}": text for path, text in _reader().items()}
    try:
        result = await box.run_alone(Program(_LOOKING, inputs={"names": list(files)}, files=sent), timeout=timeout)
    except (InvalidValue, Unsupported) as error:
        return f"nobody could look at it: {error}"
    if result.error is not None:
        return f"nobody could look at it: {result.error.kind.value}: {result.error.message[:200]}"
    described = result.value if isinstance(result.value, list) else []
    if len(described) != len(files):
        return f"nobody could look at it: {_NOT_DESCRIBED}"
    return [_schema(name, one) for name, one in zip(files, described, strict=True)]


def _schema(name: str, given: Any) -> FileSchema:
    """Return a schema from data that came out of a sandbox, and that a damaged file may have made strange."""
    try:
        return _read(name, given)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return FileSchema(name, note=_NOT_DESCRIBED)


def _read(name: str, given: Mapping[str, Any]) -> FileSchema:
    pixels = given.get("pixels")
    return FileSchema(
        name,
        str(given["kind"])[:40],
        tables=tuple(_table(one) for one in _some(given["tables"])),
        pixels=(int(pixels[0]), int(pixels[1])) if pixels else None,
        outline=_cut(json.dumps(given["outline"], ensure_ascii=False), _MOST_TEXT // 2) if "outline" in given else "",
        note=str(given["note"])[:400],
    )


def _table(given: Mapping[str, Any]) -> TableSchema:
    columns = (
        ColumnSchema(
            str(one["name"])[:100],
            str(one["type"])[:40],
            _scalar(one["least"]),
            _scalar(one["most"]),
            int(one["missing"]),
            tuple(str(value)[:100] for value in _some(one["values"])),
        )
        for one in _some(given["columns"])
    )
    return TableSchema(
        str(given["name"])[:100],
        tuple(columns),
        int(given["rows"]),
        tuple(tuple(map(_scalar, _some(row))) for row in _some(given["first"])),
        bool(given["is_whole"]),
        str(given.get("note", ""))[:400],
    )


def _some(given: Sequence[Any]) -> Sequence[Any]:
    return given[:_MOST_LISTED]


def _scalar(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:100]


def _as_file(given: InputFile | Artifact | bytes) -> InputFile:
    if isinstance(given, InputFile):
        return given
    return InputFile(given.data, given.label) if isinstance(given, Artifact) else InputFile(given)


def _cut(text: str, most: int = _MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


@cache
def _reader() -> dict[str, str]:
    """Return the sources of the program that looks at files, by path."""
    folder = resources.files(__package__) / _READER
    return {f"{_READER}/{one.name}": one.read_text("utf-8") for one in folder.iterdir() if one.name.endswith(".py")}
