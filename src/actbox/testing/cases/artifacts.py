"""Cases of artifacts: files that a run leaves below `/output`."""

from __future__ import annotations

import pytest

from actbox.core.events import ArtifactCreated, Completed
from actbox.sandbox.contract import Sandbox

from .ground import Cases, OpenBox
from .needs import FILES, PARTIAL, case, limit, python, word


class ArtifactCases(Cases):
    """Files below `/output` that are new or changed come with the result."""

    def _leave(self, name: str, text: str) -> str:
        return self.words.write(f"output/{name}", text)

    @case(FILES, word("write"))
    async def test_a_file_in_output_is_an_artifact(self, box: Sandbox) -> None:
        """`name` is the file's path below `/output`, `data` its bytes."""
        result = await box.run(self.program(self._leave("a.txt", "ü")))
        assert [(artifact.name, artifact.data, artifact.size) for artifact in result.artifacts] == [
            ("a.txt", "ü".encode(), 2)
        ]
        assert result.artifact("a.txt").data == "ü".encode()

    @pytest.mark.parametrize(
        ("name", "media_type"),
        [
            ("a.csv", "text/csv"),
            ("a.png", "image/png"),
            ("a.json", "application/json"),
            ("a.weird", "application/octet-stream"),
        ],
    )
    @case(FILES, word("write"))
    async def test_an_artifact_has_the_media_type_of_its_name(self, box: Sandbox, name: str, media_type: str) -> None:
        """The media type follows from the name; content is never interpreted."""
        result = await box.run(self.program(self._leave(name, "x")))
        assert [artifact.media_type for artifact in result.artifacts] == [media_type]

    @case(FILES, word("write"))
    async def test_only_what_a_run_made_or_changed_is_its_artifact(self, box: Sandbox) -> None:
        """A file that an earlier run or the host left below `/output` is not an artifact."""
        await box.write_text("output/hosts", "1")
        await box.run(self.program(self._leave("old", "1"), self._leave("changed", "1")))
        second = await box.run(self.program(self._leave("changed", "22"), self._leave("new", "3")))
        assert sorted(artifact.name for artifact in second.artifacts) == ["changed", "new"]
        assert (await box.run(self.program(self.words.answer("1")))).artifacts == ()

    @case(FILES, word("write"))
    async def test_files_elsewhere_are_no_artifacts(self, box: Sandbox) -> None:
        """A file outside of `/output` is not an artifact."""
        result = await box.run(self.program(self.words.write("a.txt", "x")))
        assert result.success
        assert result.artifacts == ()

    @case(FILES, word("write"), PARTIAL)
    async def test_artifacts_of_a_failed_run_are_kept(self, box: Sandbox) -> None:
        """Files that were made before an error are artifacts."""
        result = await box.run(self.program(self._leave("partial", "x"), self.words.fail("boom")))
        assert not result.success
        assert [artifact.name for artifact in result.artifacts] == ["partial"]

    @case(FILES, word("write"))
    async def test_artifacts_are_events_before_the_last(self, box: Sandbox) -> None:
        """There is an `ArtifactCreated` event for each artifact, then `Completed`."""
        program = self.program(self._leave("a", "1"), self._leave("b", "2"))
        events = [event async for event in box.stream(program)]
        assert isinstance(events[-1], Completed)
        told = [event.artifact for event in events if isinstance(event, ArtifactCreated)]
        assert tuple(told) == events[-1].result.artifacts
        assert [artifact.name for artifact in told] == ["a", "b"]

    @case(FILES, word("write"))
    async def test_an_artifact_stays_in_the_workspace(self, box: Sandbox) -> None:
        """Collecting an artifact does not remove its file."""
        await box.run(self.program(self._leave("a", "1")))
        assert await box.read_file("output/a") == b"1"

    @case(FILES, word("write"), limit("artifacts"))
    async def test_too_many_artifacts_are_left_out_with_a_warning(self, open_box: OpenBox) -> None:
        """Artifacts beyond `Limits.artifacts` are left out, with a warning."""
        box = await open_box(artifacts=3)
        result = await box.run(self.program(*(self._leave(str(n), "x") for n in range(6))))
        assert (len(result.artifacts), result.success) == (3, True)
        assert result.warnings

    @case(FILES, word("write"), limit("artifact_mib"))
    async def test_too_large_an_artifact_is_left_out_with_a_warning_that_names_it(self, open_box: OpenBox) -> None:
        """`Limits.artifact_mib` is for all artifacts of one run together."""
        box = await open_box(artifact_mib=1)
        result = await box.run(self.program(self._leave("small", "x"), self._leave("large", "x" * 1_200_000)))
        assert [artifact.name for artifact in result.artifacts] == ["small"]
        assert any("large" in warning for warning in result.warnings)

    @case(FILES, python("core"))
    async def test_an_artifact_may_be_any_bytes(self, box: Sandbox) -> None:
        """The `data` of an artifact may be any bytes, and is never interpreted."""
        result = await box.run("with open('output/all', 'wb') as file: file.write(bytes(range(256)) * 40)")
        assert result.artifact("all").data == bytes(range(256)) * 40

    @case(FILES, python("full"))
    async def test_artifacts_in_folders_are_sorted_by_path(self, box: Sandbox) -> None:
        """Artifacts are sorted by `name`, their path below `/output`."""
        code = (
            "import os\nos.makedirs('output/sub/sub')\nfor n in ('sub/sub/a', 'z', 'sub/b'): open(f'output/{n}', 'w')"
        )
        result = await box.run(code)
        assert sorted(artifact.name for artifact in result.artifacts) == ["sub/b", "sub/sub/a", "z"]

    @case(FILES, python("full"))
    async def test_an_output_folder_that_was_removed_is_made_anew_with_a_warning(self, box: Sandbox) -> None:
        """If a program removed `/output`, it is made anew for the next program, whose result has a warning."""
        first = await box.run("import os\nos.rmdir('output')")
        assert first.artifacts == ()
        if not first.success:
            return  # the engine does not let a program remove it
        assert (await box.run("open('output/a', 'w').write('x')")).artifact("a").data == b"x"

    @case(FILES, python("full"))
    async def test_links_in_output_are_not_followed(self, box: Sandbox) -> None:
        """A link below `/output` to a file of the host is not followed."""
        result = await box.run("import os\nos.symlink('/etc/hostname', 'output/link')\nos.symlink('/etc', 'output/d')")
        assert result.success, result
        assert all(artifact.data == b"" for artifact in result.artifacts)
