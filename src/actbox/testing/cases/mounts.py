"""Cases of mounts, through which a program sees files of the host, and of allowed domains."""

from __future__ import annotations

import contextlib
from pathlib import Path

from actbox.core.domains import AllowedDomain
from actbox.core.errors import FileError
from actbox.core.mounts import FileMount
from actbox.core.policy import Policy

from .ground import Cases, OpenBox, failed
from .needs import DOMAINS, FILES, case, kept, mount, word


class MountCases(Cases):
    """`Policy.mounts`, in each mode that the engine has."""

    def _folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "data"
        (folder / "sub").mkdir(parents=True)
        (folder / "a.txt").write_text("of the host")
        (folder / "sub" / "ü.txt").write_text("deeper")
        return folder

    @case(mount("ro"), word("write"))
    async def test_a_program_reads_a_mounted_folder(self, open_box: OpenBox, tmp_path: Path) -> None:
        """A program can read an `ro` mount."""
        box = await open_box(Policy(mounts=(FileMount(self._folder(tmp_path), "/data", "ro"),)))
        read = self.words.listed(self.words.read("/data/a.txt"), self.words.read("/data/sub/ü.txt"))
        assert await self.answer(box, self.words.answer(read)) == ["of the host", "deeper"]

    @case(mount("ro"), word("write"))
    async def test_a_program_cannot_write_to_it(self, open_box: OpenBox, tmp_path: Path) -> None:
        """A program cannot write to an `ro` mount."""
        folder = self._folder(tmp_path)
        box = await open_box(Policy(mounts=(FileMount(folder, "/data", "ro"),)))
        for name in ("a.txt", "new.txt"):
            failed(await box.run(self.program(self.words.write(f"/data/{name}", "changed"))))
        assert (folder / "a.txt").read_text() == "of the host"
        assert not (folder / "new.txt").exists()

    @case(mount("ro"), word("write"))
    async def test_a_relative_path_lies_below_input(self, open_box: OpenBox, tmp_path: Path) -> None:
        """A relative `mount_path` lies below `/input`."""
        box = await open_box(Policy(mounts=(FileMount(self._folder(tmp_path), "sales", "ro"),)))
        assert await self.answer(box, self.words.answer(self.words.read("/input/sales/a.txt"))) == "of the host"

    @case(mount("ro"), word("write"))
    async def test_a_single_file_can_be_mounted(self, open_box: OpenBox, tmp_path: Path) -> None:
        """A single file of the host can be mounted."""
        box = await open_box(Policy(mounts=(FileMount(self._folder(tmp_path) / "a.txt", "/input/one.txt", "ro"),)))
        assert await self.answer(box, self.words.answer(self.words.read("/input/one.txt"))) == "of the host"

    @case(mount("rw"), word("write"))
    async def test_what_a_program_writes_is_on_the_host(self, open_box: OpenBox, tmp_path: Path) -> None:
        """A program can change the host's own files in an `rw` mount."""
        folder = self._folder(tmp_path)
        box = await open_box(Policy(mounts=(FileMount(folder, "/data", "rw"),)))
        assert (await box.run(self.program(self.words.write("/data/a.txt", "changed")))).success
        assert (folder / "a.txt").read_text() == "changed"

    @case(mount("rw"), word("write"))
    async def test_what_is_mounted_outlives_workspaces(self, open_box: OpenBox, tmp_path: Path) -> None:
        """A mounted directory stays unchanged when a throwaway workspace that contained it is removed."""
        folder = self._folder(tmp_path)
        modes = [path.stat().st_mode for path in (folder, folder / "sub")]
        box = await kept(self, open_box, Policy(mounts=(FileMount(folder, "/workspace/own/data", "rw"),)))
        read = self.program(self.words.answer(self.words.read("/workspace/own/data/sub/ü.txt")))
        for _ in range(3):
            assert self.words.answered(await box.run_alone(read)) == "deeper"
        await box.stop()
        assert ((folder / "a.txt").read_text(), (folder / "sub" / "ü.txt").read_text()) == ("of the host", "deeper")
        assert [path.stat().st_mode for path in (folder, folder / "sub")] == modes

    @case(mount("rw"), FILES, word("write"))
    async def test_nothing_in_a_mount_is_removed_with_its_place(self, open_box: OpenBox, tmp_path: Path) -> None:
        """`remove_file` does not remove files of a mount; it may refuse a directory that contains one."""
        folder = self._folder(tmp_path)
        box = await kept(self, open_box, Policy(mounts=(FileMount(folder, "/workspace/own/data", "rw"),)))
        read = self.words.answer(self.words.read("/workspace/own/data/a.txt"))
        assert await self.answer(box, read) == "of the host"
        for path in ("work/data", "work"):
            with contextlib.suppress(FileError):
                await box.remove_file(path, recursive=True)
        assert ((folder / "a.txt").read_text(), (folder / "sub" / "ü.txt").read_text()) == ("of the host", "deeper")

    @case(mount("overlay"), word("write"))
    async def test_what_a_program_changes_in_an_overlay_it_alone_sees(self, open_box: OpenBox, tmp_path: Path) -> None:
        """Changes in an `overlay` mount are seen by the program alone, and the host's files stay unchanged."""
        folder = self._folder(tmp_path)
        box = await open_box(Policy(mounts=(FileMount(folder, "/data", "overlay"),)))
        changed = (self.words.write("/data/a.txt", "changed"), self.words.answer(self.words.read("/data/a.txt")))
        assert await self.answer(box, *changed) == "changed"
        assert (folder / "a.txt").read_text() == "of the host"
        assert await self.answer(box, self.words.answer(self.words.read("/data/a.txt"))) == "of the host"

    @case(mount("overlay"), word("write"))
    async def test_changes_that_are_kept_are_in_the_result(self, open_box: OpenBox, tmp_path: Path) -> None:
        """With `keep_changes`, the changes in an overlay are in `ExecutionResult.changes`."""
        folder = self._folder(tmp_path)
        box = await open_box(Policy(mounts=(FileMount(folder, "/data", "overlay", keep_changes=True),)))
        result = await box.run(self.program(self.words.write("/data/a.txt", "changed")))
        assert [(change.mount, change.path, change.kind, change.data) for change in result.changes] == [
            ("/data", "a.txt", "changed", b"changed")
        ]

    @case(mount("ro"), FILES, word("write"))
    async def test_files_of_a_program_and_mounts_lie_beside_each_other(self, open_box: OpenBox, tmp_path: Path) -> None:
        """Files of a program and mounts lie beside each other below `/input`."""
        box = await open_box(Policy(mounts=(FileMount(self._folder(tmp_path), "sales", "ro"),)))
        read = self.words.listed(self.words.read("/input/sales/a.txt"), self.words.read("/input/own.txt"))
        result = await box.run(self.program(self.words.answer(read), files={"own.txt": "own"}))
        assert self.words.answered(result) == ["of the host", "own"]

    @case(DOMAINS)
    async def test_a_policy_with_domains_is_kept(self, open_box: OpenBox) -> None:
        """`Policy.domains` opens more of the network, through the egress proxy."""
        await self.still_works(await open_box(Policy(domains=(AllowedDomain("api.example.com"),))))
