"""The journal: what it keeps, and what `verify` finds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from sqlalchemy import Connection, text

from actbox.capabilities.database import StoreError
from actbox.capabilities.journal import Journal, verify_lines
from actbox.core.errors import InvalidValue


@pytest.fixture
def journal(address: str, tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(address, key=tmp_path / "key.pem")
    yield opened
    opened.close()


async def fill(journal: Journal, entries: int = 5) -> None:
    await asyncio.gather(*(journal.append("call", {"number": number}) for number in range(entries)))


async def damage(journal: Journal, *statements: str) -> None:
    def work(connection: Connection) -> None:
        for statement in statements:
            connection.execute(text(statement))

    await journal._database.write(work)


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
        (["DELETE FROM journal_entries WHERE seq > 3"], "signed at entry 5, but the last entry is 3"),
        (["DELETE FROM journal_entries WHERE seq > 3", "DELETE FROM journal_heads"], "the signed head is missing"),
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
    ],
)
async def test_damage_is_found(journal: Journal, statements: list[str], problem: str) -> None:
    await fill(journal)
    await damage(journal, *statements)
    verified = await journal.verify()
    assert not verified.ok and any(problem in one for one in verified.problems), verified


async def test_a_blob_is_kept_once_and_its_change_is_found(journal: Journal) -> None:
    entries = [await journal.append("run", {"n": number}, blobs={"code": b"print(1)"}) for number in range(2)]
    digest = entries[0].body["code"]
    assert entries[1].body["code"] == digest and await journal.blob(digest) == b"print(1)"
    assert (await journal.verify()).ok
    await damage(journal, f"UPDATE journal_blobs SET digest = '{'0' * 64}'")
    assert (await journal.verify()).problems == ("the blob 000000000000 was changed",)


async def test_secrets_are_in_no_entry_and_no_blob(journal: Journal, tmp_path: Path) -> None:
    journal.hide(['s3cr"et\u00e9'])
    entry = await journal.append("call", {"a": ['x s3cr"et\u00e9 y']}, blobs={"out": 's3cr"et\u00e9'.encode()})
    assert entry.body["a"] == ["x «secret» y"] and await journal.blob(entry.body["out"]) == "«secret»".encode()
    assert (await journal.verify()).ok


async def test_a_trimmed_journal_still_verifies(journal: Journal, tmp_path: Path) -> None:
    await journal.append("old", {}, blobs={"data": b"old"})
    await fill(journal, 2)
    now = time.time() + 1
    assert await journal.trim(before=now, into=tmp_path / "old.jsonl") == 2
    assert [entry.kind async for entry in journal.entries()] == ["call", "trim"]
    verified = await journal.verify()
    assert (verified.ok, verified.signed) == (True, True), verified
    assert verify_lines(tmp_path / "old.jsonl").entries == 2 and verify_lines(tmp_path / "old.jsonl").ok
    assert await journal.trim(before=now) == 1 and (await journal.verify()).ok
    with pytest.raises(StoreError, match="File exists"):
        await journal.export(tmp_path / "old.jsonl")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines[:1] + lines[2:], "after entry 1 comes entry 3"),
        (lambda lines: [*lines[:1], lines[1].replace('"number"', '"other"'), *lines[2:]], "entry 2 was changed"),
        (lambda lines: [*lines, "text"], "line 6 is no entry"),
    ],
)
async def test_a_changed_export_is_found(
    journal: Journal, tmp_path: Path, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    await fill(journal)
    assert await journal.export(tmp_path / "out.jsonl") == 5
    assert verify_lines(tmp_path / "out.jsonl").ok
    lines = change((tmp_path / "out.jsonl").read_text().splitlines())
    (tmp_path / "out.jsonl").write_text("\n".join(lines) + "\n")
    assert problem in verify_lines(tmp_path / "out.jsonl").problems


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
    reader = Journal.open(address, key=tmp_path / "public.pem", read_only=True)
    assert asyncio.run(reader.verify()).signed
    reader.close()
    (tmp_path / "bad.pem").write_text("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n")
    for name in ("bad.pem", "nowhere/key.pem"):
        with pytest.raises(InvalidValue, match=name):
            Journal.open(address, key=tmp_path / name)


@pytest.mark.parametrize("body", [{"a": object()}, {"a": float("nan")}, {"a": {1, 2}}])
async def test_what_is_no_json_is_no_entry(journal: Journal, body: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="JSON data"):
        await journal.append("call", body)
    assert json.dumps([one.to_dict() async for one in journal.entries()]) == "[]"
