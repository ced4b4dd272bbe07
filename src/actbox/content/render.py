"""What a result looks like as text for a model. Nothing else in the project builds this text."""

from __future__ import annotations

from actbox.core.result import ExecutionResult

MAX_CHARS = 20_000
_MAX_VALUE_CHARS = 4_000


def render(result: ExecutionResult, *, max_chars: int = MAX_CHARS) -> str:
    """Return what a model is to read of a result: output, value, error, files, each under a heading of its own.

    Each part is cut to its share of `max_chars`: beginning and end stay, and a sentence says how much is missing.
    """
    sections = []
    if result.stdout:
        sections.append(_section("stdout", cut(result.stdout, max_chars // 2)))
    if result.stderr:
        sections.append(_section("stderr", cut(result.stderr, max_chars // 4)))
    if result.value_text is not None:
        sections.append(_section("value", cut(result.value_text, min(_MAX_VALUE_CHARS, max_chars // 4))))
    if result.error is not None:
        sections.append(_error(result, max_chars // 4))
    if result.artifacts:
        files = [f"{item.name} ({item.media_type}, {item.size:,} bytes)" for item in result.artifacts]
        sections.append(_section("files in output/", "\n".join(files)))
    if result.warnings:
        sections.append(_section("warnings", "\n".join(result.warnings)))
    if not sections:
        return "The program ran and printed nothing. Print what you want to see, or end with an expression."
    return "\n\n".join(sections)


def cut(text: str, most: int) -> str:
    """Return a text of at most about `most` characters: its beginning and its end, and how much was left out."""
    if len(text) <= most:
        return text
    half = most // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n[… {missing:,} of {len(text):,} characters left out …]\n{text[-half:]}"


def _error(result: ExecutionResult, most: int) -> str:
    error = result.error
    assert error is not None
    # A traceback ends with the exception's type and message, so that these need not be said again.
    lines = [error.traceback.rstrip() if error.traceback else ": ".join(filter(None, (error.type, error.message)))]
    lines = [cut(lines[0], most)]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return _section(f"error {error.kind.value}, exit code {result.exit_code}", "\n".join(lines))


def _section(heading: str, text: str) -> str:
    return f"[{heading}]\n{text.rstrip()}"
