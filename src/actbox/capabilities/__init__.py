"""Governed capabilities: named operations, with budgets, approvals, labels, a journal and metering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.labels import PUBLIC, Label
from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .agents import CapabilityTools
    from .approvals import Approvals, Question
    from .budgets import Account, Budget, BudgetExceeded
    from .capability import Call, Capability, Handler, Resources, Runtime
    from .journal import Journal
    from .metering import Metrics, UsageSum, usage_of
    from .outcome import InvocationError, Outcome, StepEvent
    from .prices import Prices, TokenPrice, Tokens
    from .registry import Registry
    from .schemas import Schema
    from .skill_files import Skill
    from .skills import Skills
    from .standard import StandardRegistry, standard_registry
    from .verifying import Verification, Verifier, grant

__all__ = [
    "PUBLIC",
    "Account",
    "Approvals",
    "Budget",
    "BudgetExceeded",
    "Call",
    "Capability",
    "CapabilityTools",
    "Handler",
    "InvocationError",
    "Journal",
    "Label",
    "Metrics",
    "Outcome",
    "Prices",
    "Question",
    "Registry",
    "Resources",
    "Runtime",
    "Schema",
    "Skill",
    "Skills",
    "StandardRegistry",
    "StepEvent",
    "TokenPrice",
    "Tokens",
    "UsageSum",
    "Verification",
    "Verifier",
    "grant",
    "standard_registry",
    "usage_of",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "agents": "CapabilityTools",
        "approvals": "Approvals Question",
        "budgets": "Account Budget BudgetExceeded",
        "capability": "Call Capability Handler Resources Runtime",
        "journal": "Journal",
        "outcome": "InvocationError Outcome StepEvent",
        "registry": "Registry",
        "metering": "Metrics UsageSum usage_of",
        "prices": "Prices TokenPrice Tokens",
        "schemas": "Schema",
        "skill_files": "Skill",
        "skills": "Skills",
        "standard": "StandardRegistry standard_registry",
        "verifying": "Verification Verifier grant",
    },
    extra="capabilities",
)
