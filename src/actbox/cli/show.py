"""`actbox show`: a result or a transcript of any provider, on the terminal, as a page, or as JSON."""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from actbox.content.transcripts import FORMATS, Transcript, TranscriptError, read_transcript

from .errors import BROKEN_PIPE, UsageError
from .output import print_document, print_text

_FILE_HINT = "give a result of `actbox run --json`, or a transcript as JSON, JSON lines or captured events"
_BEGINNING = 1024
"""The number of characters that are searched for a zero, which binary files have and transcripts do not."""


def show_file(file: str, *, format: str | None, page: str | None, as_json: bool) -> int:
    """Show the contents of a file and return the exit code; `page` is the path of the HTML page to write, `-` standard
    output.

    Raises `UsageError` for a file that cannot be read as a transcript, and a page that cannot be written.
    """
    if page is not None and as_json:
        raise UsageError("--html and --json are both given", "give one of them")
    if format is not None and format not in FORMATS:
        raise UsageError(f"--format {format}: there is no such format", f"there are: {', '.join(FORMATS)}")
    transcript = _read(file, format)
    if as_json:
        messages = [message.to_dict() for message in transcript.messages]
        return 0 if print_document({"format": transcript.format, "messages": messages}) else BROKEN_PIPE
    if page is not None:
        return _write_page(transcript, file, page)
    return 0 if print_text(_on_terminal(transcript)) else BROKEN_PIPE


def _read(file: str, format: str | None) -> Transcript:
    place = "standard input" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except IsADirectoryError:
        raise UsageError(f"cannot read {file}: it is a directory", "give one file in it") from None
    except FileNotFoundError:
        raise UsageError(f"cannot read {file}: there is no such file", "`-` reads standard input") from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "give a file that you can read") from None
    try:
        transcript = read_transcript(_text_of(data, place), format=format)
    except TranscriptError as error:
        raise UsageError(f"{place}: {error}", error.hint) from None
    for warning in transcript.warnings:
        print(f"actbox: {place}: {warning}", file=sys.stderr)
    return transcript


def _text_of(data: bytes, place: str) -> str:
    """Return the text of a file: UTF-8, or UTF-16 if a byte order mark says so."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in data[:_BEGINNING] or encoding != "utf-8":
            raise UsageError(f"{place} is binary data, not text", _FILE_HINT) from None
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"{place}, line {line}: byte {data[error.start]:#04x} is not UTF-8 text"
        raise UsageError(problem, "save it as UTF-8") from None
    if "\0" in text[:_BEGINNING]:
        raise UsageError(f"{place} is binary data, not text", _FILE_HINT)
    return text


def _write_page(transcript: Transcript, file: str, page: str) -> int:
    from actbox.content.page import html_page

    check_may_be_replaced(page, (file,), "the file to show")
    return write_page(html_page(transcript.messages, title="standard input" if file == "-" else Path(file).name), page)


def write_page(written: str, page: str) -> int:
    """Write a page of HTML to a file, or to standard output if that is `-`, and return the exit code."""
    if page == "-":
        return 0 if print_text(written) else BROKEN_PIPE
    try:
        Path(page).write_text(written, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror}", "give --html a file that you can write") from None
    print(f"wrote {page}", file=sys.stderr)
    return 0


def check_may_be_replaced(page: str, files: Iterable[str], name: str) -> None:
    """Raise `UsageError` if a page would overwrite one of the files that are read, or a file that is not a page.

    `name` is what the message calls a file that is read; `-` among the files is standard input.
    """
    hint = "give --html a new file, or an existing HTML page"
    if page == "-":
        return
    try:
        there = os.stat(page)
        read = (os.fstat(0) if file == "-" else os.stat(file) for file in files)
        if stat.S_ISREG(there.st_mode) and any(os.path.samestat(there, one) for one in read):
            raise UsageError(f"--html {page}: this is {name}; it is left unchanged", hint)
        if not stat.S_ISREG(there.st_mode) or there.st_size == 0:
            return
        with open(page, "rb") as opened:
            begin = opened.read(1024)
    except FileNotFoundError:
        if not Path(page).parent.is_dir():
            raise UsageError(f"cannot write {page}: its directory does not exist", hint) from None
        return
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror}", hint) from None
    if not begin.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise UsageError(f"--html {page}: this file is not an HTML page; it is left unchanged", hint)


def _on_terminal(transcript: Transcript) -> str:
    from rich.console import Console

    from actbox.content.terminal import TranscriptView

    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(TranscriptView(transcript.messages))
    return captured.get()
