"""Refuses to import modules of blocked packages from anywhere but where the host puts packages."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Dict, Optional, Sequence


class PackageBlocked(ModuleNotFoundError):
    """Raised where a program imports a copy of a blocked package, such as a wheel on its path."""

    blocked_by_policy = True


def refuse_blocked(message: Dict[str, Any]) -> None:
    """Refuse the modules of packages that the policy blocks, unless they lie where the host puts packages.

    `message["blocked"]` has the `modules` with the package of each, the host's `folders` of packages, and `has_own`,
    true for an interpreter of an image or another machine, whose own packages the host has judged by their names.
    """
    blocked = message.get("blocked")
    if blocked is None:
        return
    folders = list(blocked["folders"])
    if blocked["has_own"]:
        import site

        folders += site.getsitepackages()
        if site.ENABLE_USER_SITE and site.USER_SITE:
            folders.append(site.USER_SITE)
    sys.meta_path.insert(0, _Blocked(blocked["modules"], folders))


class _Blocked:
    """An import hook that lets the ordinary finders find a listed module, and refuses what the program has brought."""

    def __init__(self, modules: Dict[str, str], folders: Sequence[str]) -> None:
        self._modules = modules
        self._folders = tuple(folder + "/" for folder in folders)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname not in self._modules:
            return None
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is None:
                continue
            places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
            if places and all(place.startswith(self._folders) for place in places):
                return spec
            package = self._modules[fullname]
            raise PackageBlocked("%s is blocked by the policy (package %s)" % (fullname, package), name=fullname)
        return None
