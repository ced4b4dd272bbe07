"""The table of approvals."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table, Text

SCHEMA_VERSION = 1
"""The version of this table."""

TABLES = MetaData()
REQUESTS = Table(
    "approval_requests",
    TABLES,
    Column("id", String(40), primary_key=True),
    Column("state", String(20), nullable=False),
    Column("capability", Text, nullable=False),
    Column("version", String(60), nullable=False),
    Column("arguments_hash", String(64), nullable=False),
    Column("labels", Text, nullable=False),
    Column("caller", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("shown", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("scope", String(20), nullable=False, default=""),
    Column("pattern", Text, nullable=False, default=""),
    Column("decided", BigInteger),
    Column("decided_by", Text, nullable=False, default=""),
    Column("decided_from", Text, nullable=False, default=""),
    Column("reason", Text, nullable=False, default=""),
    Column("trouble", Text, nullable=False, default=""),
    Index("approval_grants", "capability", "state"),
)
