"""`actbox profiles`: the profiles of coding agents in `agent_config.toml`, and which of them would work."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from actbox.content.safe_text import spelt_out

from .errors import BROKEN_PIPE, UsageError
from .output import print_text

if TYPE_CHECKING:
    from actbox.codegen.profiles import ProfileCheck, Profiles

PLACES: Final = (Path("agent_config.toml"), Path("config", "agent_config.toml"))
"""The files that are read if none is given; the first one that exists."""
_FORMS: Final = ("text", "json")
_OWN_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


def load_profiles(config: Path | None) -> Profiles:
    """Return the profiles of a file, else of the first of `PLACES`. Raises `UsageError` if there is none."""
    from actbox.codegen.profiles import Profiles

    found = config or next((path for path in PLACES if path.is_file()), None)
    if found is None:
        raise UsageError(f"there is neither {PLACES[0]} nor {PLACES[1]} here", "--config PATH names another file")
    profiles = Profiles.load(found)
    if config is None:
        _check_keys_stay(profiles, found)
    return profiles


def _check_keys_stay(profiles: Profiles, path: Path) -> None:
    """Raise `UsageError` if a file that nobody named, such as one of a downloaded project, would send a key elsewhere.

    Any variable can be called a key, and any server can be an address.
    """
    for one in profiles.profiles:
        host = _host_of(one.base_url)
        if one.api_key_env and one.base_url and host not in _OWN_HOSTS:
            raise UsageError(
                f"{path}: the profile {one.name!r} sends the value of {one.api_key_env} to {host or one.base_url}",
                f"if you trust this file, name it: --config {path}",
            )


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def check_profiles(config: Path | None, *, ping: bool, form: str) -> int:
    """Print the check of each profile. Returns 1 if the default, or the model of a language, does not work."""
    if form not in _FORMS:
        raise UsageError(f"there is no format {form!r}; there are: {', '.join(_FORMS)}", "--format json")
    profiles = load_profiles(config)
    checks = asyncio.run(profiles.ping()) if ping else profiles.checks()
    if form == "json":
        text = json.dumps([check.to_dict() for check in checks], indent=1) + "\n"
    else:
        text = "".join(f"{spelt_out(_line(check, ping))}\n" for check in checks) or "the file has no profiles\n"
    if not print_text(text):
        return BROKEN_PIPE
    return 1 if any(check.used_for and not check.works for check in checks) else 0


def _line(check: ProfileCheck, ping: bool) -> str:
    profile = check.profile
    model = "" if profile.name == profile.model_name else f" ({profile.model_name})"
    used_for = f", for {', '.join(check.used_for)}" if check.used_for else ""
    found = ("answers" if ping else "would work") if check.works else f"does not work: {check.reason}"
    return f"{profile.name}{model}{used_for}: {found}"
