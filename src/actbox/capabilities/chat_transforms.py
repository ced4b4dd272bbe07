"""`chat.transform.redact_message` and `chat.transform.verify_redaction`: personal data out of a message, and the proof.

Found are e-mail addresses, telephone numbers, IBANs and card numbers with right check digits, IP addresses, and the
names that the caller gives. Not found is all else: names that nobody gave, postal addresses, dates of birth, numbers of
passports and the like, mistyped numbers of accounts and cards, numbers in words, "ann at example dot com", pictures,
and whatever somebody encodes so that it is not found.
Digits and letters may be of any script, and invisible characters between them do not hide a number.
"""

from __future__ import annotations

import ipaddress
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import regex

from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from actbox.core.result import Artifact
from actbox.sandbox.blocking import run_blocking

from .capability import Capability
from .invocation import Invocation
from .outcome import StepFailed
from .verifying import Verification

REDACTED: Final = Label("pii.redacted")
MOST_CHARACTERS: Final = 1_000_000
"""The most characters of a message."""
_MOST_NAMES: Final = 1000
_SECONDS: Final = 10.0
_AT_ONCE: Final = 10_000
_REASONS: Final = 5
_MOST_OF_A_BYTE: Final = 255

_HIDDEN: Final = r"\p{Cf}\p{Default_Ignorable_Code_Point}\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
"""The characters that nobody sees, among them the zeros of UTF-16."""
_GAP: Final = rf"(?:[^\S\n]|[.\-/()\p{{Pd}}{_HIDDEN}]){{0,3}}"
_SPACE: Final = rf"(?:[^\S\n]|[\p{{Pd}}{_HIDDEN}])?"
_LOCAL: Final = r"[^\s@﹫＠%<>()\[\]{},;:\"=|\\/&?*`]"
_AT: Final = "[@﹫＠]"
_DOMAIN: Final = rf"[\w\-{_HIDDEN}]++(?:(?:[.．]|[。｡](?=[A-Za-z]))[\w\-{_HIDDEN}]++)++"
_AREA: Final = r"[2-9]\d\d"
_DIGIT: Final = rf"(?:\d[{_HIDDEN}]*+)"
_PLACEHOLDER: Final = r"\[(?:email|iban|card|ip|phone|name) \d++\]"
_NOT_IN_NUMBER: Final = r"(?<!\w|\+|\d[.,\-])"


class Found(NamedTuple):
    """A place in a text where personal data stands, and which kind of it."""

    start: int
    end: int
    kind: str


class _Kind(NamedTuple):
    name: str
    pattern: str
    part: Callable[[str], tuple[int, int] | None]
    """Takes what the pattern has found; returns the part that is personal data, `None` if none is."""


def _whole(text: str) -> tuple[int, int] | None:
    return 0, len(text)


def _ip(text: str) -> tuple[int, int] | None:
    if ":" not in text:
        return (0, len(text)) if all(int(part) <= _MOST_OF_A_BYTE for part in text.split(".")) else None
    for end in (len(text), len(text.rstrip(":."))):
        try:
            ipaddress.IPv6Address(text[:end])
        except ValueError:
            continue
        return 0, end
    return None


def _card(text: str) -> tuple[int, int] | None:
    return next(((0, end) for end in _word_ends(text) if _is_card(text[:end])), None)


def _iban(text: str) -> tuple[int, int] | None:
    return next(((0, end) for end in _word_ends(text) if _is_iban(text[:end])), None)


_KINDS: Final = (
    _Kind("email", rf"(?:\G|(?<!{_LOCAL})){_LOCAL}++{_AT}{_DOMAIN}", _whole),
    _Kind("email", rf'"(?:[^"\\\n]|\\.){{1,64}}"{_AT}{_DOMAIN}', _whole),
    _Kind("email", rf"(?:\G|(?<![\w.+\-]))[\w.+\-]++%40{_DOMAIN}", _whole),
    _Kind("iban", rf"(?<![A-Za-z0-9])[A-Za-z]{{2}}\d{{2}}(?:{_SPACE}[A-Za-z0-9]){{11,30}}(?![A-Za-z0-9])", _iban),
    _Kind("card", rf"(?<!\d|\d[.,]){_DIGIT}{{3,19}}(?:(?:[^\S\n]|\p{{Pd}}){_DIGIT}{{3,16}}){{0,5}}(?!\d)", _card),
    _Kind("ip", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)", _ip),
    _Kind(
        "ip", r"(?<![\w:.])(?=[0-9A-Fa-f]*:[0-9A-Fa-f]*:)(?=[A-Fa-f:]*[0-9])[0-9A-Fa-f:]{3,39}(?:\.\d{1,3}){0,3}", _ip
    ),
    _Kind("phone", rf"(?<![\w+])(?:\+|00){_GAP}[1-9](?:{_GAP}\d){{6,13}}(?!\d)", _whole),
    _Kind("phone", rf"{_NOT_IN_NUMBER}(?:0[1-9]\d{{1,4}}|\(0[1-9]\d{{1,4}}\))(?:{_GAP}\d){{5,10}}(?!\d)", _whole),
    _Kind("phone", rf"{_NOT_IN_NUMBER}0[1-9](?:([ .\-])\d\d)(?:\1\d\d){{3}}(?!\d)", _whole),
    _Kind(
        "phone",
        rf"{_NOT_IN_NUMBER}(?:1[ .\-])?(?:\({_AREA}\) ?|{_AREA}[ .\-]){_AREA}[ .\-]\d{{4}}(?!\d)",
        _whole,
    ),
)
"""The kinds of personal data that have a form. National telephone numbers begin with 0 (`0171 1234567`), are pairs
(`01 23 45 67 89`), or American (`(212) 555-0123`)."""


def find(text: str, names: Iterable[str] = (), until: float | None = None) -> list[Found]:
    """Return the places of personal data in a text, in their order; no two overlap. Blocks.

    `until` is when to give up, by the monotonic clock; by default after 10 s. Raises `InvalidValue` for a name of fewer
    than two characters or too many names, and `TimeoutError`.
    """
    until = time.monotonic() + _SECONDS if until is None else until
    places: list[Found] = []
    for kind in (*_KINDS, *_kinds_of(names)):
        places += _places(text, kind, until)
    joined: list[Found] = []
    for place in sorted(places, key=lambda one: (one.start, -one.end)):
        if joined and place.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(place.end, joined[-1].end))
        else:
            joined.append(place)
    return joined


def redact(text: str, names: Iterable[str] = ()) -> tuple[str, dict[str, int]]:
    """Return a text with `[email 1]` and the like for personal data, and how often each kind was there. Blocks.

    Equal data of one kind has equal numbers. Raises as `find` does.
    """
    given, numbers = tuple(names), dict[tuple[str, str], int]()
    counts, different = Counter[str](), Counter[str]()
    until = time.monotonic() + _SECONDS
    while places := find(text, given, until):  # what stood close to personal data may be found only once that is gone
        parts, end = [], 0
        for place in places:
            key = place.kind, text[place.start : place.end].casefold()
            if key not in numbers:
                different[place.kind] += 1
                numbers[key] = different[place.kind]
            counts[place.kind] += 1
            parts += [text[end : place.start], f"[{place.kind} {numbers[key]}]"]
            end = place.end
        text = "".join([*parts, text[end:]])
    return text, dict(counts)


@dataclass(frozen=True, slots=True)
class RedactionVerifier:
    """A `Verifier` of the label `pii.redacted`: it says yes if no personal data is found, with the reason either way.

    `names` are found besides. The value is an artifact or bytes, in UTF-8, text, or JSON data.
    """

    names: tuple[str, ...] = ()

    async def verify(self, value: object, claimed: Label) -> Verification:
        """Return whether a value may have a label, and the reason. The reason has none of the value."""
        if not claimed >= REDACTED:
            return Verification(False, f"redaction brings personal data down to {REDACTED}, and {claimed} is lower")
        try:
            text = _text_of(value)
            name = value.name if isinstance(value, Artifact) else ""
            if found := await run_blocking(_find_however_written, name, self.names):
                return Verification(False, "personal data is in its name")
            found = await run_blocking(_find_however_written, text, self.names)
        except (InvalidValue, TimeoutError) as error:
            return Verification(False, str(error))
        if not found:
            why = "no e-mail address, telephone number, IBAN, card number, IP address or given name is in it"
            return Verification(True, why)
        lines = [f"{place.kind} in line {text.count(chr(10), 0, place.start) + 1}" for place in found[:_REASONS]]
        more = f" and {len(found) - _REASONS} more" if len(found) > _REASONS else ""
        return Verification(False, f"personal data is in it: {', '.join(lines)}{more}")


def redact_message(redactable: Label | str = "pii") -> Capability:
    """Return `chat.transform.redact_message`.

    `redactable` is the highest label that redaction brings down to `pii.redacted`. Data of another label, such as a
    secret, keeps its label.
    """
    lowered = Label(redactable)

    async def handler(call: Invocation) -> dict[str, Any]:
        names = call.input.get("names") or ()
        message, found = await _done(partial(redact, call.input["message"], names), call)
        answer = await RedactionVerifier(tuple(names)).verify(message, REDACTED)
        if not answer.granted:
            raise StepFailed("failed", "run", answer.reason)
        kept = [one for one in call.labels.classes if not Label(one) <= lowered]
        call.lower_output(Label(*kept))
        return {"message": message, "found": found}

    return Capability(
        "chat.transform.redact_message",
        "Replace e-mail addresses, telephone, account and card numbers, IP addresses and given names in a message",
        "[:map [:message :string] [:names {:optional true} [:vector :string]]]",
        "[:map [:message :string] [:found [:map :string :int]]]",
        data=REDACTED,
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
        retry_safe=True,
    )


def verify_redaction() -> Capability:
    """Return `chat.transform.verify_redaction`."""

    async def handler(call: Invocation) -> dict[str, Any]:
        verifier = RedactionVerifier(tuple(call.input.get("names") or ()))
        answer = await verifier.verify(call.input["message"], Label(call.input.get("label", str(REDACTED))))
        return {"verified": answer.granted, "reason": answer.reason}

    return Capability(
        "chat.transform.verify_redaction",
        "Say whether a message may have the label pii.redacted, and why",
        """[:map
          [:message :string]
          [:label {:optional true} :string]
          [:names {:optional true} [:vector :string]]]""",
        "[:map [:verified :bool] [:reason :string]]",
        handler=handler,  # type: ignore[arg-type]  # every call is an `Invocation`
        retry_safe=True,
    )


def _find_however_written(text: str, names: Iterable[str]) -> list[Found]:
    """Return what `find` does, or what it finds in the text without hidden characters and compatibility forms."""
    until, given = time.monotonic() + _SECONDS, tuple(names)
    if found := find(text, given, until):
        return found
    shown, plain, left = regex.sub(f"[{_HIDDEN}]", "", text), "", 2 * MOST_CHARACTERS
    for start in range(0, len(shown), _AT_ONCE):
        plain += (piece := unicodedata.normalize("NFKC", shown[start : start + _AT_ONCE]))
        if (left := left - len(piece)) < 0:  # one character may stand for eighteen
            raise InvalidValue(f"it has more than {2 * MOST_CHARACTERS:,} characters once they are written plainly")
    return [] if plain == text else find(plain, given, until)


async def _done(work: Callable[[], tuple[str, dict[str, int]]], call: Invocation) -> tuple[str, dict[str, int]]:
    try:
        _text_of(call.input["message"])
        return await run_blocking(work)
    except InvalidValue as error:
        raise StepFailed("invalid", "validate_input", str(error)) from None
    except TimeoutError as error:
        raise StepFailed("timeout", "run", str(error)) from None


def _text_of(value: object) -> str:
    """Return a value as text. Raises `InvalidValue`."""
    try:
        value = value.data if isinstance(value, Artifact) else value
        if isinstance(value, bytes):
            text = value.decode()
        else:
            text = value if isinstance(value, str) else "\n".join(_texts(value))
    except (UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(f"it is neither text nor JSON data: {error}") from None
    if len(text) > MOST_CHARACTERS:
        raise InvalidValue(f"it has {len(text):,} characters, and {MOST_CHARACTERS:,} are the most")
    return text


def _texts(value: object) -> Iterator[str]:
    """Yield all keys and values of JSON data as text."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)


def _places(text: str, kind: _Kind, until: float) -> Iterator[Found]:
    """Yield the places of one kind. Raises `TimeoutError`."""
    pattern, start = regex.compile(kind.pattern, regex.VERSION1), 0
    while start < len(text):
        left = until - time.monotonic()
        try:
            found = pattern.search(text, start, timeout=max(left, 0.001))
        except TimeoutError:
            left = 0
        if left <= 0:
            raise TimeoutError(f"the search for personal data took longer than {_SECONDS:g} s")
        if found is None:
            return
        part = kind.part(found.group())
        if part is None:
            start = found.start() + 1
        else:
            yield Found(found.start() + part[0], found.start() + part[1], kind.name)
            start = found.start() + part[1]


def _kinds_of(names: Iterable[str]) -> Iterator[_Kind]:
    """Yield the kind of the given names, if there are any. Raises `InvalidValue`."""
    given = sorted({name.strip() for name in names}, key=len, reverse=True)
    if len(given) > _MOST_NAMES or any(not 2 <= len(name) <= 100 for name in given):
        raise InvalidValue(f"names are at most {_MOST_NAMES}, each of 2 to 100 characters")
    if given:
        yield _Kind("name", f"{_PLACEHOLDER}(*SKIP)(*FAIL)|(?if:{'|'.join(map(_name_pattern, given))})", _whole)


def _name_pattern(name: str) -> str:
    """Return a pattern for a name as whole words, in upper or lower case, composed or decomposed."""
    forms = {unicodedata.normalize(form, name) for form in ("NFC", "NFD")}
    words = "|".join(sorted(r"\s+".join(map(regex.escape, form.split())) for form in forms))
    unspaced = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}]"  # scripts without word spaces
    before, after = ("" if regex.match(unspaced, one) else r"\w" for one in (name[0], name[-1]))
    return (rf"(?<!{before})" if before else "") + f"(?:{words})" + (rf"(?!{after})" if after else "")


def _word_ends(text: str) -> list[int]:
    """Return the ends of the words in a text, the last one first: what follows a number may look like a part of it."""
    return [one.end() for one in regex.finditer(rf"[A-Za-z\d{_HIDDEN}]+", text)][::-1]


def _is_card(text: str) -> bool:
    """Return True for 13 to 19 digits whose last one is right by the algorithm of Luhn (ISO/IEC 7812-1)."""
    digits = [int(one) for one in text if one.isdecimal()]
    if not 13 <= len(digits) <= 19 or not any(digits):
        return False
    doubled = (sum(divmod(2 * one, 10)) for one in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Return True for the letters and digits of an IBAN whose check digits are right (ISO 13616)."""
    plain = "".join(one for one in text if one.isalnum())
    return 15 <= len(plain) <= 34 and int("".join(str(int(one, 36)) for one in plain[4:] + plain[:4])) % 97 == 1
