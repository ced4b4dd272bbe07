"""Why a machine may not let an ordinary process make namespaces, and what its owner can do about it."""

from __future__ import annotations

from pathlib import Path

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
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return (
            "In a container the runtime's own filter forbids namespaces: start it with "
            "`--security-opt seccomp=unconfined` (the sandbox brings its own filter), or as root with `--privileged`."
        )
    return "Ask whoever runs this machine whether processes may make user namespaces (`unshare --user true` tries it)."
