"""What the check of types has found, read from its report."""

from __future__ import annotations

import re
from typing import NamedTuple

from .steps import IllTyped

_FINDING = re.compile(r"^.*?:(\d+):(\d+): (?:error|warning)\[([\w-]+)\] (.*)$", re.MULTILINE)


class Finding(NamedTuple):
    """One finding: its line counts from 1, `rule` is the check's own name for its kind."""

    line: int
    rule: str
    words: str


def findings_in(error: IllTyped) -> list[Finding]:
    """Return all findings, as the report has them."""
    return [Finding(int(line), rule, words) for line, _, rule, words in _FINDING.findall(str(error))]
