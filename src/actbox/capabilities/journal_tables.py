"""The tables of the journal."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

SCHEMA_VERSION = 1
"""The version of these tables."""

TABLES = MetaData()
ENTRIES = Table(
    "journal_entries",
    TABLES,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("kind", String(100), nullable=False),
    Column("invocation", String(100), nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index("journal_invocations", "invocation"),
)
BLOBS = Table(
    "journal_blobs",
    TABLES,
    Column("digest", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("used", BigInteger, nullable=False),  # the last entry that has it
)
HEADS = Table(
    "journal_heads",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("signature", LargeBinary, nullable=False),
)
KEYS = Table(
    "journal_keys",
    TABLES,
    Column("key", String(64), primary_key=True),
    Column("request", String(64), nullable=False),
    Column("seq", BigInteger, nullable=False),  # the entry that has begun it, then the one that has ended it
    Column("outcome", String(64)),  # a blob
)
ANCHORS = Table(
    "journal_anchors",
    TABLES,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", String(64), nullable=False),
)
