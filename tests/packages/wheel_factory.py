"""Makes wheels for tests: right ones, and ones that are wrong in one way."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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


BACKEND = """
import zipfile
NAME, VERSION, REQUIRES = {name!r}, {version!r}, {requires!r}
def build_wheel(folder, config_settings=None, metadata_directory=None):
    {code}
    about = f"{{NAME}}-{{VERSION}}.dist-info"
    needs = "".join(f"Requires-Dist: {{one}}\\n" for one in REQUIRES)
    files = {{
        f"{{NAME}}.py": f"facts = {{facts!r}}\\n",
        f"{{about}}/METADATA": f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n{{needs}}",
        f"{{about}}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    from base64 import urlsafe_b64encode as b64
    from hashlib import sha256
    lines = [
        f"{{path}},sha256={{b64(sha256(text.encode()).digest()).rstrip(b'=').decode()}},{{len(text.encode())}}\\n"
        for path, text in files.items()
    ]
    files[f"{{about}}/RECORD"] = "".join(lines) + f"{{about}}/RECORD,,\\n"
    with zipfile.ZipFile(f"{{folder}}/{{NAME}}-{{VERSION}}-{tag}.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{{NAME}}-{{VERSION}}-{tag}.whl"
def get_requires_for_build_wheel(config_settings=None):
    return {asks!r}.split()
"""


def source_files(
    name: str,
    version: str = "1.0",
    *,
    code: str = "facts = 1",
    requires: tuple[str, ...] = (),
    tools: tuple[str, ...] = (),
    asks: str = "",
    made: str = "",
    tag: str = "py3-none-any",
) -> dict[str, bytes]:
    """Return the files of a project with a build backend of its own, whose wheel has a module with `facts`.

    `code` runs in the build and sets `facts`. `tools` are what the build requires, and `asks` what the backend's hook
    does. `made` is the wheel's name if it is another than the project's, and `tag` what its file is for.
    """
    backend = BACKEND.format(
        name=made or name, version=version, requires=requires, asks=asks, tag=tag, code=code.replace("\n", "\n    ")
    )
    project = f'[build-system]\nrequires = {list(tools)!r}\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    return {"pyproject.toml": project.encode(), "backend.py": backend.encode()}


def make_source(folder: Path, name: str = "kit_source", version: str = "1.0", **project: Any) -> Path:
    """Return the path of a new source distribution; `project` is what `source_files` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, data in source_files(name, version, **project).items():
            info = tarfile.TarInfo(f"{name}-{version}/{file}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
