"""`Secret`: a value that network requests carry and programs never see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from .domains import AllowedDomain, target_text
from .errors import InvalidValue
from .lazy_dataclass import dataclass

# Compiled when there is a secret.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]"
_HEADER = r"[A-Za-z0-9-]+: [^\x00-\x1f\x7f]*[^\x00-\x20\x7f]"
# Headers that frame, address or transform a message; a secret may not set them.
_NOT_FOR_SECRETS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "range"}
    | {"accept-encoding", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate"}
)

_LEAST_CHARACTERS = 8


class _Value:
    """A holder of a secret value that code which walks the fields of a dataclass does not reach."""

    __slots__ = ("_value",)

    _value: str

    @property
    def value(self) -> str:
        """The secret value that requests carry."""
        return self._value


@dataclass(frozen=True, slots=True, eq=False)
class Secret(_Value):
    """A value that requests to some hosts carry and that the program itself never sees.

    `header` is a whole header line with `{}` in place of the value; it replaces a header of that name from the program.
    The value is left out of `repr` and of `dataclasses.asdict`. `domains` are targets as in `AllowedDomain`, or such
    entries themselves, of which only the target counts. The secret is sent encrypted, to https, unless its own entry
    says `http://`. The proxy replaces the value, unchanged or in a usual encoding, in every response that it reads:
    from these hosts, by http, and from entries with methods. It also removes headers with the body's length or hash
    from these responses. A host that wants to reveal the value to the program still can.

    With `as_file` programs do see the value: it is the content of the file `/run/secrets/NAME`, which only they can
    read. That gives up the protection of this class, for protocols other than HTTP.
    """

    name: str
    domains: tuple[str, ...]
    header: str
    as_file: bool

    def __init__(
        self,
        name: str,
        value: str,
        domains: Sequence[str | AllowedDomain] = (),
        header: str = "Authorization: Bearer {}",
        *,
        as_file: bool = False,
    ) -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
            # Text in the place of a name, domain or header may be the secret's value, which no message may show.
            raise InvalidValue(
                "Secret: the name, its first argument, must be a word such as 'github', of ASCII letters, digits, _ "
                "and -, that begins with a letter or _; the value is the second argument"
            )
        if value is None:
            raise InvalidValue(f"Secret({name!r}): the value is None; is its environment variable set?")
        if not isinstance(value, str) or not value or value != value.strip() or re.search(_CONTROL, value):
            raise InvalidValue(
                f"Secret({name!r}): the value must be one non-empty line of text, without control characters or "
                "spaces around it"
            )
        if isinstance(domains, str) or not isinstance(domains, Iterable) or not (domains or as_file):
            raise InvalidValue(f"Secret({name!r}): domains is a non-empty list such as ['api.example.com']")
        if domains and len(value) < _LEAST_CHARACTERS:
            raise InvalidValue(
                f"Secret({name!r}): the value has fewer than {_LEAST_CHARACTERS} characters; so short a value can"
                " be guessed, and masking it would garble many responses"
            )
        if not isinstance(header, str) or not re.fullmatch(_HEADER, header) or header.count("{}") != 1:
            raise InvalidValue(
                f"Secret({name!r}): header must look like 'Authorization: Bearer {{}}', with {{}} where the value goes"
            )
        if header.partition(":")[0].lower() in _NOT_FOR_SECRETS:
            raise InvalidValue(f"Secret({name!r}): the header {header.partition(':')[0]} cannot carry a secret")
        targets = [_target_of(domain) for domain in domains]
        if None in targets:
            raise InvalidValue(
                f"Secret({name!r}): number {targets.index(None) + 1} of its domains must be a host such as "
                "'api.example.com', '*.example.com' or 'http://intra.example:8080', as AllowedDomain takes it"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "domains", tuple(targets))
        object.__setattr__(self, "header", header)
        object.__setattr__(self, "as_file", bool(as_file))

    def __eq__(self, other: object) -> bool:
        return self._all() == other._all() if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all())

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, self._all()

    def _all(self) -> tuple[str, str, tuple[str, ...], str, bool]:
        return self.name, self.value, self.domains, self.header, self.as_file

    def goes_to(self, scheme: Literal["http", "https"], host: str, port: int) -> bool:
        """Return True if requests to this scheme, host and port carry the secret; `host` is as `host_name` returns
        it.
        """
        return any(place.matches(scheme, host, port) for place in self.places())

    def places(self) -> tuple[AllowedDomain, ...]:
        """Return the places whose requests carry the secret: its domains, each with its one scheme (`https` by
        default).
        """
        targets = [AllowedDomain(domain) for domain in self.domains]
        return tuple(AllowedDomain(target_text(t.scheme or "https", t.host, t.port)) for t in targets)

    @property
    def header_name(self) -> str:
        """The name of the header that carries the secret, in lower case."""
        return self.header.partition(":")[0].lower()


def _target_of(domain: str | AllowedDomain) -> str | None:
    try:
        return (domain if isinstance(domain, AllowedDomain) else AllowedDomain(domain)).target
    except InvalidValue:
        return None


def _restore(name: str, value: str, domains: tuple[str, ...], header: str, as_file: bool) -> Secret:
    return Secret(name, value, domains, header, as_file=as_file)
