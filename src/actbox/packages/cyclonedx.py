"""A software bill of materials in the form of CycloneDX 1.6 for what a program had.

https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from actbox.core.packages import Distribution

_TYPES = {"python": "pypi", "javascript": "npm"}


def cyclonedx(distributions: Iterable[Distribution], *, language: str = "python") -> dict[str, Any]:
    """Return the bill of materials of distributions as JSON data.

    Each component has its package URL, and its SHA-256 if that is known. `language` is `python` or `javascript`.
    """
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "components": [
            _component(one, _TYPES[language]) for one in sorted(distributions, key=lambda one: (one.name, one.version))
        ],
    }


def _component(one: Distribution, kind: str) -> dict[str, Any]:
    address = f"pkg:{kind}/{quote(one.name, safe='/')}@{quote(one.version)}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": address,
        "name": one.name,
        "version": one.version,
        "purl": address,
    }
    if one.sha256:
        component["hashes"] = [{"alg": "SHA-256", "content": one.sha256}]
    return component
