"""The journal: what it keeps, and what `verify` finds."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from sqlalchemy import text

from actbox.capabilities import Capability
from actbox.capabilities.database import StoreError
from actbox.capabilities.journal import Journal, Remembered, verify_lines
from actbox.capabilities.standard import standard_registry
from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue
from actbox.core.policy import Policy
from actbox.core.secrets import Secret


@pytest.fixture
def journal(address: str, tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(address, key=tmp_path / "key.pem")
    yield opened
    opened.close()


async def fill(journal: Journal, entries: int = 5) -> None:
    await asyncio.gather(*(journal.append("call", {"number": number}) for number in range(entries)))


def damage(journal: Journal, *statements: str) -> None:
    """Change the database as somebody who does not write by the journal."""
    with journal._database._engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


async def test_entries_are_chained_in_the_order_of_their_numbers(journal: Journal) -> None:
    await fill(journal)
    found = [entry async for entry in journal.entries()]
    assert [entry.seq for entry in found] == [1, 2, 3, 4, 5]
    assert [entry.previous for entry in found[1:]] == [entry.hash for entry in found[:-1]]
    assert sorted(entry.body["number"] for entry in found) == list(range(5))
    verified = await journal.verify()
    assert (verified.ok, verified.entries, verified.signed) == (True, 5, True)


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["UPDATE journal_entries SET body = '{}' WHERE seq = 3"], "entry 3 was changed"),
        (["UPDATE journal_entries SET time = time + 1 WHERE seq = 3"], "entry 3 was changed"),
        (["DELETE FROM journal_entries WHERE seq = 3"], "after entry 2 comes entry 4"),
        (
            [f"UPDATE journal_entries SET seq = {a} WHERE seq = {b}" for a, b in ((9, 2), (2, 3), (3, 9))],
            "entry 2 does not follow from the one before it",
        ),
        (["DELETE FROM journal_entries WHERE seq > 3"], "signed at entry 7, but the last entry is 3"),
        (["DELETE FROM journal_entries WHERE seq > 3", "DELETE FROM journal_heads"], "the signed head is missing"),
        (["DELETE FROM journal_entries", "DELETE FROM journal_heads"], "the signed head is missing"),
        (["UPDATE journal_heads SET signature = 'x'"], "the head is not signed by this key"),
        (
            ["DELETE FROM journal_entries WHERE seq > 3", "UPDATE journal_heads SET seq = 3"],
            "the head is not signed by this key",
        ),
        (
            [
                "INSERT INTO journal_anchors (seq, hash) SELECT seq, hash FROM journal_entries WHERE seq = 2",
                "DELETE FROM journal_entries WHERE seq <= 2",
            ],
            "the entries up to 2 are gone, and no entry says that they were removed",
        ),
        ([f"UPDATE journal_heads SET hash = '{'0' * 64}'"], "the head is not signed by this key"),
        (["UPDATE journal_blobs SET data = 'other'"], "the blob 525d51331341 was changed"),
        (["DELETE FROM journal_blobs"], "entry 6 has the blob 525d51331341, which is gone"),
        (["UPDATE journal_keys SET outcome = request"], "the idempotency key kkkkkkkkkkkk was changed"),
        (["UPDATE journal_keys SET outcome = NULL"], "the idempotency key kkkkkkkkkkkk was forgotten"),
        (["DELETE FROM journal_keys"], "the idempotency key kkkkkkkkkkkk was forgotten"),
    ],
)
async def test_damage_is_found(journal: Journal, statements: list[str], problem: str) -> None:
    await fill(journal)
    key = f"{'k' * 64}:{'r' * 64}"
    await journal.append("begun", {}, opens=key, blobs={"code": b"print()"})
    await journal.append("ended", {}, closes=key, outcome={"output": 3})
    assert (await journal.verify()).ok
    damage(journal, *statements)
    verified = await journal.verify()
    assert not verified.ok and any(problem in one for one in verified.problems), verified


async def test_a_blob_is_kept_once_and_its_change_is_found(journal: Journal) -> None:
    entries = [await journal.append("run", {"n": number}, blobs={"code": b"print(1)"}) for number in range(2)]
    digest = entries[0].body["code"]
    assert entries[1].body["code"] == digest and await journal.blob(digest) == b"print(1)"
    assert (await journal.verify()).ok
    damage(journal, f"UPDATE journal_blobs SET digest = '{'0' * 64}'")
    assert "the blob 000000000000 was changed" in (await journal.verify()).problems


VALUE = 's3cr"et\u00e9/12345'


async def test_secrets_are_in_no_entry_no_blob_and_no_outcome(journal: Journal) -> None:
    pin = Secret("pin", "12345678", as_file=True)
    journal.hide([Secret("api", VALUE, ["api.example.com"]), pin])
    coded = base64.b64encode(b"x" + VALUE.encode())
    body = {"a": [f"x {VALUE} y"], VALUE: coded.decode(), "n": 12345678, "path": r"C:\new", "ok": True}
    outcome = {"output": f"it is {VALUE}"}
    await journal.append("begun", {}, opens="k:r")
    given = {"in": coded + VALUE.encode(), "large": f"{VALUE} ".encode() * 20_000}
    entry = await journal.append("ended", body, blobs=given, closes="k:r", outcome=outcome)
    assert entry.body["a"] == ["x [secret api] y"] and entry.body["n"] == "[secret pin]"
    assert entry.body["path"] == r"C:\new" and entry.body["ok"] is True
    assert (await journal.remembered("k:r")).outcome == {"output": "it is [secret api]"}
    blobs = [await journal.blob(digest) for digest in entry.blobs.values()]
    kept = json.dumps(entry.to_dict()).encode() + b"".join(blob or b"" for blob in blobs)
    assert not [
        one for one in (VALUE.encode(), json.dumps(VALUE)[1:-1].encode(), coded[4:-4], b"1234567") if one in kept
    ]
    assert (await journal.verify()).ok


async def test_a_trimmed_journal_still_verifies(journal: Journal, tmp_path: Path) -> None:
    await journal.append("old", {}, blobs={"data": b"old"})
    await fill(journal, 2)
    now = time.time() + 1
    assert await journal.trim(before=now, into=tmp_path / "old.jsonl") == 2
    assert verify_lines(tmp_path / "old.jsonl", key=tmp_path / "key.pem").signed
    assert base64.b64encode(b"old").decode() in (tmp_path / "old.jsonl").read_text()
    assert [entry.kind async for entry in journal.entries()] == ["call", "trim"]
    verified = await journal.verify()
    assert (verified.ok, verified.signed) == (True, True), verified
    assert verify_lines(tmp_path / "old.jsonl").entries == 2 and verify_lines(tmp_path / "old.jsonl").ok
    assert await journal.trim(before=now) == 1 and (await journal.verify()).ok
    with pytest.raises(StoreError, match="File exists"):
        await journal.export(tmp_path / "old.jsonl")
    with pytest.raises(InvalidValue, match="a number of seconds"):
        await journal.trim(before=float("nan"))


async def test_an_archive_does_not_pass_for_the_journal(journal: Journal, tmp_path: Path) -> None:
    await fill(journal)
    await journal.trim(before=time.time() + 1, into=tmp_path / "old.jsonl")
    *_, last, seal = map(json.loads, (tmp_path / "old.jsonl").read_text().splitlines())
    said = seal["archive"]
    values = f"seq = {said['seq']}, hash = '{said['hash']}', signature = :signature"
    with journal._database._engine.begin() as connection:
        connection.execute(
            text(f"UPDATE journal_heads SET {values}"), {"signature": base64.b64decode(said["signature"])}
        )
    assert last["hash"] == said["hash"]
    assert "the head is not signed by this key" in (await journal.verify()).problems


async def test_a_clock_that_jumps_changes_no_order_and_trims_nothing_newer(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in (1_000, 5_000, 2_000, 6_000, -7):
        monkeypatch.setattr("actbox.capabilities.journal.time.time_ns", lambda at=second: at * 10**9)
        await journal.append("call", {"at": second})
    assert [entry.body["at"] async for entry in journal.entries()] == [1_000, 5_000, 2_000, 6_000, -7]
    assert [entry.seq async for entry in journal.entries(since=5_000)] == [2, 4]
    assert await journal.trim(before=3_000) == 1
    assert [entry.seq async for entry in journal.entries()] == [2, 3, 4, 5, 6]
    assert (await journal.verify()).ok


async def test_a_key_is_remembered_as_long_as_its_entries(journal: Journal) -> None:
    await journal.append("begun", {}, opens="open:r")
    await journal.append("begun", {}, opens="k:r")
    await journal.append("ended", {}, closes="k:r", outcome={"output": 1})
    assert await journal.remembered("k:r") == Remembered(outcome={"output": 1}, seq=3)
    assert (await journal.remembered("k:other")).is_other
    await journal.append("call", {})
    assert await journal.trim(before=time.time() + 1) == 3 and (await journal.verify()).ok
    assert await journal.remembered("k:r") == Remembered()
    assert await journal.remembered("open:r") == Remembered(is_open=True)


async def test_an_entry_that_cannot_be_read_back_leaves_no_gap(journal: Journal) -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    bodies = [{"number": 1}, {"deep": deep}, {"number": 2}]
    done = await asyncio.gather(*(journal.append("call", body) for body in bodies), return_exceptions=True)
    assert isinstance(done[1], InvalidValue) and (await journal.verify()).entries == 2
    assert (await journal.verify()).ok


async def test_an_outcome_that_was_changed_is_not_repeated(journal: Journal) -> None:
    await journal.append("begun", {}, opens="k:r")
    await journal.append("ended", {}, closes="k:r", outcome={"output": 1})
    damage(journal, "UPDATE journal_blobs SET data = '{}'")
    with pytest.raises(StoreError, match="was changed"):
        await journal.remembered("k:r")


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM journal_entries WHERE seq = 5"],
        ["DELETE FROM journal_entries WHERE seq = 5", "DELETE FROM journal_heads"],
        ["DELETE FROM journal_entries"],
        ["UPDATE journal_entries SET hash = previous WHERE seq = 5"],
    ],
)
async def test_no_entry_follows_a_tail_that_was_changed(
    journal: Journal, statements: list[str], address: str, tmp_path: Path
) -> None:
    await fill(journal)
    damage(journal, *statements)
    with pytest.raises(StoreError, match=r"tail was changed|no signed head"):
        await journal.append("call", {})
    with pytest.raises(StoreError, match=r"tail was changed|no signed head"):
        Journal.open(address, key=tmp_path / "key.pem")
    assert not (await journal.verify()).ok


async def test_an_old_state_with_its_head_is_found_by_an_open_journal_and_by_whoever_has_kept_a_later_head(
    journal: Journal, address: str, tmp_path: Path
) -> None:
    await fill(journal, 3)
    with journal._database._engine.begin() as connection:
        seq, digest, signature = connection.execute(text("SELECT seq, hash, signature FROM journal_heads")).one()
    await fill(journal, 2)
    head = (await journal.verify()).head
    damage(journal, "DELETE FROM journal_entries WHERE seq > 3")
    with journal._database._engine.begin() as connection:
        change = text("UPDATE journal_heads SET seq = :seq, hash = :hash, signature = :signature")
        connection.execute(change, {"seq": seq, "hash": digest, "signature": signature})
    assert (await journal.verify()).signed
    assert (await journal.verify(expect=head)).problems == ("entry 5 is expected, but the last entry is 3",)
    with pytest.raises(StoreError, match="it had entry 5, and now ends with entry 3"):
        await journal.append("call", {})
    later = Journal.open(address, key=tmp_path / "key.pem")
    await fill(later, 4)
    found = await later.verify(expect=head)
    assert found.problems == ("entry 5 is another one than the one that is expected",)
    later.close()


async def test_an_expected_entry_may_be_any_that_is_still_there(journal: Journal) -> None:
    await fill(journal, 3)
    found = [entry async for entry in journal.entries()]
    for entry in found:
        assert (await journal.verify(expect=entry.head[:20])).ok
    await journal.trim(before=time.time() + 1)
    assert (await journal.verify(expect=found[1].head)).ok  # the anchor
    assert "not there any more" in (await journal.verify(expect=found[0].head)).problems[0]
    for expect in ("5", "0:" + "0" * 64, "x:y", "1:short", 5):
        with pytest.raises(InvalidValue, match="NUMBER:HASH"):
            await journal.verify(expect=expect)  # type: ignore[arg-type]


async def test_the_head_of_another_journal_is_found(journal: Journal, tmp_path: Path) -> None:
    await fill(journal)
    other = Journal.open(f"sqlite:///{tmp_path}/other.db", key=tmp_path / "key.pem")
    await fill(other)
    with other._database._engine.begin() as connection:
        row = connection.execute(text("SELECT hash, signature FROM journal_heads")).one()
    other.close()
    with journal._database._engine.begin() as connection:
        change = text("UPDATE journal_heads SET hash = :hash, signature = :signature")
        connection.execute(change, {"hash": row.hash, "signature": row.signature})
    problem = "the head was signed for another entry 5, of another journal or of another history"
    assert (await journal.verify()).problems == (problem,)


def test_a_journal_has_one_key_from_its_beginning(tmp_path: Path) -> None:
    for name, first, then in (("signed", "key.pem", None), ("other", "key.pem", "new.pem"), ("plain", None, "key.pem")):
        address = f"sqlite:///{tmp_path}/{name}.db"
        paths = [tmp_path / key if key else None for key in (first, then)]
        opened = Journal.open(address, key=paths[0])
        opened.append_now("call", {})
        opened.close()
        if then is None:
            unsigned = Journal.open(address, key=None, read_only=True)
            assert not asyncio.run(unsigned.verify()).signed
            unsigned.close()
        with pytest.raises(StoreError, match=r"only with its key|not signed by this key|no signed head"):
            Journal.open(address, key=paths[1])


async def test_entries_are_found_by_what_they_are_about(journal: Journal) -> None:
    for number in range(3):
        body = {"capability": f"kit.{number}", "caller": "ann" if number else "bob"}
        await journal.append("begun", body, invocation=f"i{number}")

    async def found(**filters: Any) -> list[int]:
        return [entry.seq async for entry in journal.entries(**filters)]

    assert await found(capability="kit.1") == await found(capability="ccos.kit.1") == [2] and await found(
        caller="ann", after=2
    ) == [3]
    assert await found(invocation="i0", kind="begun") == [1] and await found(kind="ended") == []
    assert await found(since=time.time() + 9) == [] and await journal.last() == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines[:1] + lines[2:], "after entry 1 comes entry 3"),
        (lambda lines: [*lines[:1], lines[1].replace('"number"', '"other"'), *lines[2:]], "entry 2 was changed"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "after entry 1 comes entry 3"),
        (lambda lines: [*lines[:4], *lines[5:]], "the head was signed at entry 5, but the last entry is 4"),
        (lambda lines: lines[:4], "no signature vouches for the last entry"),
        (lambda lines: [*lines, lines[0]], "after entry 5 comes entry 1"),
        (
            lambda lines: [*lines[:5], lines[5].replace('"data": "cHJ', '"data": "cHI'), *lines[6:]],
            "the blob 525d51331341 was changed",
        ),
        (lambda lines: [*lines[:5], "text", *lines[5:]], "line 6 is no entry"),
        (lambda lines: [*lines, '{"head": {"seq": 5, "hash": 3}}'], "line 8 is no entry"),
        (lambda lines: [lines[0].replace('"seq": 1', '"seq": "1"'), *lines[1:]], "line 1 is no entry"),
        (lambda lines: ["[" * 99_999, *lines], "line 1 is no entry"),
        (lambda lines: ["\udcff", "3", "null", *lines], "line 3 is no entry"),
    ],
)
async def test_a_changed_export_is_found(
    journal: Journal, tmp_path: Path, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    await fill(journal, 4)
    await journal.append("run", {}, blobs={"code": b"print()"})
    file, key = tmp_path / "out.jsonl", tmp_path / "key.pem"
    assert await journal.export(file, blobs=True) == 5
    found = verify_lines(file, key=key, expect=(await journal.verify()).head)
    assert (found.ok, found.signed, found.entries, found.first) == (True, True, 5, 1), found
    lines = change(file.read_text().splitlines())
    file.write_text("\n".join(lines) + "\n", errors="surrogateescape")
    assert problem in verify_lines(file, key=key).problems


async def test_an_export_is_verified_with_the_key_that_has_signed_it(journal: Journal, tmp_path: Path) -> None:
    await fill(journal)
    await journal.export(tmp_path / "out.jsonl", after=3)
    found = verify_lines(tmp_path / "out.jsonl")
    assert (found.ok, found.signed, found.first, found.entries) == (True, False, 4, 2)
    Journal.open(f"sqlite:///{tmp_path}/other.db", key=tmp_path / "other.pem").close()
    wrong = verify_lines(tmp_path / "out.jsonl", key=tmp_path / "other.pem")
    assert wrong.problems == ("the head is not signed by this key",)
    for paths, key in (("none.jsonl", None), ("out.jsonl", "none.pem")):
        with pytest.raises(InvalidValue, match="none"):
            verify_lines(tmp_path / paths, key=tmp_path / key if key else None)


async def test_archives_continue_each_other_and_the_journal(journal: Journal, tmp_path: Path) -> None:
    files = []
    for number in range(2):
        await fill(journal, 3)
        files.append(tmp_path / f"{number}.jsonl")
        await journal.trim(before=time.time() + 1, into=files[-1])
    both = verify_lines(*files, key=tmp_path / "key.pem")
    assert (both.ok, both.signed, both.entries) == (True, True, 6) and (await journal.verify(expect=both.head)).ok
    assert "after entry 6 comes entry 1" in verify_lines(*reversed(files)).problems


async def test_two_processes_share_one_chain(address: str) -> None:
    both = [Journal.open(address) for _ in range(2)]
    await asyncio.gather(*(both[number % 2].append("call", {"n": number}) for number in range(40)))
    verified = await both[1].verify()
    assert (verified.ok, verified.entries, verified.signed) == (True, 40, False)
    for one in both:
        one.close()


def test_a_public_key_verifies_and_other_keys_are_refused(tmp_path: Path) -> None:
    address, private = f"sqlite:///{tmp_path}/store.db", tmp_path / "key.pem"
    first = Journal.open(address, key=private)
    first.append_now("call", {})
    first.close()
    key = load_pem_private_key(private.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey) and private.stat().st_mode & 0o777 == 0o600
    (tmp_path / "public.pem").write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(InvalidValue, match="only verifies"):
        Journal.open(address, key=tmp_path / "public.pem")
    reader = Journal.open(address, key=tmp_path / "public.pem", read_only=True)
    assert asyncio.run(reader.verify()).signed
    reader.close()
    (tmp_path / "bad.pem").write_text("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n")
    for name in ("bad.pem", "nowhere/key.pem"):
        with pytest.raises(InvalidValue, match=name):
            Journal.open(address, key=tmp_path / name)


@pytest.mark.parametrize("body", [{"a": object()}, {"a": float("nan")}, {"a": {1, 2}}, {"blobs": []}])
async def test_what_is_no_json_is_no_entry(journal: Journal, body: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=r"JSON data|the journal's own"):
        await journal.append("call", body)
    assert json.dumps([one.to_dict() async for one in journal.entries()]) == "[]"


def shout(text: str) -> str:
    """Return a text louder."""
    return f"{text}!"


async def test_the_secrets_of_a_registry_are_not_in_its_journal(journal: Journal) -> None:
    policy = Policy(domains=(AllowedDomain("api.example.com"),), secrets=(Secret("api", VALUE, ["api.example.com"]),))
    async with standard_registry(policy=policy, journal=journal) as registry:
        registry.register(Capability.from_function(shout, id="kit.shout"))
        done = await registry.invoke("kit.shout", {"text": VALUE}, caller=VALUE)
    assert done.output == f"{VALUE}!", done.error
    for entry in [entry async for entry in journal.entries()]:
        assert entry.body["caller"] == "[secret api]"
        for digest in entry.blobs.values():
            assert b"[secret api]" in (await journal.blob(digest) or b"")
