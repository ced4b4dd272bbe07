"""Cases of the files below `/workspace`, through file methods and from programs."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from actbox.core.errors import FileError, InvalidValue, Unsupported
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox

from .ground import Cases, failed, refuses_value
from .needs import FILES, ISOLATED, case, python, word

ODD_NAMES = ["-rf", "two words", "new\nline", "ümlaut 😀", "'quote\"", "a" * 200, "..hidden", "$(x)*?", "~", "%2e%2e"]
LEAVES = ["../up", "a/../../b", "/etc/passwd", "/", "", "a\0b", "/workspacex/a"]


class FileCases(Cases):
    """The file methods."""

    @pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
    @case(FILES)
    async def test_a_file_goes_in_and_comes_out_whatever_it_is_called(self, box: Sandbox, name: str) -> None:
        """Neither the name nor the content of a file is interpreted."""
        await box.write_file(f"folder/{name}", b"\0\xff\r\n")
        assert await box.read_file(f"folder/{name}") == b"\0\xff\r\n"
        assert (await box.stat(f"folder/{name}")).size == 4
        assert [entry.path for entry in await box.list_files("folder")] == [f"folder/{name}"]
        await box.move(f"folder/{name}", f"other/{name}")
        assert [entry.path for entry in await box.list_files("other", recursive=True)] == [f"other/{name}"]
        await box.remove_file(f"other/{name}")
        assert await box.list_files("other") == []

    @case(FILES)
    async def test_writing_makes_parent_folders_and_replaces(self, box: Sandbox) -> None:
        """`write_file` creates or replaces a file, making its parent folders."""
        await box.write_file("a/b/c.txt", b"a long text")
        await box.write_file("a/b/c.txt", b"short")
        assert await box.read_file("a/b/c.txt") == b"short"

    @case(FILES)
    async def test_a_file_has_the_mode_it_was_given_and_a_replaced_one_keeps_its_own(self, box: Sandbox) -> None:
        """A file has the permission bits of `mode`, else those of the file that it replaces, else 0o644."""
        await box.write_file("plain", b"new")
        if (await box.stat("plain")).mode is None:
            with pytest.raises(Unsupported):
                await box.write_file("plain", b"", mode=0o755)
            return
        await box.write_file("output/script", b"old", mode=0o750)
        await box.write_file("output/script", b"new")
        await box.write_text("/input/script", "old")
        await box.write_file("/input/script", b"new", mode=0o700)
        modes = {entry.path: entry.mode for entry in await box.list_files(recursive=True) if entry.kind == "file"}
        assert modes == {"plain": 0o644, "output/script": 0o750, "input/script": 0o700}
        await box.move("input/script", "output/script")
        assert (await box.stat("output/script")).mode == 0o700

    @case(FILES)
    async def test_what_is_no_mode_is_refused(self, box: Sandbox) -> None:
        """A `mode` beyond permission bits raises `InvalidValue`, and no file is written."""
        for mode in (-1, 0o1000, 0o4755, True, "755", 6.5):
            await refuses_value(box.write_file("a", b"", mode=mode))  # type: ignore[arg-type]
        assert "a" not in [entry.path for entry in await box.list_files()]

    @case(FILES)
    async def test_an_empty_file_is_a_file(self, box: Sandbox) -> None:
        """A file may be empty."""
        await box.write_file("empty", b"")
        assert (await box.read_file("empty"), (await box.stat("empty")).size) == (b"", 0)
        assert "empty" in [entry.path for entry in await box.list_files()]

    @case(FILES)
    async def test_text_is_utf_8_and_keeps_its_line_ends(self, box: Sandbox) -> None:
        """`read_text` and `write_text` are UTF-8."""
        await box.write_text("a.txt", "ü\r\n😀\n")
        assert await box.read_file("a.txt") == "ü\r\n😀\n".encode()
        assert await box.read_text("a.txt") == "ü\r\n😀\n"

    @case(FILES)
    async def test_text_that_utf_8_cannot_say_is_refused(self, box: Sandbox) -> None:
        """Text that UTF-8 cannot encode raises `InvalidValue`, and no file is written."""
        await refuses_value(box.write_text("a.txt", "\ud800"))
        with pytest.raises(FileError):
            await box.stat("a.txt")

    @case(FILES)
    async def test_a_listing_is_sorted_and_tells_kinds_and_sizes(self, box: Sandbox) -> None:
        """`list_files` returns the entries of a folder, sorted by path."""
        for name in ("d/b", "d/a", "d/sub/x"):
            await box.write_file(name, b"xyz")
        entries = await box.list_files("d")
        assert [(entry.path, entry.kind) for entry in entries] == [
            ("d/a", "file"),
            ("d/b", "file"),
            ("d/sub", "folder"),
        ]
        assert [entry.size for entry in entries[:2]] == [3, 3]
        assert [entry.path for entry in await box.list_files("d", recursive=True)] == ["d/a", "d/b", "d/sub", "d/sub/x"]

    @case(FILES)
    async def test_the_time_of_a_file_is_when_it_was_written(self, box: Sandbox) -> None:
        """`modified` is the Unix time of writing; clocks may differ by up to a day."""
        await box.write_file("a", b"x")
        assert abs((await box.stat("a")).modified - time.time()) < 86_400

    @case(FILES)
    async def test_a_workspace_has_input_and_output_from_the_start(self, box: Sandbox) -> None:
        """A new workspace contains `input` and `output` and nothing else."""
        assert [(entry.path, entry.kind) for entry in await box.list_files()] == [
            ("input", "folder"),
            ("output", "folder"),
        ]

    @case(FILES)
    async def test_the_workspace_has_one_place_with_several_names(self, box: Sandbox) -> None:
        """A path is relative to `/workspace`, or absolute below it, or `/input` or `/output`."""
        await box.write_text("/input/a", "in")
        await box.write_text("output/b", "out")
        await box.write_text("/workspace/c", "c")
        assert await box.read_text("input/a") == await box.read_text("/workspace/input/a") == "in"
        assert await box.read_text("/output/b") == "out"
        assert await box.read_text("./c") == "c"

    @case(FILES)
    async def test_folders_are_made_with_their_parents(self, box: Sandbox) -> None:
        """`make_dir` makes missing parents, and accepts a directory that exists already."""
        for _ in range(2):
            await box.make_dir("a/b/c")
        assert (await box.stat("a/b/c")).kind == "folder"

    @case(FILES)
    async def test_a_folder_that_is_not_empty_is_removed_only_with_all_below_it(self, box: Sandbox) -> None:
        """`remove_file` removes a file or an empty folder; with `recursive` a folder and all below it."""
        await box.write_file("a/b/c", b"x")
        with pytest.raises(FileError):
            await box.remove_file("a")
        assert await box.read_file("a/b/c") == b"x"
        await box.remove_file("a", recursive=True)
        with pytest.raises(FileError):
            await box.stat("a")

    @case(FILES)
    async def test_an_empty_folder_is_removed(self, box: Sandbox) -> None:
        """`remove_file` removes an empty directory without `recursive`."""
        await box.make_dir("a")
        await box.remove_file("a")
        with pytest.raises(FileError):
            await box.stat("a")

    @case(FILES)
    async def test_moving_makes_parent_folders_and_replaces(self, box: Sandbox) -> None:
        """`move` renames, making the target's parent folders and replacing a file that is there."""
        await box.write_file("a", b"new")
        await box.write_file("to/b", b"old")
        await box.move("a", "to/b")
        await box.move("to/b", "far/away/c")
        assert await box.read_file("far/away/c") == b"new"
        with pytest.raises(FileError):
            await box.stat("a")

    @case(FILES)
    async def test_what_is_missing_is_an_error_that_names_it(self, box: Sandbox) -> None:
        """A missing file raises `FileError` with the errno of the operating system."""
        for call in (
            lambda: box.read_file("no/such.txt"),
            lambda: box.stat("no/such.txt"),
            lambda: box.list_files("no/such.txt"),
            lambda: box.remove_file("no/such.txt"),
            lambda: box.move("no/such.txt", "b"),
        ):
            with pytest.raises(FileError, match=r"no/such\.txt") as caught:
                await call()
            assert caught.value.errno in (errno.ENOENT, None)

    @case(FILES)
    async def test_a_folder_is_no_file_and_a_file_no_folder(self, box: Sandbox) -> None:
        """A directory given as a file, or a file as a directory, raises `FileError`."""
        await box.write_file("folder/file", b"x")
        for call in (
            lambda: box.read_file("folder"),
            lambda: box.write_file("folder", b""),
            lambda: box.list_files("folder/file"),
            lambda: box.write_file("folder/file/below", b""),
        ):
            with pytest.raises(FileError):
                await call()
        assert await box.read_file("folder/file") == b"x"

    @pytest.mark.parametrize("path", LEAVES, ids=ascii)
    @case(FILES)
    async def test_a_path_that_leaves_the_workspace_is_refused(self, box: Sandbox, path: str) -> None:
        """A path that leaves the workspace raises `InvalidValue`, for each method."""
        for call in (
            lambda: box.read_file(path),
            lambda: box.write_file(path, b""),
            lambda: box.remove_file(path, recursive=True),
            lambda: box.move(path, "here"),
        ):
            with pytest.raises(InvalidValue):
                await call()

    @case(FILES)
    async def test_what_is_no_path_or_no_bytes_is_refused(self, box: Sandbox) -> None:
        """Arguments that are no paths or no bytes raise `InvalidValue`."""
        for call in (
            lambda: box.read_file(None),  # type: ignore[arg-type]
            lambda: box.write_file(5, b""),  # type: ignore[arg-type]
            lambda: box.write_file("a", "text"),  # type: ignore[arg-type]
        ):
            with pytest.raises((InvalidValue, TypeError)):
                await call()


class WorkspaceCases(Cases):
    """The files below `/workspace` as a program sees them."""

    @case(FILES, word("write"))
    async def test_a_program_reads_what_the_host_wrote(self, box: Sandbox) -> None:
        """The workspace is shared by runs and file methods."""
        await box.write_text("folder/a.txt", "from the host: ü\n")
        assert await self.answer(box, self.words.answer(self.words.read(f"{box.root}/folder/a.txt"))) == (
            "from the host: ü\n"
        )

    @case(FILES, word("write"))
    async def test_the_host_reads_what_a_program_wrote(self, box: Sandbox) -> None:
        """The workspace is shared by runs and file methods."""
        assert (await box.run(self.program(self.words.write(f"{box.root}/a.txt", "inside: ü\n")))).success
        assert await box.read_text("a.txt") == "inside: ü\n"

    @case(FILES, word("write"))
    async def test_files_last_from_run_to_run(self, box: Sandbox) -> None:
        """Files below `/workspace` last from run to run."""
        await self.answer(box, self.words.write(f"{box.root}/kept.txt", "kept"))
        assert await self.answer(box, self.words.answer(self.words.read(f"{box.root}/kept.txt"))) == "kept"

    @case(FILES, word("write"))
    async def test_a_program_starts_in_the_workspace(self, box: Sandbox) -> None:
        """A program's relative paths start at `root`."""
        await box.write_text("a.txt", "here")
        assert await self.answer(box, self.words.answer(self.words.read("a.txt"))) == "here"

    @case(FILES, word("write"))
    async def test_a_program_may_change_what_the_host_wrote(self, box: Sandbox) -> None:
        """A program may change files that the host wrote, except below `/input`."""
        await box.write_text("a.txt", "old")
        await self.answer(box, self.words.write(f"{box.root}/a.txt", "new"))
        assert await box.read_text("a.txt") == "new"

    @case(FILES, word("write"))
    async def test_files_of_a_program_are_below_input(self, box: Sandbox) -> None:
        """`files` are placed below `/input`."""
        program = self.program(
            self.words.answer(self.words.listed(self.words.read("input/a/b.csv"), self.words.read("input/c"))),
            files={"a/b.csv": "1,2", "c": b"x"},
        )
        assert self.words.answered(await box.run(program)) == ["1,2", "x"]
        assert await box.read_file("input/a/b.csv") == b"1,2"

    @case(FILES, ISOLATED, word("write"))
    async def test_a_program_cannot_write_its_inputs(self, box: Sandbox) -> None:
        """Programs cannot write below `/input`."""
        await box.write_text("input/a.txt", "in")
        for name in ("a.txt", "new.txt"):
            failed(await box.run(self.program(self.words.write(f"{box.root}/input/{name}", "changed"))))
        assert await box.read_text("input/a.txt") == "in"

    @case(FILES, word("write"))
    async def test_a_missing_file_is_an_error_of_the_program(self, box: Sandbox) -> None:
        """The message about a missing file reveals nothing of the host."""
        failed(await box.run(self.program(self.words.answer(self.words.read(f"{box.root}/missing")))))

    @case(FILES, python("full"))
    async def test_no_file_method_follows_a_link(self, box: Sandbox, tmp_path: Path) -> None:
        """No file method follows a link; `stat` describes the link itself."""
        secret = tmp_path / "secret.txt"
        secret.write_text("secret")
        code = "import os\nos.symlink(path, 'link')\nos.symlink(os.path.dirname(path), 'folder')"
        assert (await box.run(Program(code, inputs={"path": str(secret)}))).success
        described = await box.stat("link")
        assert (described.kind, described.target) == ("link", str(secret))
        assert {entry.path: entry.target for entry in await box.list_files() if entry.kind != "folder"} == {
            "link": str(secret),
            "folder": str(tmp_path),
        }
        for call in (
            lambda: box.read_file("link"),
            lambda: box.list_files("folder"),
            lambda: box.read_file("folder/secret.txt"),
            lambda: box.write_file("folder/planted", b""),
        ):
            with pytest.raises(FileError):
                await call()
        await box.write_file("link", b"replaced")
        assert (secret.read_text(), (tmp_path / "planted").exists()) == ("secret", False)

    @case(FILES, python("full"))
    async def test_an_edited_script_is_still_executable(self, box: Sandbox) -> None:
        """`write_file` keeps the mode that a program gave a file."""
        await box.write_text("script", "#!/bin/sh\necho old\n")
        assert (await box.run("import os\nos.chmod('script', 0o755)")).success
        await box.write_text("script", "#!/bin/sh\necho new\n")
        assert await self.answer(box, "import subprocess\nsubprocess.check_output('./script', text=True)") == "new\n"

    @case(FILES, python("full"))
    async def test_a_named_pipe_blocks_nobody(self, box: Sandbox) -> None:
        """Reading a named pipe fails instead of blocking: only regular files are read."""
        assert (await box.run("import os\nos.mkfifo('pipe')\nos.mkfifo('output/pipe')")).success
        assert (await box.stat("pipe")).kind == "other"
        with pytest.raises(FileError):
            await box.read_file("pipe")

    @case(FILES, python("full"))
    async def test_a_program_can_remove_and_lock_its_files_and_the_next_goes_on(self, box: Sandbox) -> None:
        """A sandbox works on whatever a program did to its workspace."""
        await box.write_file("folder/inner/a", b"x")
        locked = "import os\nos.chmod('folder/inner', 0)\nos.chmod('folder', 0)\nos.mkdir('b')\nos.rmdir('b')"
        assert (await box.run(locked)).success
        await box.remove_file("folder", recursive=True)
        await self.still_works(box)
