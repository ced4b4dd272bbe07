"""Granting a lower label: a program claims that a file has one, and a `Verifier` or a person says yes or no.

A claim by itself changes nothing: the file keeps the label of its run until it is granted here, on the host. Whoever
grants it looks at the very bytes that get the lower label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from actbox.core.labels import Label
from actbox.core.result import Artifact


@dataclass(frozen=True, slots=True)
class Verification:
    """An answer to a claim: whether it is granted, why, and by whom (a person, or the verifier's name)."""

    granted: bool
    reason: str = ""
    by: str = ""


@runtime_checkable
class Verifier(Protocol):
    """A judge of claimed labels: a scanner, a model on this machine, a person's page.

    It reads the value with its present label, so it must be cleared for that label itself.
    """

    async def verify(self, value: Any, claimed: Label) -> Verification:
        """Return whether a value is no more than its claimed label says, with the reason.

        `value` is an `Artifact` for a file. An exception, and any answer that is no `Verification`, is a no.
        """
        ...


async def verify(verifier: Verifier, value: Any, claimed: Label) -> Verification:
    """Return a verifier's answer. One that fails or answers anything else has not granted the claim."""
    name = type(verifier).__name__
    try:
        answer: object = await verifier.verify(value, claimed)
    except Exception as error:
        return Verification(False, f"the verifier failed ({type(error).__name__})", name)
    if not isinstance(answer, Verification) or not isinstance(answer.granted, bool):
        return Verification(False, f"the verifier failed (it answered with {type(answer).__name__})", name)
    return answer if answer.by else replace(answer, by=name)


async def grant(artifact: Artifact, by: Verifier | str, reason: str = "") -> tuple[Artifact, Verification]:
    """Return a file with the label that its program claims, if that is granted, and the answer.

    `by` is the verifier that is asked, or the name of the person who grants it, with a reason. A file that is not
    granted, or about which its program claims nothing, is returned as it is.
    """
    if artifact.claimed is None:
        return artifact, Verification(False, f"the program claims nothing about {artifact.name}")
    if artifact.label <= artifact.claimed:
        return artifact, Verification(True, f"{artifact.name} has no higher label than it claims")
    if isinstance(by, str):
        answer = Verification(bool(by), reason if by else "nobody has granted it", by)
    else:
        answer = await verify(by, artifact, artifact.claimed)
    if not answer.granted:
        return artifact, answer
    return replace(artifact, label=artifact.claimed, claimed=None), answer
