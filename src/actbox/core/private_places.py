"""Places of the host that no program is shown: the kernel's own, its services' sockets, and where keys are kept.

A place is known by its path and by its identity (device and inode), so that a link or another mount of it is the same
place. A folder that has such a place in it is refused as well.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator
from pathlib import Path

Identity = tuple[int, int]

# Nothing at or below these; what follows says why: "it …".
_SYSTEM = {
    "/proc": "shows the host's processes",
    "/sys": "shows the host's kernel and devices",
    "/dev": "has the host's devices",
    "/run": "has the sockets of the host's services",
    "/var/run": "has the sockets of the host's services",
    "/var/lib/docker": "belongs to a container engine",
    "/var/lib/containerd": "belongs to a container engine",
    "/var/lib/containers": "belongs to a container engine",
    "/var/lib/kubelet": "has the keys of a cluster",
    "/etc/kubernetes": "has the keys of a cluster",
    "/etc/rancher": "has the keys of a cluster",
    "/etc/shadow": "has the host's passwords",
    "/etc/gshadow": "has the host's passwords",
    "/etc/ssh": "has the host's keys",
    "/etc/ssl/private": "has the host's keys",
    "/etc/NetworkManager/system-connections": "has the host's passwords",
}
# Removable disks and what desktops mount are data.
_ALLOWED = ("/run/media",)

# Below a home folder. Of these a folder in it may be mounted, if it is none of the rest; not the whole.
_WHOLE = (".config", ".local", ".local/share", ".local/state", ".cache")
_KEYS = (
    ".ssh",
    ".gnupg",
    ".gnupg2",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".gnome2/keyrings",
    ".kde/share/apps/kwallet",
    ".pki",
    ".age",
    ".Xauthority",
    ".ICEauthority",
    ".env",
    ".envrc",
    ".keychain",
    ".config/op",
    ".config/keybase",
    ".config/sops",
    ".config/age",
    ".vault-token",
    ".aws",
    ".azure",
    ".boto",
    ".s3cfg",
    ".oci",
    ".oss",
    ".aliyun",
    ".config/gcloud",
    ".config/doctl",
    ".config/hcloud",
    ".config/rclone",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/git/credentials",
    ".git-credentials",
    ".kube",
    ".minikube",
    ".docker",
    ".config/containers",
    ".config/helm",
    ".terraform.d",
    ".terraformrc",
    ".databrickscfg",
    ".databricks.cfg",
    ".databricks",
    ".snowsql",
    ".snowflake",
    ".config/snowflake",
    ".netrc",
    "_netrc",
    ".pypirc",
    ".pip",
    ".config/pip",
    ".config/uv",
    ".local/share/uv/credentials",
    ".config/pypoetry/auth.toml",
    ".npmrc",
    ".yarnrc.yml",
    ".gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    ".huggingface",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".kaggle",
    ".config/kaggle",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".copilot",
    ".config/github-copilot",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".msmtprc",
    ".mozilla",
    ".thunderbird",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/opera",
    ".config/vivaldi",
    "snap/chromium",
    "snap/firefox",
    ".var/app",
    ".bitcoin",
    ".ethereum",
    ".electrum",
)
# Below a home folder too: people type passwords.
_HISTORIES = (
    ".bash_history",
    ".zsh_history",
    ".zsh_sessions",
    ".zhistory",
    ".histfile",
    ".history",
    ".sh_history",
    ".ksh_history",
    ".ash_history",
    ".local/share/fish",
    ".python_history",
    ".ipython",
    ".node_repl_history",
    ".irb_history",
    ".pry_history",
    ".php_history",
    ".Rhistory",
    ".psql_history",
    ".mysql_history",
    ".mariadb_history",
    ".sqlite_history",
    ".duckdb_history",
    ".rediscli_history",
    ".dbshell",
    ".mongodb",
    ".lesshst",
    ".viminfo",
)
# What else says where this user's keys or sockets lie; some are lists.
_VARIABLES = (
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CLOUDSDK_CONFIG",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CONFIG",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "NETRC",
    "PASSWORD_STORE_DIR",
    "SSH_AUTH_SOCK",
)


def why_private(path: Path) -> str:
    """Return why a program may not see this file or folder, "" if it may. `path` is absolute and has no links in it.

    The answer goes on after "…, since": "it has the host's devices".
    """
    if path == Path("/"):
        return "it has all files of the host in it"
    if any(path.is_relative_to(place) for place in _ALLOWED):
        return ""
    own = _identity(path)
    chain = {_identity(place) for place in (path, *path.parents[:-1])}
    homes = _homes(path)
    for home in (Path("/home/*"), *homes):
        for above in (home, *home.parents):
            if path == above or own in _identities((above,)):
                where = "is" if above == home else "has in it"
                return f"it {where} the home folder {home}, where keys are kept"
    for place, reason in _places(homes):
        identities = _identities((place,))
        if path.is_relative_to(place) or identities & chain:
            return f"it {reason}" if path == place else f"it lies in {place}, and that {reason}"
        if identities and (place.is_relative_to(path) or own in _identities(place.parents[:-1])):
            return f"it has {place} in it, and that {reason}"
    for home in homes:
        for whole in (_target(home / name) for name in _WHOLE):
            identities = _identities((whole,))
            if path == whole or own in identities:
                return "it is where programs keep their settings, keys and passwords among them"
            if identities and (whole.is_relative_to(path) or own in _identities(whole.parents[:-1])):
                return f"it has {whole} in it, where programs keep their settings, keys and passwords among them"
    return ""


def identity_of(path: Path) -> Identity:
    """Return the device and the inode of what lies at a path, of a link's own. Raises `OSError`."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _identity(path: Path) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:  # there is nothing, or nothing that this user may see
        return None


def _identities(places: Iterable[Path]) -> set[Identity]:
    return {identity for place in places if (identity := _identity(place))}


def _places(homes: list[Path]) -> Iterator[tuple[Path, str]]:
    for name, reason in _SYSTEM.items():
        yield _target(Path(name)), reason
    for home in homes:
        for name in _KEYS:
            yield _target(home / name), "is where keys and passwords are kept"
        for name in _HISTORIES:
            yield _target(home / name), "has what was typed in it, passwords too"
    for variable in _VARIABLES:
        for part in os.environ.get(variable, "").split(":"):  # a list, or an address such as unix:path=/run/bus,guid=1
            word = part.removeprefix("path=").partition(",")[0]
            if word.startswith("/") and word.strip("/"):
                yield _target(Path("/" + word.lstrip("/"))), f"is what the variable {variable} names"


def _target(place: Path) -> Path:
    """Return where a place leads that is a link, as key stores kept elsewhere are; the link gives nothing away."""
    return Path(os.path.realpath(place)) if os.path.islink(place) else place


def _homes(path: Path) -> list[Path]:
    """Return the home folders that matter for a path: this user's, root's, and the one below `/home` that it is in."""
    named = [os.environ.get("HOME", ""), "/root", *_homes_of_accounts()]
    if path.parts[1:2] == ("home",) and len(path.parts) > 2:
        named.append(f"/home/{path.parts[2]}")
    real = (Path(os.path.realpath(name)) for name in named if name.startswith("/"))
    return list(dict.fromkeys(real))


def _homes_of_accounts() -> list[str]:
    numbers = {os.getuid(), os.geteuid()}
    if (behind_sudo := os.environ.get("SUDO_UID", "")).isdecimal():
        numbers.add(int(behind_sudo))
    found = []
    for number in numbers:
        try:
            found.append(pwd.getpwuid(number).pw_dir)
        except (KeyError, OverflowError):  # an id without an account, as containers have
            continue
    return found
