"""Attempts to lead the host by files: what it collects, reads, writes and removes in a workspace, and what it mounts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import actbox
from actbox import Artifact, FileMount, Policy
from actbox.sandbox.contract import closing
from tests.escape.attempt import Bare, Group, Verdict, escaped_if, stopped, unproven
from tests.escape.ground import Ground, first_output

GROUP = Group(
    "artifacts and links",
    Bare.HOST_STOPS_IT,
    harmful=frozenset(["give a hard link for an artifact", "have the host run a command behind a link"]),
)


def _leaves(what: str, code: str) -> None:
    """Add a program that leaves something in its output by which the host might show it a file of its own."""

    async def leaves(ground: Ground) -> Verdict:
        box = await ground.open()
        result = await box.run(_with_things(code, ground.things), timeout=10)
        if result.error is not None:
            return stopped(result.error.message)
        secret = ground.things["host_secret"].encode()
        found = [item.name for item in result.artifacts if secret in item.data]
        return escaped_if(bool(found), (found, result.warnings))

    GROUP.function(what)(leaves)


def _with_things(code: str, things: dict[str, Any]) -> str:
    return f"import os, socket\nhost_file, host_folder = {things['host_file']!r}, {things['host_folder']!r}\n" + code


_leaves("give a link for an artifact", "os.symlink(host_file, 'output/a')")
_leaves("give a link to a link for an artifact", "os.symlink('b', 'output/a')\nos.symlink(host_file, 'output/b')")
_leaves("give a folder that is a link", "os.symlink(host_folder, 'output/folder')")
_leaves("give a link in the place of the output", "os.rmdir('output')\nos.symlink(host_folder, 'output')")
_leaves("give a link that climbs", "os.symlink('../' * 40 + host_file, 'output/a')")
_leaves("give a link through its own process", "os.symlink('/proc/self/cwd' + '/..' * 20 + host_file, 'output/a')")
_leaves("give a link through the reader's process", "os.symlink('/proc/self/root' + host_file, 'output/a')")
_leaves("give a hard link for an artifact", "os.link(host_file, 'output/a')")
_leaves(
    "swap a file for a link while it is collected",
    "open('output/a', 'w').write('x')\nif os.fork() == 0:\n    os.symlink(host_file, 'link')\n    open('file', 'w').write('x')\n"
    "    while True:\n        for name in ('link', 'file'):\n            os.link(name, 'next', follow_symlinks=False)\n"
    "            os.rename('next', 'output/a')",
)


def _holds_up(what: str, code: str) -> None:
    """Add a program that leaves something on which the host would wait, or choke."""

    async def holds_up(ground: Ground) -> Verdict:
        box = await ground.open(artifacts=10, artifact_mib=4)
        try:
            result = await asyncio.wait_for(box.run("import os, socket\n" + code, timeout=10), 120)
        except TimeoutError:
            return escaped_if(True, "the host waits still")
        after = await box.run("'alive'")
        return escaped_if(after.value != "alive" or len(result.artifacts) > 10, (result.warnings, result.error))

    GROUP.function(what)(holds_up)


_holds_up("let the host wait on a pipe", "os.mkfifo('output/pipe')")
_holds_up("let the host open a socket", "s = socket.socket(socket.AF_UNIX)\ns.bind('output/socket')")
_holds_up("let the host read an endless file", "os.truncate(open('output/a', 'w').name, 200 << 20)")
_holds_up("let the host open a locked folder", "os.makedirs('output/locked/in')\nos.chmod('output/locked', 0)")
_holds_up("let the host follow links that lead in a circle", "os.symlink('b', 'output/a')\nos.symlink('a', 'output/b')")
_holds_up(
    "let the host climb down for ever",
    "for _ in range(500):\n    os.mkdir('output/d') if _ == 0 else os.mkdir('d')\n    os.chdir('output/d' if _ == 0 else 'd')",
)
_holds_up("leave more names than anyone can read", "for n in range(3000): os.close(os.open(f'output/{n}', os.O_CREAT))")


@GROUP.function("give an artifact a name that leaves the folder")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    result = await box.run(
        r"""import os
for name in (b'..\\..\\x', b'a\nb', b'\xff\xfe', b'%2e%2e%2fx', '．．／x'.encode(), b'~', b' ', b'-rf', b'a\x1b]0;x\x07'):
    os.close(os.open(b'output/' + name, os.O_CREAT | os.O_WRONLY))"""
    )
    folder = ground.folder() / "saved"
    if not result.artifacts:
        return unproven(result.warnings)
    for artifact in (
        *result.artifacts,
        Artifact("../out", b"x"),
        Artifact("/tmp/../out", b"x"),
        Artifact("a/../../out", b"x"),
    ):
        try:
            target = artifact.save(folder)
        except (ValueError, OSError):
            continue
        if not target.is_relative_to(folder):
            return escaped_if(True, target)
    return stopped(sorted(entry.name for entry in folder.iterdir()))


@GROUP.function("save an artifact through a link that an earlier one left")
async def _(ground: Ground) -> Verdict:
    place = ground.folder()
    folder, outside = place / "links", place / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "a").symlink_to(outside)
    try:
        Artifact("a/planted", b"x").save(folder)
    except ValueError as error:
        return stopped(error)
    return escaped_if((outside / "planted").exists())


def _led_by_a_link(what: str, act: Any) -> None:
    """Add a method of the host's that is called on a workspace where a guest has put links to the host's files."""

    async def led(ground: Ground) -> Verdict:
        box = await ground.open()
        folder = ground.folder()
        (folder / "secret").write_text(ground.things["host_secret"])
        await box.run(
            f"import os\nos.symlink({str(folder)!r}, 'folder')\nos.symlink({str(folder / 'secret')!r}, 'file')"
        )
        try:
            got = await act(box)
        except (actbox.ActboxError, OSError) as error:
            got = error
        changed = [entry.name for entry in folder.iterdir()] != ["secret"]
        spoilt = changed or (folder / "secret").read_text() != ground.things["host_secret"]
        return escaped_if(spoilt or ground.things["host_secret"] in str(got) or "secret'" in str(got), got)

    GROUP.function(what)(led)


async def _paths(box: actbox.Sandbox) -> list[str]:
    """List all paths, without where links lead: that stands in the links, as the guest has written it."""
    return [entry.path for entry in await box.list_files(".", recursive=True)]


_led_by_a_link("have the host read through a link", lambda box: box.read_file("file"))
_led_by_a_link("have the host read through a folder that is a link", lambda box: box.read_file("folder/secret"))
_led_by_a_link("have the host write through a link", lambda box: box.write_file("file", b"x"))
_led_by_a_link(
    "have the host write through a folder that is a link", lambda box: box.write_file("folder/planted", b"x")
)
_led_by_a_link("have the host list a folder that is a link", lambda box: box.list_files("folder"))
_led_by_a_link("have the host list all below a link", _paths)
_led_by_a_link("have the host remove what a link leads to", lambda box: box.remove_file("folder", recursive=True))
_led_by_a_link("have the host remove a file behind a link", lambda box: box.remove_file("folder/secret"))
_led_by_a_link("have the host make a folder behind a link", lambda box: box.make_dir("folder/planted"))
_led_by_a_link("have the host move a file out", lambda box: box.move("folder/secret", "mine"))
_led_by_a_link("have the host move a file in", lambda box: box.move("file", "folder/planted"))
_led_by_a_link("have the host run a command behind a link", lambda box: box.execute("cat secret", cwd="folder"))


@GROUP.function("swap a folder for a link while the host reads")
async def _(ground: Ground) -> Verdict:
    box = await ground.open()
    folder = ground.things["host_folder"]
    swapping = box.stream(
        f"import os\nos.makedirs('real')\nopen('real/secret.txt', 'w').write('own')\nos.symlink({folder!r}, 'link')\n"
        "print('ready', flush=True)\nwhile True:\n    for name in ('real', 'link'):\n"
        "        os.rename(name, 'a')\n        os.rename('a', name)"
    )
    seen = set()
    async with closing(swapping):
        await first_output(swapping)
        for _ in range(150):
            try:
                seen.add(await box.read_file("a/secret.txt"))
            except (actbox.ActboxError, OSError):
                pass
    return escaped_if(ground.things["host_secret"].encode() in seen, seen)


@GROUP.function("put a link in the place of the inputs")
async def _(ground: Ground) -> Verdict:
    """Removing the folder from outside lets a guest put a link there, which the next run's mount must not follow."""
    box = await ground.open()
    await box.remove_file("input", recursive=True)
    await box.run(
        f"import os\ntry: os.rmdir('input')\nexcept OSError: pass\nos.symlink({ground.things['host_folder']!r}, 'input')"
    )
    result = await box.run("import os\nprint(os.listdir('/workspace/input/'))")
    return escaped_if("secret.txt" in result.stdout, result.stdout)


@GROUP.function("put a link where a mount goes", Bare.NOTHING_THERE)
async def _(ground: Ground) -> Verdict:
    victim, given = ground.folder(), ground.folder()
    (given / "a").write_text("given")
    box = await ground.open(Policy(mounts=(FileMount(given, "/workspace/a/b/c"),)))
    await box.run("import os, shutil\nos.rename('a', 'old')")
    await box.run("1")
    await box.write_file("z", b"")
    if "a" in {entry.path for entry in await box.list_files()}:  # where the mount did not go with what it was in
        await box.remove_file("a", recursive=True)
    await box.execute(["ln", "-s", str(victim), "a"])
    await box.run("1")
    return escaped_if(list(victim.iterdir()) != [])


def _in_a_mount(what: str, mode: str, code: str, got_out: Any, place: str = "/data/given") -> None:
    """Add a program that is given a folder of the host's, in which a link leads to another."""

    async def mounted(ground: Ground) -> Verdict:
        given = ground.folder()
        (given / "own").write_text("own")
        (given / "link").symlink_to(ground.things["host_file"])
        (given / "up").symlink_to("../secret.txt")
        box = await ground.open(Policy(mounts=(FileMount(given, place, mode),)))  # type: ignore[arg-type]
        before = _tree(given)
        verdict = await ground.tries(box, f"os.chdir({place!r})\n" + code)
        return escaped_if(True, _tree(given)) if got_out(before, _tree(given)) else verdict

    GROUP.function(what, Bare.NOTHING_THERE)(mounted)


def _tree(folder: Path) -> dict[str, tuple[int, int]]:
    status = {path.name: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {name: (found.st_mode, found.st_mtime_ns) for name, found in status.items()}


def _changed(before: Any, after: Any) -> bool:
    return bool(before != after)


_in_a_mount("follow a link out of a mount", "ro", "refused(lambda: open('link').read())", _changed)
_in_a_mount("follow a link up out of a mount", "ro", "refused(lambda: open('up').read())", _changed)
_in_a_mount("climb out of a mount", "ro", "refused(lambda: open('../secret.txt').read())", _changed)
_in_a_mount("write in a mount that is read-only", "ro", "refused(lambda: open('planted', 'w'))", _changed)
_in_a_mount("change a file in a mount that is read-only", "ro", "refused(lambda: open('own', 'a'))", _changed)
_in_a_mount("change the rights in a mount that is read-only", "ro", "refused(lambda: os.chmod('own', 0o777))", _changed)
_in_a_mount("change the times in a mount that is read-only", "ro", "refused(lambda: os.utime('own', (1, 1)))", _changed)
_in_a_mount(
    "make a mount that is read-only writable",
    "ro",
    "denied(call('mount', None, b'/data/given', None, 32 | 4096, None))",
    _changed,
)
_in_a_mount(
    "have the host's own file changed in an overlay", "overlay", "open('own', 'a').write('x')\nverdict(False)", _changed
)
_in_a_mount("have the host's own file removed in an overlay", "overlay", "os.unlink('own')\nverdict(False)", _changed)
_in_a_mount(
    "see what lies below an overlay",
    "overlay",
    "refused(lambda: [n for n in os.listdir('/tmp') if n in ('lower', 'upper', 'work')][0])",
    _changed,
)
_in_a_mount("follow a link out of an overlay", "overlay", "refused(lambda: open('link', 'a').write('x'))", _changed)
for _what, _code in {
    "write in the folder at /input": "refused(lambda: open('planted', 'w'))",
    "change a file of the folder at /input": "refused(lambda: open('own', 'a'))",
    "cut a file of the folder at /input short": "refused(lambda: os.truncate('own', 0))",
    "change the rights in the folder at /input": "refused(lambda: os.chmod('own', 0o777))",
    "remove a file of the folder at /input": "refused(lambda: os.unlink('own'))",
    "rename a file of the folder at /input": "refused(lambda: os.rename('own', 'planted'))",
    "leave a link in the folder at /input": "refused(lambda: os.symlink('/etc/passwd', 'planted'))",
    "write in the folder at /input by a descriptor of a file": (
        "fd = os.open('own', os.O_RDONLY)\nrefused(lambda: open(f'/proc/self/fd/{fd}', 'a').write('x'))"
    ),
    "write in the folder at /input by a descriptor of itself": (
        "fd = os.open('.', os.O_PATH)\nos.chdir('/')\n"
        "refused(lambda: open(f'/proc/self/fd/{fd}/../input/planted', 'w'))"
    ),
    "take a file of the folder at /input out by a hard link": "refused(lambda: os.link('own', '/workspace/own'))",
    "have a hard link lead into the folder at /input": (
        "open('/workspace/w', 'w').close()\nrefused(lambda: os.link('/workspace/w', 'planted'))"
    ),
    "move the folder at /input away": "os.chdir('/workspace')\nrefused(lambda: os.rename('input', 'output/moved'))",
    "make the folder at /input writable": "denied(call('mount', None, b'/workspace/input', None, 32, None))",
    "lift the folder at /input off": "os.chdir('/')\ndenied(call('umount2', b'/workspace/input', 2))",
    "see what the folder at /input is made of": (
        "refused(lambda: [n for n in os.listdir('/tmp') if n in ('own', 'host')][0])"
    ),
    "climb out of the folder at /input": "refused(lambda: open('../secret.txt').read())",
    "follow a link out of the folder at /input": "refused(lambda: open('link').read())",
    "hide what the host has below /input": (
        "refused(lambda: os.setxattr('/workspace/input', 'user.overlay.opaque', b'y'))"
    ),
}.items():
    _in_a_mount(_what, "ro", _code, _changed, place="/input")
_in_a_mount(
    "leave a program of root's in a mount that it may write",
    "rw",
    "open('tool', 'w').close()\nrefused(lambda: os.chmod('tool', 0o6755))",
    lambda before, after: False,
)
_in_a_mount(
    "follow a link out of a mount that it may write",
    "rw",
    "refused(lambda: open('link', 'a').write('x'))",
    lambda before, after: False,
)
_in_a_mount(
    "leave a device in a mount that it may write",
    "rw",
    "refused(lambda: os.mknod('disk', 0o060666, os.makedev(254, 0)))",
    _changed,
)
