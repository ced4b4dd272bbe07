"""Governed capabilities: named operations, with budgets, approvals, labels, a journal and metering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.labels import PUBLIC, Label
from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .budgets import Account, Budget, BudgetExceeded
    from .capability import Call, Capability, Handler, Resources, Runtime
    from .schemas import Schema

__all__ = [
    "PUBLIC",
    "Account",
    "Budget",
    "BudgetExceeded",
    "Call",
    "Capability",
    "Handler",
    "Label",
    "Resources",
    "Runtime",
    "Schema",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "budgets": "Account Budget BudgetExceeded",
        "capability": "Call Capability Handler Resources Runtime",
        "schemas": "Schema",
    },
)
