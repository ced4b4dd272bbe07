"""Schemas of input files, found by looking at them: by the reader itself, and in sandboxes."""

from __future__ import annotations

import base64
import gzip
import io
import json
import sqlite3
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import InvalidValue, Sandbox
from actbox.codegen import InputFile, Task
from actbox.codegen.file_reading.looking import look_at
from actbox.codegen.input_schemas import MOST_SCHEMAS_CHARS, FileSchema, describe, describe_inputs, schemas_text
from actbox.codegen.request_prompts import first_request
from actbox.core.labels import Label

SALES = (
    "region,amount,date,paid,note\nnorth,10,2026-01-05,true,\nsouth,2.5,2026-03-01,false,late\n"
    "north,-3,2026-02-01,true,NA\neast,7,2026-01-01,true,\n"
)


def looked(folder: Path, name: str, data: bytes | str) -> dict[str, Any]:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return look_at(str(path), name)


def columns(found: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    [table] = found["tables"]
    return {one["name"]: (one["type"], one["least"], one["most"], one["missing"]) for one in table["columns"]}


def test_a_csv_has_columns_types_ranges_and_first_rows(tmp_path: Path) -> None:
    found = looked(tmp_path, "sales.csv", SALES)
    assert (found["kind"], found["note"]) == ("csv", "")
    assert columns(found) == {
        "region": ("text", None, None, 0),
        "amount": ("number", -3, 10, 0),
        "date": ("date", "2026-01-01", "2026-03-01", 0),
        "paid": ("boolean", None, None, 0),
        "note": ("text", None, None, 3),
    }
    [table] = found["tables"]
    assert table["columns"][0]["values"] == ["north", "south", "east"]
    assert (table["rows"], len(table["first"]), table["first"][0]) == (4, 3, ["north", "10", "2026-01-05", "true", ""])


@pytest.mark.parametrize(
    ("name", "data", "kind", "words"),
    [
        ("a.csv", "a;b\n1;2\n3;4\n", "csv", 'the delimiter is ";"'),
        ("a.tsv", "a\tb\n1\t2\n", "csv", 'the delimiter is "\\t"'),
        ("a.csv", "1,2\n3,4\n", "csv", "there is no header"),
        ("a.csv", "a,b\n1,2,3\n4\n5,6\n7,8\n9,0\n1,2\n3,4\n5,6\n7,8\n9,9\n", "csv", "2 rows have more or fewer cells"),
        ("a.csv", "name\nann\nbob\n", "csv", ""),
        ("a.csv", "a,b\n", "csv", ""),
        ("a.csv", "Dear all, this is a letter.\nIt says so, and more.\n", "text", "its name ends in .csv"),
        ("a.csv", "ä,b\n1,2\n".encode("cp1252"), "csv", ""),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), "csv", ""),
        ("a.json", "{'a': 1}", "text", "its name ends in .json"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "json lines", ""),
        ("a.jsonl", '{"a": 1}\nno json\n{"a": 2}\n', "json lines", "1 lines are no JSON, the first is line 2"),
        ("a.xlsx", "a,b\n1,2\n", "csv", "its name ends in .xlsx, but its content is csv"),
        ("a.xlsx", b"PK\x03\x04broken", "zip archive", "damaged"),
        ("a.png", b"\xff\xd8\xff\xe0", "jpeg", "its name ends in .png"),
        ("a.parquet", b"PAR1 and no end", "parquet", "its end is missing"),
        ("a.parquet", b"PAR1" + b"\xff" * 40 + struct.pack("<I", 40) + b"PAR1", "parquet", "damaged"),
        ("a.db", b"SQLite format 3\0" + b"\0" * 200, "sqlite", "cannot be read"),
        ("a.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "gzip archive", "its name ends in .csv"),
        ("a.bin", b"\0\1\2", "binary", ""),
        ("a.csv", b"", "empty", ""),
        ("a.html", "<!DOCTYPE html>\n<p>", "html", ""),
    ],
)
def test_files_are_known_by_their_content_and_odd_ones_are_noted(
    name: str, data: bytes | str, kind: str, words: str, tmp_path: Path
) -> None:
    found = looked(tmp_path, name, data)
    assert found["kind"] == kind
    assert words in found["note"] if words else found["note"] == ""


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    assert look_at(str(tmp_path / "none.csv"), "none.csv")["kind"] == "missing"


def test_json_is_a_table_where_it_has_objects_and_an_outline_otherwise(tmp_path: Path) -> None:
    rows = looked(tmp_path, "rows.json", json.dumps([{"id": 1, "at": "2026-01-01T10:00:00"}, {"id": 2, "tags": ["x"]}]))
    assert columns(rows) == {
        "id": ("integer", 1, 2, 0),
        "at": ("datetime", "2026-01-01T10:00:00", "2026-01-01T10:00:00", 1),
        "tags": ("list", None, None, 1),
    }
    nested = looked(tmp_path, "nested.json", json.dumps({"meta": {"n": 1}, "items": [{"a": 1.5}], "numbers": [1, 2]}))
    assert nested["outline"] == {
        "meta": {"n": "integer"},
        "items": ["1 times", {"a": "number"}],
        "numbers": ["2 times", "integer"],
    }
    assert [table["name"] for table in nested["tables"]] == ["items"]


def test_a_database_has_its_tables(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("create table people (id integer, name text, photo blob)")
    connection.executemany("insert into people values (?, ?, ?)", [(1, "ann", b"123"), (2, None, None)])
    connection.execute('create view "odd "" name" as select id from people')
    connection.commit()
    connection.close()
    found = look_at(str(tmp_path / "a.db"), "a.db")
    assert (found["kind"], [table["name"] for table in found["tables"]]) == ("sqlite", ["people", 'odd " name'])
    assert [(one["name"], one["type"], one["missing"]) for one in found["tables"][0]["columns"]] == [
        ("id", "integer", 0),
        ("name", "text", 1),
        ("photo", "bytes", 1),
    ]
    assert found["tables"][0]["first"] == [[1, "ann", "3 bytes"], [2, None, None]]


def workbook() -> bytes:
    """Return a workbook with one sheet, in the form in which Excel writes it."""
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    cell = '<c r="{}" t="inlineStr"><is><t>{}</t></is></c>'
    parts = {
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{office}"><sheets><sheet name="Sales" r:id="rId7"/></sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="rId7" Target="worksheets/one.xml"/>'
        "</Relationships>",
        "xl/sharedStrings.xml": f"<sst {main}><si><t>region</t></si><si><r><t>sold</t></r><r><t> on</t></r></si></sst>",
        "xl/styles.xml": f'<styleSheet {main}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>',
        "xl/worksheets/one.xml": f"<worksheet {main}><sheetData>"
        f'<row><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c>{cell.format("C1", "amount")}</row>'
        f'<row>{cell.format("A2", "north")}<c r="B2" s="1"><v>46027</v></c><c r="C2"><v>2.5</v></c></row>'
        '<row><c r="C3"><v>7</v></c></row>'
        "</sheetData></worksheet>",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


def test_a_workbook_has_its_sheets_with_dates(tmp_path: Path) -> None:
    found = looked(tmp_path, "sales.xlsx", workbook())
    assert (found["kind"], found["note"], found["tables"][0]["name"]) == ("excel", "", "Sales")
    assert columns(found) == {
        "region": ("text", None, None, 1),
        "sold on": ("date", "2026-01-05", "2026-01-05", 1),
        "amount": ("number", 2.5, 7, 0),
    }


PARQUET = (
    "eNqFk79Lw0AUx99dLjWWDu1wjxxk6NJHBRUr6CSom0NBcXaJMWDBHzX1B4qjo6M4iTj4Zzg4ODg4ODg6OKmDf0An8SVNW9GUhpC8ewffz90nuZ"
    "XF1ZpWZm0G3Fwr2Ay3fe2AVhXpysYG6DwXdjNqBCFoybW14R9XCvUtANAFHqsdfzusQN3jBubMuKkTeJw3A7miiSO0RIVPAl8ELZHjuY6EzuU6"
    "Iq0QqhndUgnMuFaaucCPIr/mxnKGQPFkDMmnkM7yEs6dwAdB55JeBZM6OW/z/QplNaM7iCRlSpIpKd58wrkSeCvo2aIby3PVxzKvW70vJzv5NR"
    "q6g0Kam0hMgk/xTFBb0YPyZqEq1l3hZ6WgMt0cvLFRkYP3NmS5l6mTtk2PNjuxep6tX/b/dweuXQ6y3yXdjdD5SM++WuhXMel/dyjpj32JF4I/"
    "ALUdeub/SX0mvj9T+/3R0Ny/9iVGeEKXefoaTeQHrggy5UvTjcFvhZLF4rUN1XLTj/YOwv2JoNmc8KNo96h8GEatxu5OeXp2cmqyZuJT0rvhkF"
    "2v8On7AQsKc0U="
)
"""A file of pyarrow's without its pages: three rows of `id`, `price`, `day` and `name`, in two row groups."""


def test_parquet_has_its_columns_by_its_own_description(tmp_path: Path) -> None:
    found = looked(tmp_path, "a.parquet", zlib.decompress(base64.b64decode(PARQUET)))
    assert found["kind"] == "parquet"
    assert columns(found) == {
        "id": ("integer", 1, 3, 0),
        "price": ("number", 0.5, 2.5, 1),
        "day": ("date", "2026-01-01", "2026-01-03", 0),
        "name": ("text", None, None, 0),
    }
    assert (found["tables"][0]["rows"], found["note"]) == (
        3,
        "its rows are not shown, since pyarrow is not installed here",
    )


@pytest.mark.parametrize(
    ("name", "data", "pixels"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480), [640, 480]),
        ("a.gif", b"GIF89a" + struct.pack("<HH", 3, 4), [3, 4]),
        ("a.bmp", b"BM" + b"\0" * 16 + struct.pack("<ii", 5, -6), [5, 6]),
        ("a.jpg", b"\xff\xd8\xff\xe0\0\4\0\0\xff\xc0\0\x11\x08" + struct.pack(">HH", 20, 30) + b"\0" * 9, [30, 20]),
        ("a.webp", b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x63\0\0\x31\0\0", [100, 50]),
    ],
)
def test_pictures_have_their_size(name: str, data: bytes, pixels: list[int], tmp_path: Path) -> None:
    found = looked(tmp_path, name, data)
    assert (found.get("pixels"), found["note"]) == (pixels, "")


def test_tables_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.codegen.file_reading.columns.MOST_ROWS", 10)
    header = ",".join(f"c{at}" for at in range(100))
    found = looked(tmp_path, "wide.csv", f"{header}\n" + f"{','.join('x' * 100 for _ in range(100))}\n" * 20)
    [table] = found["tables"]
    assert (table["rows"], table["is_whole"], len(table["columns"])) == (10, False, 60)
    assert "40 further columns" in found["note"]
    assert len(table["first"][0][0]) == 60


@pytest.mark.slow
async def test_files_are_looked_at_in_a_sandbox_and_keep_their_labels(box: Sandbox) -> None:
    found = await describe(box, {"sales.csv": InputFile(SALES.encode(), "pii.email"), "deep/a.json": b"[1, 2]"})
    assert [(one.name, one.kind, one.size) for one in found] == [
        ("sales.csv", "csv", len(SALES)),
        ("deep/a.json", "json", 6),
    ]
    assert found[0].label == Label("pii.email")
    assert found[0].summary() == (
        "region: text (north, south, east), amount: number -3 to 10, date: date 2026-01-01 to 2026-03-01, "
        "paid: boolean, note: text (late), 3 missing"
    )
    assert '["north", "10", "2026-01-05", "true", ""]' in found[0].text()
    assert "north" not in found[0].text(Label("internal"))
    assert found[0].summary(Label("internal")) == ""
    assert await box.list_files("input") == []  # nothing of it is left


@pytest.mark.slow
async def test_a_file_that_cannot_be_looked_at_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = b'"' + b"a," * 2_000_000  # one cell
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        run_alone = box.run_alone

        async def only_small(program: Any, **given: Any) -> Any:
            if "bomb.csv" in program.files:
                program = "raise MemoryError()"
            return await run_alone(program, **given)

        monkeypatch.setattr(box, "run_alone", only_small)
        found = await describe(box, {"bomb.csv": bomb, "sales.csv": SALES.encode()})
    assert [one.kind for one in found] == ["unknown", "csv"]
    assert "nobody could look at it: MEMORY" in found[0].note
    assert found[0].size == len(bomb)


async def test_an_engine_without_python_says_that_nobody_has_looked() -> None:
    async with actbox.open_sandbox("rtfs") as box:
        [found] = await describe(box, {"a.csv": b"a,b\n"})
        assert await describe(box, {}) == ()
        schemas = await describe_inputs(box, Task("do", declared={"sales.csv": "region,amount"}))
    assert (found.kind, found.size) == ("unknown", 4)
    assert "no full Python" in found.note
    assert [(one.kind, one.note) for one in schemas] == [("missing", "region,amount")]
    assert "sales.csv: not given; its columns are said to be region,amount" in schemas_text(schemas)


def test_schemas_in_a_prompt_are_bounded() -> None:
    many = [FileSchema(f"{at}.csv", "csv", outline="x" * 1_000) for at in range(500)]
    assert len(schemas_text(many)) <= MOST_SCHEMAS_CHARS + 100


def test_a_request_has_the_schemas_and_withholds_what_may_not_be_read() -> None:
    task = Task("total by region", inputs={"a.csv": b"x", "limit": 3}, outputs=["chart.png"], label="internal")
    schemas = [FileSchema("a.csv", "csv", 1, label=Label("pii"))]
    text = first_request(task, schemas, cleared=Label("internal"))
    assert "- a.csv: csv, 1 byte; its content has the label pii, which you may not read" in text
    assert "- limit = 3" in text
    assert "the file output/chart.png" in text
    with pytest.raises(InvalidValue, match="the task has the label internal"):
        first_request(task, schemas, cleared=Label("public"))
