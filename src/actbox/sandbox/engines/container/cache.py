"""The disk cache of this user's sandboxes: mostly images, which may be needed again.

Neither Podman nor Docker records when an image was last used. So a file in this user's cache is touched for each image
whenever a container is made of it. If one process removes an image that another is about to use, the other makes it
anew.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from .client import Client, CommandFailed

LABEL: Final = "io.actbox"
OURS: Final = ("localhost/actbox-host:", "localhost/actbox-on:")
"""The prefixes of the names of our images."""
MOST_IMAGES: Final = 8


def cache_folder(*names: str) -> Path:
    """Return a cache directory, which only this user can open."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base, "actbox", *names)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def note_use(client: Client, image: str) -> None:
    """Record that an image is used now, if this user has a cache directory."""
    with contextlib.suppress(OSError):
        _note_of(client, image).touch(mode=0o600)


def remove_unused(client: Client, image: str) -> list[str]:
    """Remove the least recently used images beyond `MOST_IMAGES`, after `image` has been made. Blocks.

    Images in use by a container and images that are not ours stay; if use cannot be recorded, all stay. Returns the
    names of the removed images.
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
            with contextlib.suppress(CommandFailed):  # it is in use, or another process removed it first
                client.run("image", "rm", *(["--no-prune"] if client.is_podman else []), name)
                gone.append(name)
                _note_of(client, name).unlink(missing_ok=True)
    return gone


def _last_use(client: Client, image: str) -> float:
    """Return when an image was last used; an image without a record, perhaps another user's, counts as used now."""
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
