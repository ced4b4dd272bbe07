"""File names of a session's programs: each its own, found without trying all earlier ones."""

from __future__ import annotations

from actbox.sandbox.guest.program import FileNames


class Counted(set[str]):
    """A set that counts how often it was asked."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


def test_each_program_of_a_session_has_its_own_file_name() -> None:
    names = FileNames()
    given = ["program.py", "program.py", "program-3.py", "program.py", "a.b.py", "a.b.py", "plain", "plain"]
    assert [names.unused(name) for name in given] == [
        "program.py",
        "program-2.py",
        "program-3.py",
        "program-4.py",
        "a.b.py",
        "a.b-2.py",
        "plain",
        "plain-2",
    ]
    assert "a.b-2.py" in names
    assert "a.b-3.py" not in names


def test_a_name_is_found_in_two_lookups_however_many_programs_a_session_has_had() -> None:
    names = FileNames()
    counted = names._used = Counted()
    for _ in range(1_000):
        names.unused("program.py")
    assert len(counted) == 1_000
    assert counted.asked <= 2_000
