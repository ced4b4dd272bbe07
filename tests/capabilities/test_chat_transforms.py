"""Personal data is found in a message and taken out of it; no other text is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.capabilities import Label
from actbox.capabilities.chat_transforms import RedactionVerifier, find, redact, redact_message, verify_redaction
from actbox.capabilities.registry import Registry
from actbox.capabilities.verifying import verify
from actbox.core.errors import InvalidValue
from actbox.core.result import Artifact

FOUND = {
    "email": [
        "ann@example.com",
        "Ann.Lee+news@mail.example.co.uk",
        "o'brien@example.com",
        "jürgen@bücher.example",
        "ann\u200b@exam\u200bple.com",
        "ann＠example.com",
        "ann%40example.com",
        '"ann lee"@example.com',
        "ann﹫example。com",
        "a\0n\0n\0@\0e\0x\0.\0c\0o\0m",
    ],
    "iban": ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "gb29-nwbk-6016-1331-9268-19"],
    "card": [
        "4111111111111111",
        "4111 1111 1111 1111",
        "3782-822463-10005",
        "4\u200b111\u200b111111111\u200b111",
        "4\ufe0f111\x00111111111\u034f111",
        "٤١١١ ١١١١ ١١١١ ١١١١",
    ],
    "ip": ["192.0.2.17", "2001:db8::8a2e:370:7334", "::ffff:192.0.2.1", "fe80::1"],
    "phone": [
        "+49 171 1234567",
        "+1 (202) 555-0143",
        "0049171 1234567",
        "0171/1234567",
        "030 123 456 78",
        "01 23 45 67 89",
        "06.12.34.56.78",
        "(212) 555-0123",
        "212-555-0123",
        "+49\u00a0171\u200b1234567",
    ],
}
LEFT = [
    "The meeting on 01.02.2026 at 10:30:45, room 0815, takes 3.14159265358979 hours.",
    "2026-11-29T05:51:35 took 1234567 ms; version 1.2.3 and build 20261129.",
    "std::vector<int> a::b; price 1,234,567.89 € and 4111 1111 1111 1112 of 9999.",
    "DE88370400440532013000 has wrong check digits, as has @someone, and me@localhost.",
    "An annex by Annika, 999.1.1.1, 10.0.0.0.1.",
    'He said "hello"@work, and wrote 谢谢。谢谢@谢谢。',
]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in FOUND.items() for text in texts])
def test_personal_data_is_found_whole_wherever_it_stands(kind: str, text: str) -> None:
    for before, after in (("", ""), ("write to ", " by Friday at 9"), ("(", ")."), ('{"to": "', '"}'), ("1. ", ",\n2")):
        whole = before + text + after
        assert redact(whole) == (f"{before}[{kind} 1]{after}", {kind: 1}), whole


@pytest.mark.parametrize("text", LEFT)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert redact(text) == (text, {})


def test_given_names_are_found_as_words_in_any_case_and_composition() -> None:
    names = ["Ann", "Ann Lee", "Zoë", "山田"]
    text, found = redact("ANN  LEE met Ann's annex, Zoe\u0308 and 山田さん.", names)
    assert text == "[name 1] met [name 2]'s annex, [name 3] and [name 4]さん." and found == {"name": 4}
    assert find("a.c (x", ["a.c", "(x"]) and not find("abc", ["a.c"])
    assert redact("an email of Name", ["Name", "email", "12"]) == ("an [name 1] of [name 2]", {"name": 2})
    for wrong in (["A"], [" "], ["x" * 101], [str(number) for number in range(10, 1100)]):
        with pytest.raises(InvalidValue, match="names are at most"):
            redact("text", wrong)


def test_equal_data_has_equal_numbers() -> None:
    text, found = redact("a@b.example, c@d.example, A@B.example")
    assert text == "[email 1], [email 2], [email 1]" and found == {"email": 3}


_PART = st.sampled_from([*(text for texts in FOUND.values() for text in texts), *LEFT, " ", "\n", "-", "1", "a", "@"])


@pytest.mark.slow
@given(st.lists(_PART, max_size=8).map("".join))
def test_nothing_is_found_in_what_was_redacted(text: str) -> None:
    assert find(redact(text)[0]) == []


async def redacted(text: str, labels: str, **more: Any) -> Any:
    done = await Registry([redact_message(**more)]).invoke(
        "ccos.chat.transform.redact_message", {"message": text}, labels={"message": labels}
    )
    assert done.ok, done.error
    return done


async def test_a_redacted_message_has_the_label_of_redacted_data() -> None:
    done = await redacted("write to ann@example.com", "pii.email")
    assert done.output == {"message": "write to [email 1]", "found": {"email": 1}}
    for given_label, label in {
        "pii.email": "pii.redacted",
        "pii": "pii.redacted",
        "public": "pii.redacted",
        "pii.email+internal": "internal+pii.redacted",
        "secret.key": "secret.key",
    }.items():
        assert (await redacted("hello", given_label)).labels == Label(label)
    for given_label, label in {"pii.email": "pii.redacted", "pii.health": "pii.health", "pii": "pii"}.items():
        assert (await redacted("hello", given_label, redactable="pii.email+pii.phone")).labels == Label(label)


async def test_a_refused_redaction_keeps_the_label() -> None:
    call = {"message": "hello", "names": ["A"]}
    done = await Registry([redact_message()]).invoke("chat.transform.redact_message", call, labels="pii.email")
    assert done.error is not None and done.error.kind == "invalid" and Label("pii.email") <= done.labels


async def test_a_verifier_says_yes_or_no_with_the_reason() -> None:
    verifier = RedactionVerifier(("Ann",))
    clean, dirty = "write to [email 1]", "hello\nann lee, +49 171 1234567"
    for value, claimed, answer, reason in (
        (clean, "pii.redacted", True, "no e-mail address"),
        (Artifact("a.txt", clean.encode()), "pii.redacted", True, "no e-mail address"),
        (Artifact("ann@example.com.txt", b""), "pii.redacted", False, "personal data is in its name"),
        (clean.encode(), "pii.redacted+internal", True, "no e-mail address"),
        ({"to": [clean, 1]}, "pii.redacted", True, "no e-mail address"),
        (dirty, "pii.redacted", False, "name in line 2, phone in line 2"),
        ({"to": ["hello\tthere\nann"]}, "pii.redacted", False, "name in line 3"),
        ({"ann@example.com": 1}, "pii.redacted", False, "email in line 1"),
        (clean, "public", False, "and public is lower"),
        (clean, "internal", False, "and internal is lower"),
        (b"\x89PNG\xff", "pii.redacted", False, "neither text nor JSON"),
        ("ann@example.com".encode("utf-16-le"), "pii.redacted", False, "email in line 1"),
        ("+49 171 1234567".encode("utf-32-be"), "pii.redacted", False, "phone in line 1"),
        ("at 192.0.\u200b2.17", "pii.redacted", False, "ip in line 1"),
        ("④111111111111111", "pii.redacted", False, "card in line 1"),
        ("A\u200bn\u00adn", "pii.redacted", False, "name in line 1"),
        ("x" * 1_000_001, "pii.redacted", False, "1,000,000 are the most"),
        ("\ufdfa" * 200_000, "pii.redacted", False, "2,000,000 characters"),
    ):
        told = await verify(verifier, value, Label(claimed))
        assert told.granted is answer and reason in told.reason, (value, told)
        assert "1234567" not in told.reason and told.by == "RedactionVerifier"


async def test_the_verification_is_a_capability_too() -> None:
    registry = Registry([verify_redaction()])
    done = await registry.invoke(
        "ccos.chat.transform.verify_redaction", {"message": "to ann@example.com"}, labels="pii"
    )
    assert done.output == {"verified": False, "reason": "personal data is in it: email in line 1"}
    assert done.labels == Label("pii")
    done = await registry.invoke("chat.transform.verify_redaction", {"message": "to Ann", "names": ["Bob"]})
    assert done.output["verified"] is True
