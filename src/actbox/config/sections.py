"""The sections of configuration files: their keys, and the values of `Config` that they stand for."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from actbox.core.errors import InvalidValue
from actbox.core.packages import Environment, PackageRule
from actbox.sandbox.registry import TABLE

from .contents import check_keys, list_of, mapping_of, placed, text_of, unknown_name
from .documents import Commented, is_toml
from .merging import Merged, policy_of

_LISTS: Final = ("auto_approved", "requires_approval", "blocked")
_IMAGE_KEYS: Final = ("name", "base", "packages", "warm_pool_size")
_BASE: Final = re.compile(r"(?:[A-Za-z0-9][\w.:-]*/)*(python|node)(?::([\w.-]+))?(?:@sha256:[0-9a-f]{64})?", re.ASCII)
_PYTHON_TAG: Final = re.compile(r"(3\.\d+(?:\.\d+)?)(?:-.+)?", re.ASCII)

_RUNTIMES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "auto": ("auto", {}),
    **{name: (name, {}) for name, engine in TABLE.items() if engine.isolates},
    **dict.fromkeys(("bubblewrap", "bwrap"), ("linux", {})),
    **{client: ("container", {"client": client}) for client in ("docker", "podman")},
    **{runtime: ("container", {"runtime": runtime}) for runtime in ("runsc", "kata", "runc", "crun")},
    "gvisor": ("container", {"runtime": "runsc"}),
}
"""The values of `runtime`, each with its engine and that engine's options."""


def add_document(document: Mapping[str, Any], file: str, merged: Merged) -> None:
    """Add the content of a file to that of others. Raises `InvalidValue`, which names the file and the key."""
    if is_toml(file):
        # The other sections belong to other programs, unless one is a misspelling of ours.
        ours = difflib.get_close_matches("sandbox", document, n=1, cutoff=0.8)
        check_keys(ours, ("sandbox",), file)
        if ours:
            _add_sandbox(document["sandbox"], file, merged)
        return
    check_keys(document, ("images", "python", "nodejs"), file)
    for key, value in document.items():
        if key == "images":
            _add_images(value, file, key, merged)
        else:
            _add_lists(key, value, file, key, merged)


def _add_sandbox(value: object, file: str, merged: Merged) -> None:
    section = mapping_of(value, (*_SETTINGS, "package_allowlist", "images"), f"{file}: sandbox")
    for key, found in section.items():
        if key == "package_allowlist":
            _add_lists("python", found, file, f"sandbox.{key}", merged)
        elif key == "images":
            _add_images(found, file, f"sandbox.{key}", merged)
        else:
            merged.set(f"sandbox.{key}", _SETTINGS[key](found, f"{file}: sandbox.{key}"), file)


def _add_images(value: object, file: str, key: str, merged: Merged) -> None:
    names = set()
    for number, image in enumerate(list_of(value, f"{file}: {key}"), 1):
        environment = _environment(image, f"{file}: image {number} of {key}")
        if environment.name in names:
            raise InvalidValue(f"{file}: two images of {key} have the name {environment.name!r}; rename or remove one")
        names.add(environment.name)
        merged.add_environment(environment, file)


def _add_lists(language: str, value: object, file: str, key: str, merged: Merged) -> None:
    merged.add_language(language)
    for place, listed in mapping_of(value, _LISTS, f"{file}: {key}").items():
        where = f"{file}: {key}.{place}"
        for entry in list_of(listed, where):
            name, reason = text_of(entry, where), entry.comment if isinstance(entry, Commented) else ""
            with placed(where):
                rule = PackageRule(name, reason)
                policy_of({language: {place: [rule]}})  # a check while the file is known
            merged.add_rule(language, place, rule, file)


def _environment(value: object, where: str) -> Environment:
    image = mapping_of(value, _IMAGE_KEYS, where)
    for key, example in (("name", "python-web"), ("base", "python:3.12-slim")):
        if key not in image:
            raise InvalidValue(f"{where} has no {key!r}, such as {example!r}")
    name, base = (text_of(image[key], f"{where}, {key}") for key in ("name", "base"))
    size = image.get("warm_pool_size", 1)
    if type(size) is not int or size < 0:
        raise InvalidValue(f"{where}: warm_pool_size is how many sandboxes wait, 0 or more, not {reprlib.repr(size)}")
    listed = f"{where}, packages"
    packages = tuple(text_of(package, listed) for package in list_of(image.get("packages", []), listed))
    language, python = _interpreter(base, where)
    with placed(where):
        return Environment(
            name=name,
            packages=packages,
            python=python,
            image=base,
            language=language,
            warm_pool_size=size,
        )


def _interpreter(base: str, where: str) -> tuple[str, str]:
    """Return the language of an OCI image, and the version of its Python, "" for Node."""
    found = _BASE.fullmatch(base)
    if found is None:
        raise InvalidValue(
            f"{where}: the interpreter of the base {base!r} is unknown; use an image of Python or Node, such as"
            " 'python:3.12-slim' or 'node:20-slim'"
        )
    if found[1] == "node":
        return "javascript", ""
    version = _PYTHON_TAG.fullmatch(found[2] or "")
    if version is None:
        raise InvalidValue(f"{where}: the base {base!r} names no version of Python; write one as in 'python:3.12-slim'")
    return "python", version[1]


def _runtime(value: object, where: str) -> dict[str, Any]:
    name = text_of(value, where)
    if name in TABLE and name not in _RUNTIMES:
        raise InvalidValue(f"{where}: {TABLE[name].isolates_nothing()} in code; a file cannot choose it")
    if name not in _RUNTIMES:
        raise InvalidValue(f"{where}: unknown runtime {unknown_name(name, _RUNTIMES)}")
    engine, options = _RUNTIMES[name]
    return {"engine": engine, "engine_options": dict(options)}


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(f"{where} is true or false, not {reprlib.repr(value)}")
    return value


def _directory(value: object, where: str) -> dict[str, Any]:
    path = text_of(value, where)
    whole = os.path.expanduser(path)
    if not os.path.isabs(whole) or "\0" in path or ".." in whole.split("/"):
        raise InvalidValue(
            f"{where}: {path!r} is no absolute path without '..'; write one such as '~/.cache/actbox/packages'"
        )
    return {"package_cache_dir": path}


_SETTINGS: Final[Mapping[str, Callable[[object, str], dict[str, Any]]]] = {
    "enabled": lambda value, where: {"enabled": _flag(value, where)},
    "runtime": _runtime,
    "package_cache_dir": _directory,
    "enable_package_cache": lambda value, where: {"enable_package_cache": _flag(value, where)},
}
"""The keys of `[sandbox]` with a single value, each with a function that returns the fields of `Config` for it."""
