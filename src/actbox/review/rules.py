"""The rules of a review, how grave each is, and what is to be done when a program meets one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from actbox.core.errors import InvalidValue


class _Ordered(Enum):
    """Members are ordered as they are written down."""

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        order = list(type(self))
        return order.index(self) < order.index(other)


class Severity(_Ordered):
    """How much harm a finding could stand for where nothing isolates the program, the least first."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Verdict(_Ordered):
    """What is to be done about a program, the mildest first: `max` of several is the strictest."""

    ALLOW = "allow"
    WARN = "warn"
    """Run it, and show the finding."""
    ASK = "ask"
    """Run it if a person agrees."""
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding. `about` says what a program that meets it does."""

    name: str
    severity: Severity
    verdict: Verdict
    about: str


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            Rule("syntax", Severity.HIGH, Verdict.WARN, "is not a Python program"),
            Rule("not-read", Severity.HIGH, Verdict.WARN, "cannot be read, as a whole or from here on"),
            Rule("import", Severity.INFO, Verdict.ALLOW, "imports a module"),
            Rule("process", Severity.HIGH, Verdict.WARN, "starts, replaces or signals processes"),
            Rule("code", Severity.HIGH, Verdict.WARN, "runs code that is made or loaded at run time"),
            Rule(
                "dynamic",
                Severity.MEDIUM,
                Verdict.WARN,
                "chooses what it uses at run time, so that a reader cannot tell",
            ),
            Rule("introspection", Severity.HIGH, Verdict.WARN, "reaches into the interpreter's own objects"),
            Rule("unpickle", Severity.HIGH, Verdict.WARN, "loads data in a format that can run code"),
            Rule("native", Severity.HIGH, Verdict.WARN, "calls native code"),
            Rule("network", Severity.MEDIUM, Verdict.WARN, "uses the network"),
            Rule("system-read", Severity.MEDIUM, Verdict.WARN, "reads a path of the system"),
            Rule("system-write", Severity.HIGH, Verdict.WARN, "writes to, changes or removes a path of the system"),
            Rule("delete-tree", Severity.HIGH, Verdict.WARN, "removes a folder tree at an absolute path"),
            Rule("tool", Severity.INFO, Verdict.ALLOW, "calls a tool"),
            Rule("dynamic-tool", Severity.LOW, Verdict.WARN, "calls a tool that is chosen at run time"),
        )
    }
)
"""Every rule by its name, with the verdict that holds unless `Rules` says another."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Which verdict each finding gets: `Rules({"process": "block", "import:socket": "ask"})`.

    A key is the name of a rule, or a rule and a subject: `import:urllib` is for `urllib` and what lies below it, and
    the longest subject that fits decides, be it milder or stricter. Rules that are not named keep the verdict that
    `RULES` has for them, or all get `otherwise` where that is given. Verdicts may be given by their values.

    Raises `InvalidValue` for what is no mapping, and for a rule or a verdict that there is not.
    """

    verdicts: Mapping[str, Verdict | str] = field(default_factory=dict)
    otherwise: Verdict | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.verdicts, Mapping):
            raise InvalidValue(f"Rules takes a dict such as {{'process': 'block'}}, not {self.verdicts!r}")
        checked = {}
        for key, verdict in self.verdicts.items():
            name, colon, subject = key.partition(":") if isinstance(key, str) else ("", "", "")
            if name not in RULES or (colon and not subject):
                raise InvalidValue(f"Rules: there is no rule {key!r}; rules: {', '.join(RULES)}")
            checked[key] = _verdict(verdict, key)
        object.__setattr__(self, "verdicts", MappingProxyType(checked))
        if self.otherwise is not None:
            object.__setattr__(self, "otherwise", _verdict(self.otherwise, "otherwise"))

    def verdict(self, rule: str, subject: str = "") -> Verdict:
        """Return what is to be done about a finding of this rule about this subject."""
        while subject:
            chosen = self.verdicts.get(f"{rule}:{subject}")
            if isinstance(chosen, Verdict):
                return chosen
            subject = subject.rpartition(".")[0]
        for found in (self.verdicts.get(rule), self.otherwise):
            if isinstance(found, Verdict):
                return found
        return RULES[rule].verdict

    def can_be(self, verdict: Verdict) -> bool:
        """Whether there is a finding that would get this verdict."""
        return verdict in self.verdicts.values() or any(self.verdict(rule) is verdict for rule in RULES)


def _verdict(given: object, key: str) -> Verdict:
    try:
        return Verdict(given)
    except ValueError:
        choices = ", ".join(verdict.value for verdict in Verdict)
        raise InvalidValue(f"Rules: {given!r} for {key!r} is no verdict; verdicts: {choices}") from None
