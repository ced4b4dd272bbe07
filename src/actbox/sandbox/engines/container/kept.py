"""The images that this engine has made, of which the ones used last are kept.

Neither Podman nor Docker knows when an image was used last. So a file in this user's cache is touched for each whenever
a container is to be made of it. What one process removes while another is about to use it, that one makes anew.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from .cache import cache_folder
from .client import Client, CommandFailed

LABEL: Final = "io.actbox"
OURS: Final = ("localhost/actbox-host:", "localhost/actbox-on:")
"""How their names begin."""
MOST_IMAGES: Final = 8


def note_use(client: Client, image: str) -> None:
    """Note that an image is used now, where this user has a place for that."""
    with contextlib.suppress(OSError):
        _note_of(client, image).touch(mode=0o600)


def remove_unused(client: Client, image: str) -> list[str]:
    """Remove the images that were used longest ago, beyond `MOST_IMAGES`, when `image` has just been made. Blocks.

    Those that a container is made of stay, as do all that are not ours; and where nothing can be noted, all. Returns
    the names of those that went.
    """
    note_use(client, image)
    names = client.run("image", "ls", "--filter", f"label={LABEL}", "--format", "{{.Repository}}:{{.Tag}}").split()
    ours = {name for name in names if name.startswith(OURS)}
    gone = []
    with contextlib.suppress(OSError):
        for note in _notes(client).iterdir():
            if unquote(note.name) not in ours:
                note.unlink(missing_ok=True)
        used = {name: _last_use(client, name) for name in ours}
        for name in sorted(ours, key=used.__getitem__, reverse=True)[MOST_IMAGES:]:
            with contextlib.suppress(CommandFailed):  # a container is made of it, or another process was first
                client.run("image", "rm", *(["--no-prune"] if client.is_podman else []), name)
                gone.append(name)
                _note_of(client, name).unlink(missing_ok=True)
    return gone


def _last_use(client: Client, image: str) -> float:
    """Return when an image was used; of one that nobody here has used, another user's maybe, that is now."""
    note = _note_of(client, image)
    if not note.exists():
        note.touch(mode=0o600)
    with contextlib.suppress(FileNotFoundError):  # another process has removed the image
        return note.stat().st_mtime
    return 0.0


def _note_of(client: Client, image: str) -> Path:
    return _notes(client) / quote(image, safe="")


def _notes(client: Client) -> Path:
    return cache_folder("images", client.name)
