"""The rules of a review, the findings that meet them, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from actbox.core.errors import InvalidValue

MAX_FINDINGS: Final = 1000
"""The most findings that are listed one by one; a further finding for each verdict then stands for the rest."""


class _Ordered(Enum):
    """An enumeration whose members are ordered by their definition."""

    @property
    def order(self) -> int:
        return list(type(self)).index(self)

    def __lt__(self, other: object) -> bool:
        return self.order < other.order if isinstance(other, type(self)) else NotImplemented


class Severity(_Ordered):
    """The harm that a finding could do if nothing isolates the program, the least first."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Verdict(_Ordered):
    """The verdict on a program, the mildest first: `max` of several verdicts is the strictest."""

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
            Rule("syntax", Severity.HIGH, Verdict.WARN, "does not parse"),
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
            Rule("delete-tree", Severity.HIGH, Verdict.WARN, "removes a directory tree at an absolute path"),
            Rule("tool", Severity.INFO, Verdict.ALLOW, "calls a tool"),
            Rule("dynamic-tool", Severity.LOW, Verdict.WARN, "calls a tool that is chosen at run time"),
        )
    }
)
"""Every rule by its name, with the verdict that holds unless `Rules` says another."""

_SPEC: Final = (
    *("process:subprocess", "dynamic:subprocess", "process:asyncio", "process:child_process", "dynamic:child_process"),
    "process:os.system",
    *("code:builtins.exec", "code:Function", "code:import", "code:vm", "dynamic:vm"),
    *("code:builtins.eval", "code:eval"),
    *("system-read:/etc", "system-write:/etc", "delete-tree:/etc"),
    *("network:socket", "dynamic:socket"),
    *(f"{rule}:{module}" for rule in ("network", "dynamic") for module in ("dgram", "net", "tls")),
    *("dynamic:builtins.__import__", "dynamic:import", "dynamic:require"),
    *("unpickle:pickle", "unpickle:cloudpickle", "unpickle:node-serialize", "unpickle:serialize-to-js"),
    *("not-read", "syntax:javascript"),
)
"""The eight risky patterns of the specification, one a line, each with its counterparts in Node. The last line is about
programs of which these rules cannot be told: those that are not read, and JavaScript that only Node might parse.
"""

PRESETS: Final[Mapping[str, Mapping[str, Verdict]]] = MappingProxyType(
    {"spec": MappingProxyType(dict.fromkeys(_SPEC, Verdict.BLOCK))}
)
"""The verdicts of each set of rules that has a name: see `Rules.preset`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The verdict for each kind of finding: `Rules({"process": "block", "import:socket": "ask"})`.

    A key is the name of a rule, or a rule and a subject: `import:urllib` covers `urllib` and everything below it, and
    so does `system-read:/etc`. The longest matching subject decides, be it milder or stricter. Rules without a key keep
    the verdict of `RULES`, or get `otherwise` if that is given. Verdicts may be given by their values.

    Raises `InvalidValue` if this is not a mapping, and for an unknown rule or verdict.
    """

    verdicts: Mapping[str, Verdict | str] = field(default_factory=dict)
    otherwise: Verdict | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.verdicts, Mapping):
            raise InvalidValue(f"Rules takes a dict such as {{'process': 'block'}}, not {self.verdicts!r}")
        for key in self.verdicts:
            name, colon, subject = key.partition(":") if isinstance(key, str) else ("", "", "")
            if name not in RULES or (colon and not subject):
                raise InvalidValue(f"Rules: there is no rule {key!r}; rules: {', '.join(RULES)}")
        verdicts = {key: _verdict(verdict, key) for key, verdict in self.verdicts.items()}
        object.__setattr__(self, "verdicts", MappingProxyType(verdicts))
        if self.otherwise is not None:
            object.__setattr__(self, "otherwise", _verdict(self.otherwise, "otherwise"))

    @classmethod
    def preset(
        cls, name: str, verdicts: Mapping[str, Verdict | str] | None = None, otherwise: Verdict | str | None = None
    ) -> Rules:
        """Return the rules of that name, but for `verdicts` of yours: `Rules.preset("spec", {"code": "ask"})`.

        `spec` blocks the specification's eight risky patterns: use of `subprocess`, `os.system`, `exec`, `eval`,
        `__import__`, `socket`, `pickle.load` and `loads`, and files below `/etc`. In JavaScript these are
        `child_process`, `Function` and `vm`, `eval`, `require` and `import` of a name that is made at run time, `net`,
        `tls` and `dgram`, and packages that load functions from data. It also blocks programs that cannot be read.

        A verdict of yours about a whole rule replaces those of the preset about its subjects. Raises `InvalidValue`.
        """
        if name not in PRESETS:
            raise InvalidValue(f"Rules: there is no preset {name!r}; presets: {', '.join(PRESETS)}")
        if not isinstance(verdicts, Mapping | None):
            raise InvalidValue(f"Rules takes a dict such as {{'process': 'block'}}, not {verdicts!r}")
        own = verdicts or {}
        return cls(
            {**{key: verdict for key, verdict in PRESETS[name].items() if key.partition(":")[0] not in own}, **own},
            otherwise,
        )

    def verdict(self, rule: str, subject: str = "") -> Verdict:
        """Return the verdict for a finding of this rule about this subject."""
        closest = longest(f"{rule}:{subject}", self.verdicts)
        found = (self.verdicts.get(closest), self.verdicts.get(rule), self.otherwise)
        return next((verdict for verdict in found if isinstance(verdict, Verdict)), RULES[rule].verdict)

    def can_be(self, verdict: Verdict) -> bool:
        """Return True if some finding would get this verdict."""
        return verdict in self.verdicts.values() or any(self.verdict(rule) is verdict for rule in RULES)


def longest(path: str, names: Container[str]) -> str:
    """Return the longest prefix of a path, in parts by dots and slashes, that is one of these names, or ""."""
    while path and path not in names:
        path = path[: max(path.rfind("."), path.rfind("/"), 0)]
    return path


def _verdict(given: object, key: str) -> Verdict:
    try:
        return Verdict(given)
    except ValueError:
        choices = ", ".join(verdict.value for verdict in Verdict)
        raise InvalidValue(f"Rules: {given!r} for {key!r} is no verdict; verdicts: {choices}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One operation of a program that meets a rule, and its line.

    `subject` is what the finding is about: a module, a function by its full name, a path, a tool; it may be empty.
    `line` and `column` count from 1, columns in characters. `source` is that line of the program without indentation,
    cut to 200 characters. `stands_for` is above 1 if there are too many findings to list: it is the number of findings,
    with the same verdict, that this one stands for.
    """

    rule: str
    severity: Severity
    line: int
    column: int
    message: str
    subject: str = ""
    source: str = ""
    stands_for: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain JSON data."""
        return {**asdict(self), "severity": self.severity.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool that a program may make.

    `tool` is the tool's name, or `None` if the program chooses it at run time or by code that cannot be analyzed: then
    it may be any tool of the run. `arguments` has the literal arguments, by parameter name, or by position (`"0"`) if
    the name is unknown; `complete` is true if there are no others. `dynamic` is true if the call itself could not be
    read: its tool is unknown, or the tool's function is passed on as a value and called elsewhere with unknown
    arguments.
    """

    tool: str | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False
    line: int = 1
    column: int = 1
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """The findings about one program, in the order of its lines, and the rules that judge them.

    If there are very many, the last one of each verdict stands for those that are not listed, which were chosen by
    these rules.
    """

    findings: tuple[Finding, ...]
    rules: Rules = field(default_factory=Rules)

    @property
    def verdict(self) -> Verdict:
        """The strictest verdict that any finding gets; `ALLOW` where there are none."""
        return max((self.verdict_on(finding) for finding in self.findings), default=Verdict.ALLOW)

    def verdict_on(self, finding: Finding) -> Verdict:
        """Return the verdict for one finding."""
        return self.rules.verdict(finding.rule, finding.subject)

    def to_dict(self) -> dict[str, Any]:
        """Return the review as plain JSON data: its verdict, and each finding with its own."""
        return {
            "verdict": self.verdict.value,
            "findings": [{**finding.to_dict(), "verdict": self.verdict_on(finding).value} for finding in self.findings],
        }


def select(found: Iterable[Finding], rules: Rules) -> list[Finding]:
    """Return the findings to list, in order, and for each verdict one that stands for the unlisted findings with it.

    The first finding of each rule and of each verdict is listed, and one of each severity. Then come those with a
    stricter verdict before others; for the same verdict, the first of each rule and subject before repetitions, and
    more severe ones first. So the strictest verdict of all belongs to a listed finding. The finding that stands for
    others has the rule, subject and place of the most severe of them, and says how many there are of which rules.
    """
    ordered = sorted(found, key=lambda finding: (finding.line, finding.column))
    if len(ordered) <= MAX_FINDINGS:
        return ordered
    judged = {key: rules.verdict(*key) for key in {(finding.rule, finding.subject) for finding in ordered}}
    verdicts = [judged[finding.rule, finding.subject] for finding in ordered]
    backward = range(len(ordered) - 1, -1, -1)
    needed = {*{ordered[n].rule: n for n in backward}.values(), *{verdicts[n]: n for n in backward}.values()}
    new = set({(ordered[n].rule, ordered[n].subject): n for n in backward}.values())
    ranked = sorted(
        range(len(ordered)),
        key=lambda n: (n not in needed, -verdicts[n].order, n not in new, -ordered[n].severity.order, n),
    )
    left_out: dict[Verdict, list[Finding]] = {}
    for n in ranked[MAX_FINDINGS:]:
        left_out.setdefault(verdicts[n], []).append(ordered[n])
    listed = [ordered[n] for n in sorted(ranked[:MAX_FINDINGS])]
    for _, others in sorted(left_out.items(), reverse=True):
        counts = ", ".join(f"{rule} {count:,}" for rule, count in Counter(each.rule for each in others).most_common())
        message = f"{len(others):,} more findings are not listed, of which this is one: {counts}"
        listed.append(
            replace(max(others, key=lambda finding: finding.severity), message=message, stands_for=len(others))
        )
    return listed
