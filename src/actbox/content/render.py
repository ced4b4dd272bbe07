"""The rendering of a result as text for a model. Nothing else in the project builds this text.

Each part stands below its own heading, such as `[stdout]` or `[error RUNTIME, exit code 1]`. A line of a part that
looks like a heading gets a backslash (`\\[error …`), so that only our lines begin with `[error`. This stops text that
imitates headings, and nothing more: the content of a part is still the program's or a tool's word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from actbox.core.call_log import CallLog, ToolCallRecord
from actbox.core.counted import counted
from actbox.core.errors import ErrorInfo, ErrorKind, InvalidValue
from actbox.core.result import EXIT_NOT_RUN, ExecutionResult

from .program_lines import failing_lines
from .safe_text import encodable, spelt_out

MAX_CHARS: Final = 20_000
LEAST_CHARS: Final = 1_000
"""The least value of `max_chars`: room for all headings, and for a little of each part."""
MOST_WHOLE_CHARS: Final = 150
"""The most characters of `whole`."""

LEAST_JSON_CHARS: Final = 300
"""The smallest bound that `cut_json` can keep: the length of the longest note alone."""

_MAX_VALUE_CHARS = 4_000
_LEAST_PART_CHARS = 60
_SHORT_CHARS = 500
"""The least room of a part that is cut, whatever the other parts take: the note alone takes up to 54 characters."""

_NOTHING_RAN = "nothing ran, and no tool was called"
_NO_OUTPUT = "The program ran and printed nothing. Print what you want to see, or end with an expression."
_CALLS = "tool calls that had already happened; do not repeat those with effects"
_UNFINISHED = "was still running when the program ended; it may or may not have taken effect"

# The error types of results that `actbox.codeact`, a room above, makes for programs that it did not run.
_NOT_LET_RUN = ("ApprovalRefused", "ReviewBlocked")

# Models see a line end wherever `str.splitlines` does, and invisible characters do not hide a heading.
_UNSEEN = r"[ \t\x00-\x08\x0e-\x1b\x1f\x7f\xa0\xad\u1680\u2000-\u200f\u202a-\u202f\u205f-\u206f\u3000\ufeff]*"
_LIKE_A_HEADING = re.compile(
    rf"(?i)((?:^|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]){_UNSEEN})"
    rf"(?=\[{_UNSEEN}(?:stdout|stderr|value|files in|error|exit code|the program at|hint|tool calls|warnings)\b)"
)


def render(
    result: ExecutionResult,
    *,
    program: str | None = None,
    calls: CallLog | None = None,
    max_chars: int = MAX_CHARS,
    whole: str = "",
    has_run: bool = False,
    always_calls: bool = False,
) -> str:
    """Return a result as text for a model: output, value, files and error, each under its own heading.

    A failure is described by its kind, exit code, type and message, the program's own frames and a hint; with
    `program`, also the lines around the one that failed; with `calls`, the calls that it made, so that the model does
    not repeat their effects. If nothing ran at all, the error's heading says so; `has_run` means that something did
    run, although the result no longer shows it. With `always_calls` a success lists its calls as well.

    The text has at most `max_chars` characters, at least `LEAST_CHARS`. Short parts stay whole, and the others share
    the rest: each keeps its beginning and its end, with a note on how many of how many characters are missing. The
    first note also says where the `whole` is ("the file /output/stdout.txt"): one line of at most `MOST_WHOLE_CHARS`.
    Raises `InvalidValue` for bounds that cannot be kept.
    """
    _check_chars(max_chars)
    if len(whole) > MOST_WHOLE_CHARS or not whole.isprintable():
        raise InvalidValue(f"whole must be one line of at most {MOST_WHOLE_CHARS} characters, not {whole[:200]!r}")
    parts = [
        _Part("stdout", result.stdout, 4),
        _Part("value", result.value_text or "", 2, most=_MAX_VALUE_CHARS),
        _Part("files in output/", _files(result), 1),
        _Part("stderr", _stderr(result), 2),
        *_what_went_wrong(result, program, calls, has_run),
    ]
    if always_calls and result.success and calls is not None:
        parts.append(_calls_part(calls, None))
    return _joined(parts, max_chars, whole) or _NO_OUTPUT


def render_stderr(
    result: ExecutionResult,
    *,
    program: str | None = None,
    calls: CallLog | None = None,
    max_chars: int = MAX_CHARS,
    whole: str = "",
    has_run: bool = False,
) -> str:
    """Return the text for a separate standard error field that a model reads beside the output.

    Standard error has no heading here; the error and the warnings follow as in `render`, if there are any. The bounds
    are those of `render`.
    """
    _check_chars(max_chars)
    wrong = [part for part in _what_went_wrong(result, program, calls, has_run) if part.is_shown]
    if not wrong:
        return cut(encodable(result.stderr), max_chars, whole=whole)
    return _joined([_Part("", _stderr(result), 2), *wrong], max_chars, whole)


def render_stdout(result: ExecutionResult) -> str:
    """Return the text for a separate standard output field: the output, with the value as its last line. It is not
    cut.
    """
    text = encodable(result.stdout)
    if result.value_text is None:
        return text
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{ended}{encodable(result.value_text)}\n"


def leaves_out(result: ExecutionResult, text: str) -> bool:
    """Return True if `text`, which `render` made of this result, leaves out a part of the printed output or of the
    value.
    """
    parts = (result.stdout, result.value_text or "", _stderr(result))
    shown = [_guarded(encodable(part.rstrip())) for part in parts if part]
    return not all(map(text.__contains__, shown))


def json_length(value: object) -> int:
    """Return the number of characters of a value as JSON text without ASCII escapes."""
    return len(json.dumps(value, ensure_ascii=False))


def cut_json(text: str, most: int, *, whole: str = "") -> str:
    """Return a text, cut as by `cut`, that takes at most `most` characters as JSON text.

    `most` is at least `LEAST_JSON_CHARS`.
    """
    kept = cut(text, most, whole=whole)
    while (over := json_length(kept) - most) > 0:
        # The removed characters may have been escaped, to up to six characters each.
        kept = cut(text, len(kept) - (over + 5) // 6, whole=whole)
    return kept


def cut(text: str, most: int, *, whole: str = "") -> str:
    """Return a text of at most `most` characters: its beginning, a note on how much was left out, and its end.

    `whole` says where the whole text is. If not even the note fits, the result is the note alone.
    """
    if len(text) <= most:
        return text
    kept = max(most - len(_note(len(text), len(text), whole)), 0)
    tail = kept // 2
    return f"{text[: kept - tail]}{_note(len(text) - kept, len(text), whole)}{text[len(text) - tail :]}"


def _note(missing: int, length: int, whole: str) -> str:
    where = f"; whole: {whole}" if whole else ""
    return f"\n[… {missing:,} of {length:,} characters left out{where} …]\n"


def _check_chars(max_chars: int) -> None:
    if max_chars < LEAST_CHARS:
        raise InvalidValue(f"max_chars must be at least {LEAST_CHARS:,}, not {max_chars:,}")


# The parts


class _Part:
    """A part of the rendered text, below its heading if it has one.

    `weight` is its share of the room among the parts that are cut, and `most` a limit for this part alone.
    """

    def __init__(self, heading: str, text: str, weight: int, *, most: int | None = None, always: bool = False) -> None:
        self.heading = f"[{heading}]\n" if heading else ""
        self.text = encodable(text.rstrip())
        self.weight = weight
        self.most = most
        self.is_shown = always or bool(self.text)
        """True if the part appears in the text."""

    def wanted(self, room: int) -> int:
        """Return how many characters the part would take, given the `room` for all parts."""
        # For a part that will be cut anyway, only the shown characters are examined.
        length = len(self.text)
        wanted = length if length > room else len(_guarded(self.text))
        return wanted if self.most is None else min(wanted, self.most)

    def fits(self, share: int) -> bool:
        """Return True if the part fits its share without being cut."""
        return len(self.text) <= share and len(_guarded(self.text)) <= share

    def cut(self, share: int, whole: str) -> str:
        """Return the part's text, cut to at most `share` characters."""
        most = min(share, len(self.text) - 1)
        # Guarding adds characters, and a cut within a line may make its end begin like a heading.
        while len(text := _guarded(cut(self.text, most, whole=whole))) > share:
            most -= len(text) - share
        return text


def _guarded(text: str) -> str:
    return _LIKE_A_HEADING.sub(r"\1\\", text)


def _what_went_wrong(
    result: ExecutionResult, program: str | None, calls: CallLog | None, has_run: bool
) -> Iterator[_Part]:
    if not result.success:
        yield from _failure(result, program, calls, has_run)
    yield _Part("warnings", "\n".join(result.warnings), 1)


def _failure(result: ExecutionResult, program: str | None, calls: CallLog | None, has_run: bool) -> Iterator[_Part]:
    error = result.error
    heading = f"error {error.kind.value}, exit code {result.exit_code}" if error else f"exit code {result.exit_code}"
    if not has_run and _nothing_ran(result, calls):
        heading += f"; {_NOTHING_RAN}"
    lines, said = "", ""
    if error is not None:
        # A traceback ends with the exception's type and message, so they are not repeated.
        said = error.traceback if error.traceback.strip() else ": ".join(filter(None, (error.type, error.message)))
        if program is not None and error.line is not None:
            lines, said = failing_lines(program, error.line, said)
    yield _Part(heading, said, 3, always=True)
    if error is not None:
        yield _Part(f"the program at line {error.line}", lines, 2)
        yield _Part("hint", error.hint, 1)
    if calls is not None:
        yield _calls_part(calls, error)


def _calls_part(calls: CallLog, error: ErrorInfo | None) -> _Part:
    return _Part(_CALLS, "\n".join(_calls(calls, error)), 2)


def _nothing_ran(result: ExecutionResult, calls: CallLog | None) -> bool:
    """Return True if the program certainly did not begin.

    A guest may claim that a program has a syntax error; its output, files and calls are known to the host.
    """
    error = result.error
    if error is None or result.stdout or result.artifacts or result.changes:
        return False
    if result.usage.tool_calls or (calls is not None and calls.records):
        return False
    if error.kind in (ErrorKind.SYNTAX, ErrorKind.TYPE):
        return True
    never_began = result.exit_code == EXIT_NOT_RUN and not result.usage.wall_ms
    not_let_run = error.kind is ErrorKind.POLICY and error.type in _NOT_LET_RUN
    return never_began and (not_let_run or error.kind is ErrorKind.UNSUPPORTED)


def _calls(calls: CallLog, error: ErrorInfo | None) -> Iterator[str]:
    for place, call in enumerate(calls.records, 1):
        yield f"{place}. {spelt_out(call.tool)}({_arguments(call)}) → {_outcome(call, error)}"
    if calls.further:
        counts = ", ".join(f"{spelt_out(tool)} ×{count:,}" for tool, count in calls.further.items())
        yield f"and {sum(calls.further.values()):,} more: {counts}"


def _arguments(call: ToolCallRecord) -> str:
    return "" if call.arguments == "{}" else call.arguments


def _outcome(call: ToolCallRecord, error: ErrorInfo | None) -> str:
    if call.status == "returned":
        return "returned"
    if call.status == "unfinished":
        return _UNFINISHED
    if error is not None and error.kind is ErrorKind.TOOL and _same(call.error, error.message):
        return "failed, with the error above"
    return f"failed: {spelt_out(' '.join(call.error.split()))}"


def _same(recorded: str, message: str) -> bool:
    return recorded == message or (recorded.endswith("…") and message.startswith(recorded[:-1]))


def _files(result: ExecutionResult) -> str:
    # File names come from the program, and may contain line breaks.
    return "\n".join(
        [
            f"{spelt_out(item.name)} ({spelt_out(item.media_type)}, {counted(item.size, 'byte')})"
            for item in result.artifacts
        ]
    )


def _stderr(result: ExecutionResult) -> str:
    """Return standard error without an ending that the error repeats."""
    text = result.stderr.rstrip()
    if result.error is None:
        return text
    said = result.error.traceback.strip("\n")
    if result.error.kind is ErrorKind.EXIT:  # `sys.exit("…")` prints its message
        said = said or result.error.message.strip()
    if said and f"\n{text}".endswith(f"\n{said.rstrip()}"):
        return text[: len(text) - len(said.rstrip())]
    return text


# The bound


def _joined(parts: Iterable[_Part], max_chars: int, whole: str) -> str:
    shown = [part for part in parts if part.is_shown]
    if max([len(part.text) for part in shown], default=0) <= _SHORT_CHARS:  # the usual case: no room has to be shared
        texts = [f"{part.heading}{_guarded(part.text)}" if part.text else part.heading.rstrip() for part in shown]
        text = "\n\n".join(texts)
        if len(text) <= max_chars - len(_note(0, 0, whole)):
            return text
    return "\n\n".join(_fitted(shown, max_chars, whole))


def _fitted(parts: list[_Part], max_chars: int, whole: str) -> Iterable[str]:
    """Yield each part with its heading, cut so that all of them, joined by blank lines, keep to the bound."""
    room = max_chars - sum(len(part.heading) + len("\n\n") for part in parts)
    wanted = [part.wanted(room) for part in parts]
    # Only the first note says where the whole is.
    extra = len(_note(0, 0, whole)) - len(_note(0, 0, ""))
    if sum(wanted) > room - extra:
        room -= extra
    for part, share in zip(parts, _shares(wanted, [part.weight for part in parts], room), strict=True):
        if part.fits(share):
            text = _guarded(part.text)
        else:
            text = part.cut(share + extra, whole)
            extra, whole = 0, ""
        yield f"{part.heading}{text}" if text else part.heading.rstrip()


def _shares(wanted: list[int], weights: list[int], room: int) -> list[int]:
    """Return how many characters each part gets: all that it wants, or its weighted share of what the other parts
    leave.
    """
    shares = [min(length, _LEAST_PART_CHARS) for length in wanted]
    waiting = [place for place, length in enumerate(wanted) if length > shares[place]]
    while waiting:
        left = room - sum(shares)
        total = sum(weights[place] for place in waiting)
        gets = {place: left * weights[place] // total for place in waiting}
        content = [place for place in waiting if wanted[place] - shares[place] <= gets[place]]
        for place in content or waiting:
            shares[place] = min(wanted[place], shares[place] + gets[place])
        waiting = [place for place in waiting if place not in content] if content else []
    return shares
