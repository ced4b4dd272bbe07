"""Attempts by what a program imports, installs or builds: each may touch its own run, and nothing beyond it.

The mark is a file of the host's that the planted code would make, and a name in memory that another run would see.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import actbox
from actbox import FileMount, Policy
from tests.escape.attempt import Bare, Group, NotApplicable, Verdict, escaped_if, unproven
from tests.escape.ground import Ground

GROUP = Group(
    "dependency attacks",
    Bare.HARMFUL,
    slow=frozenset(
        [
            "be a source package whose build runs code",
            "be a wheel with a .pth and files that leave its folder",
            "be a module in the folder from which the host was started",
            "be a plug-in that pytest loads",
        ]
    ),
)
_SITE = "import sysconfig\nsite = sysconfig.get_paths()['purelib']\n"

GROUP.programs(
    {
        "leave a .pth in the environment": _SITE + "refused(lambda: open(site + '/planted.pth', 'w'))",
        "leave a module in the environment": _SITE + "refused(lambda: open(site + '/sitecustomize.py', 'w'))",
        "leave a module in the standard library": "refused(lambda: open(os.path.dirname(os.__file__) + '/usercustomize.py', 'w'))",
        "leave compiled code for a module of the library": (
            "import importlib.util, json\npath = importlib.util.cache_from_source(json.__file__)\n"
            "refused(lambda: open(path, 'ab'))"
        ),
        "leave compiled code where there is none yet": (
            "path = os.path.join(os.path.dirname(os.__file__), '__pycache__', 'planted.pyc')\nrefused(lambda: open(path, 'wb'))"
        ),
        "replace the interpreter's program": "refused(lambda: os.rename(sys.executable, sys.executable))",
        "leave a program on the path of programs": "refused(lambda: open(os.path.dirname(sys.executable) + '/planted', 'w'))",
        "change the environment's own settings": "refused(lambda: open(sys.prefix + '/pyvenv.cfg', 'a'))",
        "leave settings for pip": "refused(lambda: open('/etc/pip.conf', 'w'))",
        "leave a library for the loader": "refused(lambda: open('/etc/ld.so.cache', 'ab'))",
    }
)


def _payload(ground: Ground) -> str:
    mark = Path(ground.things["host_folder"]) / "payload-ran"
    return f"import builtins\nbuiltins.infected = True\ntry:\n    open({str(mark)!r}, 'w').close()\nexcept OSError:\n    pass\n"


def _marked(ground: Ground) -> bool:
    mark = Path(ground.things["host_folder"]) / "payload-ran"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found


_LOOK = "import builtins, json, random, sys\nhasattr(builtins, 'infected')"


async def _spread(ground: Ground, box: actbox.Sandbox, ran: bool) -> Verdict:
    """Return whether planted code, which has run in its own run, is met in another sandbox or in this process."""
    if not ran:
        return unproven("the planted code did not run at all")
    others = [await (await ground.open()).run(_LOOK), await box.run_alone(_LOOK)]
    seen = [other.value for other in others]
    here = "infected" in vars(sys.modules["builtins"])
    return escaped_if(_marked(ground) or here or seen != [False, False], (seen, here))


def _plants(what: str, path: str, start: str) -> None:
    """Add a file that is planted in a workspace, with the command that makes Python run it there."""

    async def plants(ground: Ground) -> Verdict:
        box = await ground.open()
        payload = _payload(ground) + "print('RAN')\n"
        if path.endswith(".pth"):
            payload = "import builtins; exec(" + repr(payload) + ")\n"
        place = path.format(version=f"{sys.version_info[0]}.{sys.version_info[1]}")
        await box.write_file(place, payload.encode())
        result = await box.execute(["sh", "-c", start.format(python="python")])
        return await _spread(ground, box, "RAN" in result.stdout)

    GROUP.function(what, Bare.GETS_THROUGH)(plants)


_USER = "home/lib/python{version}/site-packages/"
_plants("shadow a module of the library", "json.py", "{python} -c 'import json'")
_plants("customise the site", "sitecustomize.py", "PYTHONPATH=. {python} -c 1")
_plants(
    "customise the user's site",
    "usercustomize.py",
    "PYTHONPATH=. {python} -c 1; PYTHONPATH=. {python} -c 'import usercustomize'",
)
_plants(
    "begin interactive Python", "start.py", "PYTHONSTARTUP=start.py {python} -i -c '' </dev/null; {python} start.py"
)
_plants("give a .pth to a folder of sites", "site/planted.pth", "{python} -c 'import site; site.addsitedir(\"site\")'")
_plants("be a plug-in that pytest loads", "conftest.py", "{python} -m pytest -q . 2>&1 || {python} conftest.py")


@GROUP.function("shadow modules that a later program imports", Bare.NOTHING_THERE)
async def _(ground: Ground) -> Verdict:
    """In its own workspace it may; in another, and where programs are run alone, it must not."""
    box = await ground.open()
    for name in (
        "json.py",
        "random.py",
        "sitecustomize.py",
        "usercustomize.py",
        "traceback.py",
        "asyncio.py",
        "_actbox.py",
    ):
        await box.write_file(name, _payload(ground).encode())
    first = await box.run("import builtins, random\nhasattr(builtins, 'infected')")
    await box.run("raise ValueError")
    return await _spread(ground, box, first.success)


@GROUP.function("be preloaded for everybody", Bare.NOTHING_THERE)
async def _(ground: Ground) -> Verdict:
    box = await ground.open(Policy(preload=("json", "planted_module")))
    await box.write_file("planted_module.py", _payload(ground).encode())
    result = await box.run("import builtins, planted_module\nhasattr(builtins, 'infected')")
    later = await ground.open(Policy(preload=("json", "planted_module")))
    seen = await later.run(_LOOK)
    return escaped_if(_marked(ground) or seen.value is not False, (result.value, seen.value, seen.error))


@GROUP.function("be a package of the host's that is changed in an overlay", Bare.NOTHING_THERE)
async def _(ground: Ground) -> Verdict:
    package = ground.folder() / "package"
    package.mkdir()
    (package / "__init__.py").write_text("clean = True\n")
    box = await ground.open(Policy(mounts=(FileMount(package, "/data/package", "overlay"),)))
    await box.run(
        "open('/data/package/__init__.py', 'w').write('clean = False\\n')\nopen('/data/package/x.pth', 'w').write('import os')"
    )
    result = await box.run("import sys\nsys.path.insert(0, '/data')\nimport package\npackage.clean")
    changed = (
        sorted(entry.name for entry in package.iterdir()) != ["__init__.py"]
        or "False" in (package / "__init__.py").read_text()
    )
    return escaped_if(changed or result.value is not True, (result.value, result.error))


@GROUP.function("be a module in the folder from which the host was started", Bare.NOTHING_THERE)
async def _(ground: Ground) -> Verdict:
    folder = ground.folder()
    for name in ("json", "socket", "sitecustomize", "actbox_planted"):
        (folder / f"{name}.py").write_text(_payload(ground))
    code = (
        "import asyncio, actbox\nasync def main():\n"
        f"    async with actbox.open_sandbox({ground.engine!r}, allow_unisolated={not ground.traits.isolated}) as box:\n"
        "        print((await box.run('6 * 7')).value)\nasyncio.run(main())"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path and Path(path).is_dir()),
    }
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code),
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await command.communicate()
    return unproven(said) if b"42" not in said else escaped_if(_marked(ground), said)


_BACKEND = """
{payload}
print('RAN BUILD')
import os, zipfile
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    open(os.path.join(os.environ.get('WHERE', '.'), 'built'), 'w').close()
    name = 'evil-1.0-py3-none-any.whl'
    with zipfile.ZipFile(os.path.join(wheel_directory, name), 'w') as wheel:
        wheel.writestr('evil/__init__.py', 'loaded = True')
        wheel.writestr('evil.pth', 'import builtins; builtins.infected = True')
        wheel.writestr('evil-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n')
        wheel.writestr('evil-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: evil\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        wheel.writestr('evil-1.0.dist-info/RECORD', 'evil/__init__.py,,\\nevil.pth,,\\n')
    return name
"""


@GROUP.function("be a source package whose build runs code")
async def _(ground: Ground) -> Verdict:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (
            (
                "pyproject.toml",
                '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "evil"\nversion = "1.0"\n',
            ),
            ("backend.py", _BACKEND.replace("{payload}", _payload(ground))),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n"),
        ):
            entry = tarfile.TarInfo(f"evil-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    box = await ground.open()
    await box.write_file("evil-1.0.tar.gz", packed.getvalue())
    return await _installed(ground, box, "evil-1.0.tar.gz")


@GROUP.function("be a wheel with a .pth and files that leave its folder")
async def _(ground: Ground) -> Verdict:
    outside = f"{ground.things['host_folder']}/planted-by-wheel"
    files = {
        "evil/__init__.py": _payload(ground),
        "evil.pth": "import builtins; builtins.infected = True\n",
        "evil-1.0.data/scripts/python3": "#!/bin/sh\necho owned\n",
        "evil-1.0.data/data/../../../../../../../.." + outside: "x",
        "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
        "evil-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: evil\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "evil-1.0.dist-info/entry_points.txt": "[console_scripts]\nls = evil:main\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text)}\n" for name, text in files.items())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for name, text in {**files, "evil-1.0.dist-info/RECORD": record}.items():
            wheel.writestr(name, text)
    box = await ground.open()
    await box.write_file("evil-1.0-py3-none-any.whl", packed.getvalue())
    verdict = await _installed(ground, box, "evil-1.0-py3-none-any.whl", may_be_refused=True)
    return escaped_if(True, "a file outside") if Path(outside).exists() else verdict


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


async def _installed(ground: Ground, box: actbox.Sandbox, name: str, may_be_refused: bool = False) -> Verdict:
    """Let a guest install a package where it may, and see whether anything of it is met elsewhere."""
    if not (await box.run("import pip")).success:
        raise NotApplicable("there is no pip in the environment")
    pip = "python -m pip install --no-index --no-build-isolation --no-deps --disable-pip-version-check"
    into_environment = await box.execute(f"{pip} ./{name}; {pip} --user ./{name}", timeout=60)
    own = await box.execute(f"{pip} --target lib ./{name}", timeout=60)
    if own.exit_code and not may_be_refused:
        return unproven(own.stdout + own.stderr)
    in_environment = await box.run("import importlib.util\nimportlib.util.find_spec('evil') is not None")
    if in_environment.value is not False:
        return escaped_if(True, into_environment.stdout)
    return await _spread(ground, box, True)
