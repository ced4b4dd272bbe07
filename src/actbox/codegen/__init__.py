"""Coding agents: a model that writes a program for a task, runs it, and corrects it until it is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .decision import Decision, DecisionTable, Intent, ask_intent, decide
    from .profiles import Profile, ProfileCheck, Profiles

__all__ = ["Decision", "DecisionTable", "Intent", "Profile", "ProfileCheck", "Profiles", "ask_intent", "decide"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "decision": "Decision DecisionTable Intent ask_intent decide",
        "profiles": "Profile ProfileCheck Profiles",
    },
)
