"""Governed capabilities: named operations, with budgets, approvals, labels, a journal and metering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actbox.core.errors import Unsupported
from actbox.core.labels import PUBLIC, Label
from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .approvals import Approvals, Question
    from .budgets import Account, Budget, BudgetExceeded
    from .capability import Call, Capability, Handler, Resources, Runtime
    from .journal import Journal
    from .schemas import Schema
    from .verifying import Verification, Verifier, grant

__all__ = [
    "PUBLIC",
    "Account",
    "Approvals",
    "Budget",
    "BudgetExceeded",
    "Call",
    "Capability",
    "Handler",
    "Journal",
    "Label",
    "Question",
    "Resources",
    "Runtime",
    "Schema",
    "Verification",
    "Verifier",
    "grant",
]

_attribute = lazy_attributes(
    __name__,
    {
        "approvals": "Approvals Question",
        "budgets": "Account Budget BudgetExceeded",
        "capability": "Call Capability Handler Resources Runtime",
        "journal": "Journal",
        "schemas": "Schema",
        "verifying": "Verification Verifier grant",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _attribute(name)
    except ModuleNotFoundError as error:
        raise Unsupported(f"{name} needs {error.name}: pip install 'actbox[capabilities]'") from None
