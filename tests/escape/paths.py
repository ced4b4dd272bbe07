"""Attempts by names: Unicode, encodings, dots and slashes, where a path or a name is taken from someone else."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import actbox
from actbox import FileMount, InvalidValue, Policy, Program
from tests.escape.attempt import Bare, Group, Verdict, escaped_if
from tests.escape.ground import Ground

GROUP = Group(
    "unicode and path tricks",
    Bare.HOST_STOPS_IT,
    harmful=frozenset(["have the host run a command outside", "set a variable that changes how the guest starts"]),
)

GROUP.programs(
    {
        "use more slashes than one": "refused(lambda: open('//' + {host_file!r}[1:].replace('/', '///')).read())",
        "use dots that stay": "refused(lambda: open('/.' + {host_file!r}.replace('/', '/./')).read())",
        "climb beyond the root": "refused(lambda: open('/tmp' + '/..' * 500 + {host_file!r}).read())",
        "name a path as bytes": "refused(lambda: open({host_file!r}.encode()).read())",
        "climb out of a folder with a long name": (
            "os.makedirs('n' * 255)\nrefused(lambda: open('n' * 255 + '/..' * 40 + {host_file!r}).read())"
        ),
        "climb by a folder that is its own link": (
            "os.symlink('.', 'self')\nrefused(lambda: open('self/' * 30 + '../' * 30 + {host_file!r}).read())"
        ),
    },
    Bare.GETS_THROUGH,
)
GROUP.programs(
    {
        "end a path with NUL": "refused(lambda: open({host_file!r} + '\\0.txt').read())",
        "climb with wide dots": "refused(lambda: open('/workspace/．．' + {host_file!r}).read())",
        "climb with an overlong encoding": "refused(lambda: open(b'/workspace/\\xc0\\xae\\xc0\\xae' + {host_file!r}.encode()).read())",
        "climb with a slash of another script": "refused(lambda: open('/workspace\\u2215..\\u2215..' + {host_file!r}).read())",
        "climb with percent signs": "refused(lambda: open('/workspace/%2e%2e' + {host_file!r}).read())",
        "climb with backslashes": "refused(lambda: open('/workspace\\\\..\\\\..' + {host_file!r}).read())",
        "use the home folder of root": "refused(lambda: open(os.path.expanduser('~root') + '/.bashrc').read())",
        "use a path longer than there are": "refused(lambda: open('/' + './' * 5000 + {host_file!r}).read())",
    },
    Bare.NOTHING_THERE,
)

_OUTSIDE = (
    *(
        "{file}",
        "/..{file}",
        "../../../../../../..{file}",
        "a/../../..{file}",
        "./..{file}",
        "//..{file}",
        "/workspace/..{file}",
    ),
    *(
        "/workspace/../..{file}",
        "/input/..{file}",
        "/output/../..{file}",
        "input/../../..{file}",
        "..\0{file}",
        "{file}\0",
        "~{file}",
    ),
    *(
        "/proc/self/root{file}",
        "/proc/1/root{file}",
        "file://{file}",
        "．．{file}",
        "%2e%2e{file}",
        "..\\..{file}",
        "",
        "\0",
        "\udcff..{file}",
    ),
)


def _from_outside(what: str, act: Any) -> None:
    """Add a method of the host's that is given paths which lead outside of the workspace."""

    async def act_outside(ground: Ground) -> Verdict:
        box = await ground.open()
        folder = Path(ground.things["host_folder"])
        before = sorted(entry.name for entry in folder.iterdir())
        got = []
        for path in _OUTSIDE:
            try:
                got.append(str(await act(box, path.format(file=ground.things["host_file"]))))
            except (actbox.ActboxError, OSError):
                pass
        secret = ground.things["host_secret"]
        spoilt = sorted(entry.name for entry in folder.iterdir()) != before
        spoilt = spoilt or (folder / "secret.txt").read_text() != secret
        return escaped_if(spoilt or any(secret in text or "secret.txt" in text for text in got), got)

    GROUP.function(what)(act_outside)


_from_outside("have the host read a path outside", lambda box, path: box.read_file(path))
_from_outside("have the host write a path outside", lambda box, path: box.write_file(path, b"planted"))
_from_outside("have the host remove a path outside", lambda box, path: box.remove_file(path, recursive=True))
_from_outside("have the host list a path outside", lambda box, path: box.list_files(_folder_of(path)))
_from_outside("have the host move a path outside in", lambda box, path: box.move(path, "mine"))
_from_outside("have the host make a folder outside", lambda box, path: box.make_dir(_folder_of(path) + "/planted"))
_from_outside("have the host run a command outside", lambda box, path: _stdout(box, path))


async def _stdout(box: actbox.Sandbox, path: str) -> str:
    return (await box.execute("cat secret.txt", cwd=_folder_of(path))).stdout


def _folder_of(path: str) -> str:
    return path.removesuffix("/secret.txt")


@GROUP.function("have the host move a file of the workspace outside")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    folder = Path(ground.things["host_folder"])
    for path in _OUTSIDE:
        await box.write_file("mine", b"planted")
        try:
            await box.move("mine", path.format(file=f"{folder}/planted"))
        except (actbox.ActboxError, OSError):
            pass
    return escaped_if((folder / "planted").exists())


@GROUP.function("have files for a program placed outside of its inputs")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    folder = Path(ground.things["host_folder"])
    for path in _OUTSIDE:
        try:
            await box.run(Program("1", files={path.format(file=f"{folder}/placed"): b"x"}))
        except (actbox.ActboxError, OSError):
            pass
    return escaped_if((folder / "placed").exists())


@GROUP.function("mount over what the sandbox is made of")
async def _(ground: Ground) -> Verdict:
    taken = []
    for path in (
        "/etc",
        "/usr/lib",
        "/proc",
        "/dev/null",
        "/tmp/../etc",
        "/data/../proc",
        "//proc",
        "/./sys",
        "/",
        "",
        "/workspace",
        "a\0b",
    ):
        try:
            taken.append(FileMount(ground.things["host_folder"], path))
        except actbox.ActboxError:
            continue
    # `//proc` and `/./sys` are other spellings: what is taken must not lie in a folder that is the sandbox's own.
    wrong = [mount for mount in taken if mount.mount_path.parts[1] in ("etc", "usr", "proc", "dev", "sys")]
    return escaped_if(bool(wrong), taken)


@GROUP.function("call a program by a name that is a path")
async def _(ground: Ground) -> Verdict:
    shown = []
    for name in ("../../secret.txt", ground.things["host_file"], "a\0b", "a\nb", "/proc/self/environ"):
        try:
            program = Program("def f():\n    1 / 0\nf()", name=name)
        except actbox.ActboxError:
            continue
        shown.append(str((await (await ground.open()).run(program)).error))
    return escaped_if(any(ground.things["host_secret"] in text for text in shown), shown)


@GROUP.function("have a line of a file of the host's shown in a traceback")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    result = await box.run(f"code = compile('\\n1 / 0', {ground.things['host_file']!r}, 'exec')\nexec(code)\n")
    return escaped_if(ground.things["host_secret"] in str(result.error), result.error)


@GROUP.function("set a variable that changes how the guest starts")
async def _(ground: Ground) -> Verdict:
    folder = Path(ground.things["host_folder"])
    (folder / "sitecustomize.py").write_text(f"open({str(folder / 'started')!r}, 'w').close()\n")
    variables = {
        "PYTHONSTARTUP": str(folder / "sitecustomize.py"),
        "LD_PRELOAD": str(folder / "x.so"),
    }
    box = await ground.open(Policy(variables=variables))
    await box.run("1")
    await box.execute("python -c 1; python3 -c 1")
    await box.execute(f"export PYTHONPATH={folder}; python -c 1; python3 -c 1")
    with contextlib.suppress(InvalidValue):
        await box.execute("python -c 1; python3 -c 1", env={"PYTHONPATH": str(folder)})
    (folder / "sitecustomize.py").unlink()
    return escaped_if((folder / "started").exists())


@GROUP.function("have a file collected under the name of another")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    result = await box.run(
        "import os\nfor name in (b'a', b'\\xff', b'\\xfe', 'é'.encode(), 'e\\u0301'.encode(), b'A'):\n"
        "    with open(b'output/' + name, 'wb') as file: file.write(name)"
    )
    wrong = [item.name for item in result.artifacts if item.name.isascii() and item.name.encode() != item.data]
    return escaped_if(bool(wrong), [(item.name, item.data) for item in result.artifacts])


@GROUP.function("run source in which what is seen is not what runs")
async def _(ground: Ground) -> Verdict:
    """Names are told apart as Python does it, so that a tool cannot be reached by letters that only look like its own."""
    called = []

    def search() -> str:
        called.append(1)
        return "found"

    box = await ground.open()
    for code in ("sеarch()", "call_tool('sеarch')", "call_tool('ｓearch')", "call_tool('search\\u200b')"):
        await box.run(code, tools=[search])
    return escaped_if(bool(called), called)


@GROUP.function("hide source behind its encoding")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    for code in (
        "# -*- coding: utf-7 -*-\n+AGYAbwByAGcAZQBk- = 1\n",
        "\ufeffx = 1",
        "x = 1\0\nforged = 1",
        "\udcff",
        "x = 1\x0cy = 2",
    ):
        result = await box.run(code + "\nprint('forged' in dir())")
        if "True" in result.stdout:
            return escaped_if(True, code)
    return escaped_if((await box.run("'alive'")).value != "alive")
