"""Makes wheels for tests: right ones, and ones that are wrong in one way."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def make_wheel(
    folder: Path,
    name: str = "kit_wheel",
    version: str = "1.0",
    files: Mapping[str, bytes] | None = None,
    *,
    record: Mapping[str, str] | None = None,
    modes: Mapping[str, int] | None = None,
    requires: tuple[str, ...] = (),
    metadata: str = "",
    unrecorded: Mapping[str, bytes] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """Return the path of a new wheel with these files beside its own metadata.

    `record` replaces lines of RECORD, by file name, `modes` sets modes of entries, and `unrecorded` files are in no
    line. `metadata` are further lines of its METADATA, and `tag` is what the file's name says that it is for.
    """
    about = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    own = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}{needs}".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    held = {f"{name}/__init__.py": b"here = True\n"} if files is None else dict(files)
    held |= {path: data for path, data in own.items() if path not in held}
    lines = {path: record_line(path, data) for path, data in held.items()} | dict(record or {})
    held[f"{about}/RECORD"] = ("".join(lines.values()) + f"{about}/RECORD,,\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in [*held.items(), *(unrecorded or {}).items()]:
            info = zipfile.ZipInfo(entry)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(entry, 0o100644) << 16
            archive.writestr(info, data)
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
