"""File checks: that output files exist, hold what their names say, and, if they are pictures, can be opened.

No byte of a file is parsed on the host: programs of our own look at the files, in workspaces of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from actbox.core.program import Program
from actbox.core.result import Artifact, ExecutionResult, media_type_of
from actbox.sandbox.contract import Sandbox
from actbox.sandbox.mapping import result_of

from .input_schemas import SECONDS, FileSchema, describe
from .task import FileCheck

_TEXTS: Final = frozenset({"text", "csv", "json", "json lines", "html", "xml", "svg"})
_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "image/png": frozenset({"png"}),
    "image/jpeg": frozenset({"jpeg"}),
    "image/gif": frozenset({"gif"}),
    "image/webp": frozenset({"webp"}),
    "image/bmp": frozenset({"bmp"}),
    "image/tiff": frozenset({"tiff"}),
    "image/svg+xml": frozenset({"svg"}),
    "application/pdf": frozenset({"pdf"}),
    "application/json": frozenset({"json"}),
    "application/jsonl": frozenset({"json lines", "json"}),
    "application/vnd.apache.parquet": frozenset({"parquet"}),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": frozenset({"excel"}),
    "application/vnd.sqlite3": frozenset({"sqlite"}),
    "application/zip": frozenset({"zip archive", "excel"}),
    "application/gzip": frozenset({"gzip archive"}),
    "text/csv": frozenset({"csv", "text"}),
    "text/tab-separated-values": frozenset({"csv", "text"}),
    "text/html": frozenset({"html"}),
}
"""The kinds of content, as `FileSchema.kind` names them, of media types. Other types of text are any text."""
_PICTURES: Final = frozenset({"png", "jpeg", "gif", "webp", "bmp", "tiff"})
_TABLES: Final = frozenset({"parquet", "excel", "sqlite"})

_OPENING: Final = '''
import struct, zlib

def problem_of(path):
    """Return why a picture cannot be opened, or an empty text."""
    with open(path, "rb") as file:
        problem = problem_in(file.read())
    try:
        from PIL import Image
    except ImportError:
        return problem
    if problem:  # Pillow opens some pictures that are cut off
        return problem
    try:
        with Image.open(path) as image:
            image.load()
    except Exception as error:
        return str(error).replace(path, "it")
    return ""

def problem_in(data):
    """Return what is wrong with a picture, as far as its frame says."""
    if data[:3] == b"\\xff\\xd8\\xff":
        return "" if b"\\xff\\xd9" in data[-64:] else "it is cut off"
    if data[:4] == b"GIF8":
        return "" if data.rstrip(b"\\0")[-1:] == b";" else "it is cut off"
    if data[:4] == b"RIFF":
        return "" if len(data) >= 8 + int.from_bytes(data[4:8], "little") else "it is cut off"
    if data[:8] != b"\\x89PNG\\r\\n\\x1a\\n":
        return ""
    at, pixels, kind = 8, [], b""
    while kind != b"IEND":
        if at + 12 > len(data):
            return "it is cut off"
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body, crc = data[at + 8 : at + 8 + length], data[at + 8 + length : at + 12 + length]
        if len(crc) < 4 or zlib.crc32(kind + body) != int.from_bytes(crc, "big"):
            return "it is cut off or damaged"
        if kind == b"IDAT":
            pixels.append(body)
        at += 12 + length
    try:
        zlib.decompress(b"".join(pixels))
    except zlib.error as error:
        return str(error)
    return ""

[problem_of("input/" + name) for name in names]
'''


async def file_problems(
    checks: Sequence[FileCheck], result: ExecutionResult, box: Sandbox, *, seconds: float = SECONDS
) -> list[str]:
    """Return what is wrong with each expected file, "" for nothing.

    Content that cannot be looked at, as with an engine that has no Python, is not held against a file.
    """
    artifacts = {artifact.name: artifact for artifact in result.artifacts}
    given = {check.name: artifacts[check.name] for check in checks if check.name in artifacts}
    filled = {name: artifact for name, artifact in given.items() if artifact.size}
    schemas = {schema.name: schema for schema in await describe(box, filled, timeout=seconds)}
    pictures = [name for name, schema in schemas.items() if schema.kind in _PICTURES]
    damaged = await _damaged(pictures, filled, box, seconds) if pictures else {}
    return [
        damaged.get(check.name) or _problem(check, given.get(check.name), schemas.get(check.name), tuple(artifacts))
        for check in checks
    ]


def _problem(check: FileCheck, artifact: Artifact | None, schema: FileSchema | None, written: Sequence[str]) -> str:
    if artifact is None:
        others = f"; it wrote {', '.join(written[:10])}" if written else ""
        return f"the program has written no file /output/{check.name}{others}"
    if schema is None:
        return f"/output/{check.name} is empty"
    if schema.kind == "unknown":
        return ""
    if schema.kind == "missing" or (schema.kind in _TABLES and not schema.tables and schema.note):
        return f"/output/{check.name} cannot be read: {schema.note}"
    media_type = (check.media_type or media_type_of(check.name)).partition(";")[0].strip().lower()
    expected = _KINDS.get(media_type) or (_TEXTS if media_type.startswith("text/") else frozenset())
    if expected and schema.kind not in expected:
        return f"/output/{check.name} holds {schema.kind}, not {media_type}"
    return ""


async def _damaged(names: Sequence[str], files: Mapping[str, Artifact], box: Sandbox, seconds: float) -> dict[str, str]:
    program = Program(
        _OPENING,
        inputs={"names": list(names)},
        files={name: files[name].data for name in names},
        label=files[names[0]].label,
    )
    result = await result_of(box.run_alone(program, timeout=seconds), box.traits.engine)
    if result.error is not None:  # such as a picture that takes more memory than there is
        return {name: f"/output/{name} cannot be opened: {result.error.message}" for name in names}
    found = zip(names, result.value or (), strict=False)
    return {name: f"/output/{name} cannot be opened: {problem}" for name, problem in found if problem}
