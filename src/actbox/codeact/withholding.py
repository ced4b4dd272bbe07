"""Results that a model may not read: a sentence in their place, which is the same whatever the program did."""

from __future__ import annotations

from actbox.core.labels import Label
from actbox.core.result import ExecutionResult


def may_read(result: ExecutionResult, cleared: Label | None) -> bool:
    """Return True if a model that is cleared up to a label may read a result; `None` is no limit."""
    return cleared is None or result.label <= cleared


def sentence_for_model(result: ExecutionResult, cleared: Label | None) -> ExecutionResult:
    """Return a result for the model in place of one that it may not read.

    Nothing of it depends on the program, not even the label, which a program raises to whatever text it likes.
    """
    said = (
        f"The program has ended. It could have read data of another label than {cleared}, up to which you may read"
        " results: its output, value, error and files are kept from you, and whoever runs you can see them.\n"
    )
    return ExecutionResult(stdout=said, sandbox=result.sandbox, code=result.code, language=result.language)
