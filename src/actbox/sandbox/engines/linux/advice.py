"""Advice for machines that do not let an ordinary process make namespaces: the likely reason and the owner's remedy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SYSCTLS = (
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "this distribution forbids user namespaces to ordinary users: `sysctl -w kernel.unprivileged_userns_clone=1`",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts user namespaces here: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give "
        "this Python an AppArmor profile with `userns,`",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "this machine allows no user namespaces: `sysctl -w user.max_user_namespaces=15000`",
    ),
)


# Settings that a container may lack. The tables below tell how Docker, Podman and Kubernetes grant each.
_FILTER: Final = "seccomp"
_PROC: Final = "proc"
_APPARMOR: Final = "apparmor"
_ORDINARY_USER: Final = "user"
_OPTIONS: Final = {
    "docker": {
        _FILTER: "--security-opt seccomp=unconfined",
        _PROC: "--security-opt systempaths=unconfined",
        _APPARMOR: "--security-opt apparmor=unconfined",
        _ORDINARY_USER: "--user 1000",
    },
    "podman": {
        _FILTER: "--security-opt seccomp=unconfined",
        _PROC: "--security-opt unmask=ALL",
        _APPARMOR: "--security-opt apparmor=unconfined",
        _ORDINARY_USER: "--user 1000",
    },
}
_SECURITY_CONTEXT: Final = {
    _FILTER: "`seccompProfile: {type: Unconfined}`",
    _PROC: "`procMount: Unmasked` with `hostUsers: false` in the pod (Kubernetes 1.33 or later)",
    _APPARMOR: "`appArmorProfile: {type: Unconfined}`",
    _ORDINARY_USER: "`runAsUser: 1000`",
}
_CAP_SETGID, _CAP_SETUID, _CAP_SETFCAP = 6, 7, 31


def _lacking_in_container() -> Sequence[str]:
    """Return the settings whose lack keeps this container from making sandboxes, as far as this process can see."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    lacking = []
    if status.get("Seccomp", "0").strip() == "2":
        lacking.append(_FILTER)
    places = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    if any(place.startswith("/proc/") and place != "/proc/sys/fs/binfmt_misc" for place in places):
        lacking.append(_PROC)
    try:
        if Path("/proc/self/attr/apparmor/current").read_text().strip() not in ("", "unconfined"):
            lacking.append(_APPARMOR)
    except OSError:
        pass  # a kernel without AppArmor
    held = int(status.get("CapEff", "0"), 16)
    # Without these root cannot map a user into its own namespace; any ordinary user can map itself.
    if os.geteuid() == 0 and not all(held >> number & 1 for number in (_CAP_SETGID, _CAP_SETUID, _CAP_SETFCAP)):
        lacking.append(_ORDINARY_USER)
    return lacking


def _for_container(lacking: Sequence[str]) -> str:
    """Return how to grant a container the lacking settings, for its runtime, or for every runtime if it is unknown."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return _for_kubernetes(lacking)
    for mark, name in (("/run/.containerenv", "podman"), ("/.dockerenv", "docker")):
        if Path(mark).exists():
            return f"{_for_command(name, lacking)}; the sandbox brings walls of its own."
    commands = ", ".join(_for_command(name, lacking) for name in _OPTIONS)
    return f"If this is a container: {commands}. {_for_kubernetes(lacking)}"


def _for_command(name: str, lacking: Sequence[str]) -> str:
    return f"give `{name} run` the options `{' '.join(_OPTIONS[name][lack] for lack in lacking)}`"


def _for_kubernetes(lacking: Sequence[str]) -> str:
    fields = ", ".join(_SECURITY_CONTEXT[lack] for lack in lacking)
    return f"In Kubernetes the container's securityContext needs {fields} (as its documentation says; not tried)."


def why_not() -> str:
    """Return one sentence of advice for a machine on which the nursery could not start, from what can be read here."""
    for name, value, advice in _SYSCTLS:
        path = Path("/proc/sys") / name
        try:
            found = path.read_text().strip()
        except OSError:
            continue
        if found == value:
            return advice[0].upper() + advice[1:] + "."
    if lacking := _lacking_in_container():
        advice = _for_container(lacking)
        return advice[0].upper() + advice[1:]
    return "Ask whoever runs this machine whether processes may make user namespaces (`unshare --user true` tries it)."
