"""Prompts about a failed attempt, from which a model writes its next program; and the parts that all prompts have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from actbox.codeact.blocks import joined
from actbox.content.render import cut, render
from actbox.content.safe_text import encodable
from actbox.core.errors import ErrorKind
from actbox.core.result import ExecutionResult
from actbox.core.values import pack

from .retry import ErrorClass

SPEC_TEMPLATE: Final = """\
Previous code failed with the following error:

```
{error_message}
```

The code was:
```{language}
{original_code}
```

Please analyze the error and provide a corrected version.

If the error is:
- Import error: Add the missing dependency to the requirements
- Syntax error: Fix the syntax
- Runtime error: Fix the logic
- Timeout: Optimize the algorithm

Respond with the corrected code only, no explanations.
"""
"""The refinement prompt of the specification (8.2), which `plain_prompt` fills in."""

_MOST_LIST_CHARS: Final = 6_000
"""The most characters of each list in a prompt."""
_MOST_TRIED_CHARS: Final = 200

_ADVICE: Final = {
    ErrorClass.SYNTAX_ERROR: "Correct the syntax.",
    ErrorClass.IMPORT_ERROR: "Name the missing package as a dependency, or do without it.",
    ErrorClass.RUNTIME_ERROR: "Find the cause of the error and correct the logic.",
    ErrorClass.TIMEOUT: "The program takes too long: use another algorithm, or do less.",
    ErrorClass.RESOURCE_EXHAUSTED: "The program needs more than it has: read and keep less at a time.",
    ErrorClass.POLICY: "This is not allowed: reach the goal without it.",
    ErrorClass.CHECK_FAILED: "The program ran, but its outcome is not what the task asks for: correct the logic.",
    ErrorClass.SANDBOX: "The sandbox failed, which need not be the program's fault.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed attempt, as far as the model may read about it.

    `number` counts from 1, and `most` is the last number that there may be. `code` is the program, or the reply if that
    had none. `result` is `None` if nothing ran. `failed_checks` are sentences. `happened` are lines on the calls that
    this and earlier attempts have made outside the sandbox, `tried` lines on the attempts before. `error_class` is
    `None` if the model may not read the result: `result` then has a sentence in its place.
    """

    number: int
    most: int
    language: str
    code: str
    error_class: ErrorClass | None
    result: ExecutionResult | None = None
    failed_checks: tuple[str, ...] = ()
    happened: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()


Prompt = Callable[[Failure], str]


def refinement_prompt(failure: Failure) -> str:
    """Return the prompt with the failing lines, what has happened outside, and what was tried."""
    return joined(*_parts(failure))


def plain_prompt(failure: Failure) -> str:
    """Return the specification's own prompt about a failed attempt."""
    return SPEC_TEMPLATE.format(
        error_message=_message(failure), language=failure.language, original_code=encodable(failure.code).rstrip("\n")
    )


def summary_of(error_class: ErrorClass, result: ExecutionResult | None, failed_checks: Iterable[str] = ()) -> str:
    """Return one short line on an attempt that failed."""
    said = next(iter(failed_checks), "")
    if result is not None and (error := result.error) is not None:
        line = "" if error.line is None else f" (line {error.line})"
        said = f"{': '.join(filter(None, (error.type, error.message)))}{line}"
    return ": ".join(filter(None, (error_class.value, cut_line(said))))


def cut_line(text: str, most: int = _MOST_TRIED_CHARS) -> str:
    """Return a text as one line of at most `most` characters."""
    line = " ".join(encodable(text[: 10 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def listed(heading: str, lines: Iterable[str], most: int | None = None) -> str:
    """Return a heading with a list below it, of which at most `most` characters are kept; "" for an empty list."""
    items = encodable("\n".join(f"- {line}" for line in lines))
    return f"{heading}\n{items if most is None else cut(items, most)}" if items else ""


def value_text(value: Any, most: int) -> str:
    """Return the first `most` characters of a value as JSON text, or as its `repr` if it has no JSON form."""
    try:
        text = json.dumps(pack(value), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"


def _parts(failure: Failure) -> Iterator[str]:
    name = "" if failure.error_class is None else f" ({failure.error_class.value})"
    yield f"Attempt {failure.number} of {failure.most} did not solve the task{name}."
    if failure.result is not None:
        yield render(_without_misleading_hint(failure.result), program=failure.code)
    if failure.error_class is not ErrorClass.NO_CODE:
        yield listed("Checks that did not pass:", failure.failed_checks, _MOST_LIST_CHARS)
    happened = (
        "Outside the sandbox this has happened already. A call of a function that is repeated with the same arguments"
        " returns the same again, and does not happen a second time:"
    )
    yield listed(happened, failure.happened, _MOST_LIST_CHARS)
    yield listed("Tried before, without success:", failure.tried, _MOST_LIST_CHARS)
    if failure.error_class is ErrorClass.NO_CODE:
        yield "\n".join(failure.failed_checks) or (
            f"Your reply had no program. Send one whole program, in one fenced ```{failure.language} block."
        )
        return
    advice = "" if failure.error_class is None else _ADVICE.get(failure.error_class, "") + " "
    yield (
        f"{advice}Send the whole corrected program, and not the same again. It starts anew: variables and files of this"
        " attempt are gone."
    )


def _without_misleading_hint(result: ExecutionResult) -> ExecutionResult:
    """Return a result without the hint that a program may go on with the files of one that took too long."""
    if result.error is None or result.error.kind is not ErrorKind.TIMEOUT:
        return result
    return replace(result, error=replace(result.error, hint=""))


def _message(failure: Failure) -> str:
    result = failure.result
    if result is None:
        return "\n".join(failure.failed_checks) or "The reply had no program."
    if result.error is None:
        return "\n".join(failure.failed_checks) or cut(result.stdout, _MOST_LIST_CHARS).rstrip()
    said = result.error.traceback.strip() or ": ".join(filter(None, (result.error.type, result.error.message)))
    return cut(encodable(said), _MOST_LIST_CHARS)
