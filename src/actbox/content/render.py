"""What a result looks like as text for a model. Nothing else in the project builds this text.

Each part stands below a heading of its own, such as `[stdout]` or `[error RUNTIME, exit code 1]`. A line of a part that
begins as a heading does gets a backslash (`\\[error …`), so that a line that begins with `[error` is ours. This is a
plain measure against text that pretends, not more: what a part says remains the program's word, or a tool's.
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
"""What `max_chars` must at least be: room for all headings, and for a little of each part."""
MOST_WHOLE_CHARS: Final = 150
"""Characters of `whole`."""

LEAST_JSON_CHARS: Final = 300
"""What `cut_json` can keep to: the note alone, as long as it can be."""

_MAX_VALUE_CHARS = 4_000
_LEAST_PART_CHARS = 60
"""What a part that is cut gets at least, whatever the others take: the note alone takes up to 54."""

_NOTHING_RAN = "nothing ran, and no tool was called"
_NO_OUTPUT = "The program ran and printed nothing. Print what you want to see, or end with an expression."
_CALLS = "tool calls that had already happened; do not repeat those with effects"
_UNFINISHED = "was still running when the program ended; it may or may not have taken effect"

# What `actbox.codeact` names the results of programs that it did not let run; it is a room above.
_NOT_LET_RUN = ("ApprovalRefused", "ReviewBlocked")

# A line ends for a model wherever it does for `str.splitlines`, and what is not seen does not hide a heading.
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
    """Return what a model is to read of a result: output, value, files and error, each under a heading of its own.

    A failure is told with its kind, exit code, type and message, the program's own frames, a hint and, where they are
    given, the lines of `program` around the one that failed and the `calls` that it had made, so that what had an
    effect is not done twice. Where nothing ran at all, the heading of the error says so; `has_run` says that something
    did, which the result does not show any more. With `always_calls` the calls are told of a success as well.

    The text has at most `max_chars` characters, at least `LEAST_CHARS`. Short parts stay as they are, the others share
    what is left: each keeps its beginning and its end, and a note says how many of how many characters are missing, the
    first of them also where the `whole` is ("the file /output/stdout.txt"): one line of at most `MOST_WHOLE_CHARS`.
    Raises `InvalidValue` for bounds that cannot be held.
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
    """Return what stands for standard error where a model reads it beside the output, in a field of its own.

    Standard error has no heading here; below it are the error and the warnings as in `render`, if there are any. The
    bounds are those of `render`.
    """
    _check_chars(max_chars)
    wrong = [part for part in _what_went_wrong(result, program, calls, has_run) if part.is_told]
    if not wrong:
        return cut(encodable(result.stderr), max_chars, whole=whole)
    return _joined([_Part("", _stderr(result), 2), *wrong], max_chars, whole)


def render_stdout(result: ExecutionResult) -> str:
    """Return what stands for standard output in a field of its own: the value is its last line. It is not cut."""
    text = encodable(result.stdout)
    if result.value_text is None:
        return text
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{ended}{encodable(result.value_text)}\n"


def leaves_out(result: ExecutionResult, text: str) -> bool:
    """Return whether what `render` has returned for a result leaves out something that it printed, or of its value."""
    parts = (result.stdout, result.value_text or "", _stderr(result))
    return any(_guarded(encodable(part.rstrip())) not in text for part in parts)


def json_length(value: object) -> int:
    """Return how many characters a value takes as JSON text; those beyond ASCII stand as they are."""
    return len(json.dumps(value, ensure_ascii=False))


def cut_json(text: str, most: int, *, whole: str = "") -> str:
    """Return a text, cut as by `cut`, that takes at most `most` characters as JSON text.

    `most` is at least `LEAST_JSON_CHARS`.
    """
    kept = cut(text, most, whole=whole)
    while (over := json_length(kept) - most) > 0:
        # What is left out was escaped, to six characters at most.
        kept = cut(text, len(kept) - (over + 5) // 6, whole=whole)
    return kept


def cut(text: str, most: int, *, whole: str = "") -> str:
    """Return a text of at most `most` characters: its beginning and its end, and how much was left out.

    `whole` says where all of it is. Where not even the note fits, there is nothing but the note, whole.
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
    """A piece of the text, below its heading where it has one.

    `weight` is its share of the room among those that are cut, `most` a bound of its own.
    """

    def __init__(self, heading: str, text: str, weight: int, *, most: int | None = None, always: bool = False) -> None:
        self.heading = f"[{heading}]\n" if heading else ""
        self.text = encodable(text.rstrip())
        self.weight = weight
        self.most = most
        self.always = always

    @property
    def is_told(self) -> bool:
        """Whether the model reads of it."""
        return self.always or bool(self.text)

    def wanted(self, room: int) -> int:
        """Return how many characters it would take, of `room` that there are for all."""
        # Of what is too long in any case no more is looked at than what is shown.
        length = len(self.text)
        wanted = length if length > room else len(_guarded(self.text))
        return wanted if self.most is None else min(wanted, self.most)

    def fits(self, share: int) -> bool:
        """Return whether nothing has to be cut."""
        return len(self.text) <= share and len(_guarded(self.text)) <= share

    def cut(self, share: int, whole: str) -> str:
        """Return the text, cut, of at most `share` characters."""
        most = min(share, len(self.text) - 1)
        # What is guarded grows, and the end may begin like a heading where it was cut out of the middle of a line.
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
        # A traceback ends with the exception's type and message, so that these need not be said again.
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
    """Return whether it is certain that the program did not begin.

    A guest may say of a program that it has a syntax error; what it printed, left and called is the host's to know.
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
    # Names are the program's, and may have line breaks in them.
    return "\n".join(
        f"{spelt_out(item.name)} ({spelt_out(item.media_type)}, {counted(item.size, 'byte')})"
        for item in result.artifacts
    )


def _stderr(result: ExecutionResult) -> str:
    """Return standard error without what it ends with and the error says as well."""
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
    told = [part for part in parts if part.is_told]
    return "\n\n".join(_fitted(told, max_chars, whole)) if told else ""


def _fitted(parts: list[_Part], max_chars: int, whole: str) -> Iterable[str]:
    """Return each part with its heading, cut so that all of them, with a blank line between two, keep to the bound."""
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
    """Return how many characters each part gets: all that it wants, or its weight's share of what the others leave."""
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
