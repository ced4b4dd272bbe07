"""Attempts to reach what belongs to the host, from inside an instance. Each must fail, whatever it tries."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, Sandbox

_TRY = """
import os, posix, sys
came = []
def attempt(call):
    try:
        came.append(repr(call()))
    except BaseException as error:
        came.append(type(error).__name__)
"""


@pytest.fixture
def secret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file of the host's, beside the folders that sandboxes are made in."""
    handle, name = tempfile.mkstemp(prefix="actbox-secret-")
    with open(handle, "w") as file:
        file.write("the host's secret")
    yield Path(name)
    os.unlink(name)


@pytest_asyncio.fixture
async def prison() -> AsyncIterator[Sandbox]:
    """A sandbox that has an input file."""
    async with actbox.open_sandbox("wasm") as box:
        await box.write_text("input/given.txt", "as given")
        yield box


async def _came(box: Sandbox, attempts: str, **inputs: object) -> list[str]:
    result = await box.run(actbox.Program(_TRY + attempts + "\ncame", inputs=inputs))
    assert result.error is None, result.error
    return list(result.value)


async def test_no_path_leads_to_a_file_of_the_host(prison: Sandbox, secret: Path) -> None:
    paths = [
        str(secret),
        f"/tmp/{secret.name}",
        f"../{secret.name}",
        f"../../{secret.name}",
        f"/workspace/../{secret.name}",
        f"/workspace/../../{secret.name}",
        f"/workspace/../../..{secret}",
        f"/tmp/../../../..{secret}",
        f"/input/../../{secret.name}",
        f"/output/../../../{secret.name}",
        f"/.actbox/box/../../../{secret.name}",
        f"/.actbox/guest/../../{secret.name}",
        f"/python-stdlib/../../../{secret.name}",
        f"//{secret}",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/1/cmdline",
        "/dev/tty",
    ]
    came = await _came(
        prison,
        "for path in paths:\n"
        "    attempt(lambda: open(path).read())\n"
        "    attempt(lambda: os.listdir(os.path.dirname(path) or '/'))\n"
        "    attempt(lambda: os.rename(path, '/workspace/mine'))\n"
        "    attempt(lambda: os.link(path, '/workspace/mine'))\n",
        paths=paths,
    )
    assert len(came) == 4 * len(paths)
    assert not any("secret" in text or "root:" in text for text in came), came
    assert secret.read_text() == "the host's secret"
    assert not await prison.list_files("output")


async def test_no_descriptor_leads_above_a_folder_that_was_given(prison: Sandbox, secret: Path) -> None:
    came = await _came(
        prison,
        "for number in range(40):\n"
        "    for path in ('..', f'../{name}', f'../../{name}', f'x/../../{name}'):\n"
        "        attempt(lambda: os.listdir(os.open(path, os.O_RDONLY, dir_fd=number)))\n"
        "        attempt(lambda: os.read(os.open(path, os.O_RDONLY, dir_fd=number), 99))\n",
        name=secret.name,
    )
    assert len(came) == 320
    assert not any(secret.name in text or "host's" in text for text in came)


async def test_a_link_that_leads_out_is_followed_by_nobody(prison: Sandbox, secret: Path) -> None:
    up = "../" * 12
    came = await _came(
        prison,
        "for make in (os.symlink, posix.symlink):\n"
        "    for number, target in enumerate((path, up + path[1:], '..', '../..', '/', up)):\n"
        "        link = f'/workspace/output/{make.__module__}-{number}'\n"
        "        attempt(lambda: make(target, link))\n"
        "        attempt(lambda: open(link).read())\n"
        "        attempt(lambda: os.listdir(link))\n"
        "        attempt(lambda: open(link + '/' + path[1:]).read())\n"
        "        attempt(lambda: open(link + '/evil', 'w').write('evil'))\n",
        path=str(secret),
        up=up,
    )
    assert not any("secret" in text for text in came), came
    result = await prison.run("1")
    assert not result.artifacts
    with pytest.raises(actbox.FileError):
        await prison.read_file("output/posix-0")


@pytest.mark.slow
async def test_the_input_is_what_it_was_given_as(prison: Sandbox) -> None:
    came = await _came(
        prison,
        "os.makedirs('/workspace/d')\n"
        "for path in ('/input/given.txt', '/workspace/input/given.txt', '/workspace/d/../input/given.txt'):\n"
        "    attempt(lambda: open(path, 'w').write('evil'))\n"
        "    attempt(lambda: open(path, 'r+').write('evil'))\n"
        "    attempt(lambda: open(path, 'a').write('evil'))\n"
        "    attempt(lambda: os.truncate(path, 0))\n"
        "    attempt(lambda: os.unlink(path))\n"
        "    attempt(lambda: os.rename(path, '/workspace/taken'))\n"
        "    attempt(lambda: os.link(path, '/workspace/hard'))\n"
        "    attempt(lambda: open('/workspace/hard', 'w').write('evil'))\n"
        "top = os.open('/workspace', os.O_RDONLY | os.O_DIRECTORY)\n"
        "attempt(lambda: os.write(os.open('input/given.txt', os.O_WRONLY, dir_fd=top), b'evil'))\n"
        "attempt(lambda: os.rename('/workspace/d/../input', '/workspace/moved'))\n"
        "attempt(lambda: os.rmdir('/workspace/d/../input'))\n"
        "attempt(lambda: os.mkdir('/workspace/d/../input'))\n"
        "attempt(lambda: open('/workspace/d/../input/given.txt', 'w').write('evil'))\n",
    )
    assert came
    assert await prison.read_text("input/given.txt") == "as given"
    assert [file.path for file in await prison.list_files("input")] == ["input/given.txt"]
    assert (await prison.run("open('/input/given.txt').read()")).value == "as given"


async def test_what_the_instance_is_made_of_cannot_be_changed(prison: Sandbox) -> None:
    came = await _came(
        prison,
        "ours = ('/python-stdlib/os.py', '/python-stdlib/evil.py', '/.actbox/guest/modules', '/.actbox/box/inbox')\n"
        "for path in ours:\n"
        "    for mode in ('w', 'a', 'r+'):\n"
        "        attempt(lambda: open(path, mode).write('evil'))\n"
        "    attempt(lambda: os.unlink(path))\n",
    )
    assert set(came) <= {"PermissionError", "FileNotFoundError", "OSError"}
    assert (await prison.run("import os\nos.path.exists('/python-stdlib/evil.py')")).value is False


@pytest.mark.slow
async def test_nothing_of_the_hosts_environment_is_seen(prison: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hidden")
    async with actbox.open_sandbox("wasm", policy=actbox.Policy(variables={"GIVEN": "1"})) as box:
        result = await box.run("import os\nsorted(os.environ)")
    assert result.value == ["GIVEN", "PYTHONHOME", "PYTHONPATH", "PYTHONUNBUFFERED"]


@pytest.mark.slow
async def test_no_socket_leads_anywhere(prison: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        came = await _came(
            prison,
            "import _eryx, _socket, asyncio, socket, ssl, urllib.request, http.client\n"
            "for host in ('127.0.0.1', 'localhost', '0.0.0.0', '::1', '0x7f.1'):\n"
            "    attempt(lambda: socket.create_connection((host, port), 1))\n"
            "    attempt(lambda: _socket.socket(2, 1).connect((host, port)))\n"
            "    attempt(lambda: _socket.socket(2, 2).connect((host, port)))\n"
            "    attempt(lambda: _eryx._eryx_tcp_connect(host, port)[1].upper())\n"
            "    attempt(lambda: _eryx._eryx_tls_upgrade(1, host)[1].upper())\n"
            "    attempt(lambda: urllib.request.urlopen(f'http://{host}:{port}/', timeout=1).read())\n"
            "    attempt(lambda: asyncio.run(asyncio.open_connection(host, port)))\n"
            "attempt(lambda: _socket.socket(2, 1).bind(('127.0.0.1', 0)))\n",
            port=server.getsockname()[1],
        )
        assert len(came) == 36
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import urllib.request\nurllib.request.urlopen('http://example.com')",
        "import asyncio\nawait asyncio.open_connection('1.1.1.1', 80)",
        "import asyncio\nawait asyncio.open_connection('example.com', 80)",
        "import asyncio\nawait asyncio.start_server(print, port=8080)",
        "import asyncio\nawait asyncio.get_running_loop().getaddrinfo('example.com', 80)",
    ],
)
async def test_a_network_that_is_not_there_is_named(prison: Sandbox, program: str) -> None:
    result = await prison.run(program)
    assert result.error is not None
    assert result.error.kind is ErrorKind.NETWORK
    assert "no network" in result.error.hint
    assert result.error.line == 2


@pytest.mark.slow
def test_what_a_program_prints_is_not_the_hosts_output() -> None:
    program = (
        "import asyncio, actbox\n"
        "async def main():\n"
        "    async with actbox.open_sandbox('wasm') as box:\n"
        "        await box.run(\"import os\\nos.write(1, b'evil')\\nos.write(2, b'evil')\\nprint('evil')\")\n"
        "asyncio.run(main())\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=True)
    assert (told.stdout, told.stderr) == (b"", b"")


async def test_the_librarys_own_files_lie_where_nobody_else_can_put_them(prison: Sandbox) -> None:
    from actbox.sandbox.engines.wasm.runtime import runtime

    folder = Path(runtime().folder)
    assert list(folder.glob("eryx-embedded/*.cwasm"))
    status = folder.stat()
    assert (status.st_uid, status.st_mode & 0o077) == (os.getuid(), 0)


@pytest.mark.slow
async def test_runs_that_go_on_at_once_do_not_see_each_other(prison: Sandbox) -> None:
    there, looked = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        there.set()
        await looked.wait()

    hiding = asyncio.create_task(
        prison.run(
            "import json, os\nopen('/tmp/mine', 'w').write('x')\njson.mine = os.environ['MINE'] = 'x'\nwait()\n"
            "os.listdir('/tmp')",
            tools=[wait],
        )
    )
    try:
        await there.wait()
        seen = await prison.run("import json, os\n[os.listdir('/tmp'), hasattr(json, 'mine'), 'MINE' in os.environ]")
    finally:
        looked.set()
    assert seen.value == [[], False, False], seen.error
    assert (await hiding).value == ["mine"]


@pytest.mark.slow
async def test_no_program_can_put_a_link_in_the_place_of_a_folder_that_instances_are_given(prison: Sandbox) -> None:
    """Neither of `/output`, nor of what others beside it get as that."""
    program = (
        "import os, posix\n"
        "done = []\n"
        "def attempt(function, *arguments, **options):\n"
        "    try:\n"
        "        function(*arguments, **options)\n"
        "        done.append(str(arguments[-1]))\n"
        "    except OSError:\n"
        "        pass\n"
        "top = posix.open('/workspace', posix.O_RDONLY | posix.O_DIRECTORY)\n"
        "for name in ('output', 'input'):\n"
        "    for place, options in ((f'/workspace/{name}', {}), (name, {'dir_fd': top})):\n"
        "        attempt(posix.rmdir, place, **options)\n"
        "        attempt(posix.symlink, '..', place, **options)\n"
    )
    beside = await prison.run(program + "beside()\ndone", tools=[_beside(prison)])
    assert beside.success, beside.error
    assert not any(place.startswith("/") for place in beside.value), beside.value
    result = await prison.run("import os\nopen('/output/x', 'w').write('1')\nos.listdir('/output')")
    assert (result.value, [artifact.name for artifact in result.artifacts]) == (["x", "y"], ["x"]), result.error
    assert result.warnings == ()


def _beside(box: Sandbox) -> Callable[[], Awaitable[None]]:
    async def beside() -> None:
        """Run a program while another one runs."""
        result = await box.run("import os\nopen('/output/y', 'w').write('1')\nos.listdir('/output')")
        assert result.value == ["y"], result.error

    return beside


@pytest.mark.slow
async def test_a_workspace_in_whose_place_a_link_lies_is_not_given(prison: Sandbox, tmp_path: Path) -> None:
    folder = prison._place.folder  # type: ignore[attr-defined]
    (tmp_path / "output").mkdir()
    os.rename(folder, folder + "-away")
    os.symlink(tmp_path, folder)
    try:
        result = await prison.run("import os\nos.listdir('/workspace')")
    finally:
        os.unlink(folder)
        os.rename(folder + "-away", folder)
    assert result.error is not None
    assert (result.error.kind, result.value) == (ErrorKind.SANDBOX, None)
    again = [(await prison.run("1 + 1")).value for _ in range(3)]  # one that was made ahead then has seen the same
    assert again[-1] == 2
