"""Values that requests carry and programs never see."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .domains import AllowedDomain
from .errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that requests to some hosts carry and that the program itself never sees.

    `header` is a whole header line with `{}` where the value goes. The value is left out of `repr`.
    """

    name: str
    value: str = field(repr=False)
    domains: tuple[str, ...]
    header: str

    def __init__(self, name: str, value: str, domains: Sequence[str], header: str = "Authorization: Bearer {}") -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
            raise InvalidValue(f"Secret: the name {name!r} must be a word such as 'github'")
        if not isinstance(value, str) or not value or any(c in value for c in "\r\n\0"):
            raise InvalidValue(f"Secret({name!r}): the value must be one non-empty line of text")
        if isinstance(domains, str) or not domains:
            raise InvalidValue(f"Secret({name!r}): domains is a non-empty list such as ['api.example.com']")
        if not re.fullmatch(r"[A-Za-z0-9-]+: [^\r\n\0]+", header) or header.count("{}") != 1:
            raise InvalidValue(f"Secret({name!r}): header must look like 'Authorization: Bearer {{}}', not {header!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "domains", tuple(AllowedDomain(d).target for d in domains))
        object.__setattr__(self, "header", header)
