"""Copies of blocked packages within others: modules of Python by their paths, packages of npm by their directories.

A module of several packages, such as `cv2`, may come from each of them; so may the parts of a namespace, such as
`google`.
"""

from __future__ import annotations

from collections.abc import Iterable

from actbox.core.packages import PackageRules, normalized_name

from .artifacts import Artifact
from .asking import NotAllowed
from .import_names import is_namespace, modules_of
from .languages import JAVASCRIPT
from .wheels import SITE

_CODE = (".py", ".pyc", ".so", ".pyd")
_NESTED = "/node_modules/"


def refuse_copies(artifacts: Iterable[Artifact], rules: PackageRules, language: str) -> None:
    """Raise `NotAllowed` for the first artifact with a copy of a package that the rules block. Blocks."""
    if not rules.blocked:
        return
    for artifact in artifacts:
        nested = _nested(artifact) if language == JAVASCRIPT else frozenset()
        for rule in rules.blocked:
            if language == JAVASCRIPT:
                found = rule.name if rule.name in nested else ""
            else:
                found = next((module for module in modules_of(rule.name) if _has_copy(artifact, module)), "")
            if found:
                raise NotAllowed(
                    "PackageBlocked",
                    f"{artifact.name}=={artifact.version} is blocked by the policy: it brings {found}, a copy of"
                    f" {rule.name}, which is blocked" + (f": {rule.reason}" if rule.reason else ""),
                    "do without it; another version of it may have no such copy",
                )


def _has_copy(artifact: Artifact, module: str) -> bool:
    """Return whether a wheel has a module that is not its own."""
    if module in modules_of(artifact.name):
        return False
    path = f"{SITE}/{module.replace('.', '/')}"
    below = [name for name in artifact.files if name.startswith((f"{path}/", f"{path}.")) and name.endswith(_CODE)]
    if any(name.startswith((f"{path}.", f"{path}/__init__.")) for name in below):
        return True
    is_shared = is_namespace(module) or artifact.name.startswith(f"{normalized_name(module)}-")
    return bool(below) and not is_shared


def _nested(artifact: Artifact) -> frozenset[str]:
    """Return the names of the packages in directories `node_modules` of a package of npm."""
    found = set()
    for path in artifact.files:
        for below in path.split(_NESTED)[1:]:
            parts = below.split("/")
            name = "/".join(parts[:2]) if parts[0].startswith("@") else parts[0]
            found |= {name, name.rpartition(".")[0]}  # a file is a package too
    return frozenset(found)
