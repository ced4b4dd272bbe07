"""Labels: the data classes that a value carries, and their order."""

from __future__ import annotations

import re

from .errors import InvalidValue
from .lazy_dataclass import dataclass

_CLASS = re.compile(r"public|internal|(pii|secret)(\.[a-z0-9_-]+)*")
_REDACTED = "pii.redacted"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Label:
    """A set of data classes, of which only the highest are kept.

    The classes are `public`, `internal`, `pii`, `pii.…`, `secret` and `secret.…`, with this order:

    * `public` is below every class, and `internal` is above `public` alone.
    * `pii` is any personal data, and so above each `pii.…`, as `pii.email` is above `pii.email.work`.
    * `pii.redacted` is below every other class of `pii`.
    * `secret` is above each `secret.…`, and every secret is above every class that is no secret.
    * No other two classes are above one another: a join keeps both.

    `a | b` is the join: the label of a value that was made of both. `a <= b` says that a value with the label `a` may
    be seen where values with the label `b` may. `str()` writes the classes with `+` between them, and
    `Label("pii.email+internal")` reads such a text. `Label(*labels)` is the join of any number; `Label()` is `public`.

    A text that is no class counts as `pii`, or as `secret` where that is its first word: nobody may see a value because
    its label was misspelled. Upper-case letters and spaces around a class do not count.

    Raises `InvalidValue` for what is neither text nor a label.
    """

    classes: frozenset[str]
    """The classes of which none is below another, at least one."""

    def __init__(self, *given: str | Label) -> None:
        found: set[str] = set()
        for one in given:
            if isinstance(one, Label):
                found |= one.classes
            elif isinstance(one, str):
                found.update(map(_known, one.split("+")))
            else:
                raise InvalidValue(f"a label is text such as 'pii.email', not {one!r}")
        highest = {one for one in found if not any(one != other and _is_below(one, other) for other in found)}
        object.__setattr__(self, "classes", frozenset(highest or {"public"}))

    @classmethod
    def parse(cls, text: str) -> Label:
        """Return the label that `str()` has written as this text."""
        return cls(text)

    def __or__(self, other: Label) -> Label:
        return Label(self, other) if isinstance(other, Label) else NotImplemented

    def __le__(self, other: Label) -> bool:
        if not isinstance(other, Label):
            return NotImplemented
        return all(any(_is_below(one, above) for above in other.classes) for one in self.classes)

    def __lt__(self, other: Label) -> bool:
        return self <= other and self != other if isinstance(other, Label) else NotImplemented

    def __str__(self) -> str:
        return "+".join(sorted(self.classes))

    def __repr__(self) -> str:
        return f"Label({str(self)!r})"


PUBLIC = Label()
"""The label of a value that everybody may see."""


def label_of(given: object, where: str) -> Label:
    """Return a label that was given as one or as its text. Raises `InvalidValue` for anything else, naming `where`."""
    if isinstance(given, Label):
        return given
    if isinstance(given, str):
        return Label(given)
    raise InvalidValue(f"{where} is a label such as 'pii.email', not {given!r}")


def clearance_of(given: object, where: str) -> Label | None:
    """Return a clearance, the highest label that may be sent somewhere; `None` stays. Raises as `label_of` does."""
    return None if given is None else label_of(given, where)


def _known(text: str) -> str:
    """Return a class of data as it is written, or the class that stands for a text that is none."""
    plain = text.strip().lower()
    if _CLASS.fullmatch(plain):
        return plain
    return "secret" if re.match(r"\s*secret(?![a-z0-9_-])", text, re.IGNORECASE) else "pii"


def _is_below(one: str, other: str) -> bool:
    """Return True if a class is another one, or below it."""
    if one == other or one == "public" or one.startswith(f"{other}."):
        return True
    if _is_in("secret", other):
        return not _is_in("secret", one)
    return _is_in(_REDACTED, one) and _is_in("pii", other) and not _is_in(_REDACTED, other)


def _is_in(family: str, one: str) -> bool:
    return one == family or one.startswith(f"{family}.")
