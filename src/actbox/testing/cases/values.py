"""What a program comes to and what it is given: values, inputs, and that nothing lasts from run to run."""

from __future__ import annotations

from typing import Any

import pytest

from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.sandbox.contract import Sandbox

from .case import Cases, OpenBox, case, kept
from .needs import CWD, FILES, NO_ERROR, SESSIONS, VALUE, python, word

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "negative": -17,
    "fraction": 2.5,
    "large": 2**53 - 1,
    "text": "a 'quoted' \"text\"\n\\",
    "empty text": "",
    "list": [1, [2, [3, []]]],
    "object": {"a": {"b": {"c": None}}, "": [False]},
    "table": [{"name": "x", "n": 1}, {"name": "y", "n": 2}],
}
EVERY_VALUE = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)


class ValueCases(Cases):
    """The value of the last expression."""

    @EVERY_VALUE
    @case(VALUE)
    async def test_the_last_expression_is_the_value(self, box: Sandbox, value: Any) -> None:
        """`value` is the last expression's value where that is JSON."""
        result = await box.run(self.program(self.words.let("x", "1"), self.words.literal(value)))
        assert result.success, result
        assert result.value == value
        assert type(result.value) is type(value)

    @case(VALUE)
    async def test_a_value_has_its_text(self, box: Sandbox) -> None:
        """`value_text` is how the language shows the value."""
        result = await box.run(self.program(self.words.literal([1, 2])))
        assert result.value_text is not None
        assert "1" in result.value_text and "2" in result.value_text

    @case(python("subset"))
    async def test_a_program_that_ends_in_a_statement_has_no_value(self, box: Sandbox) -> None:
        """`value_text` is `None` where there was no value."""
        result = await box.run("1 + 1\nx = 1")
        assert (result.success, result.value, result.value_text) == (True, None, None)

    @case()
    async def test_a_program_that_fails_has_no_value(self, box: Sandbox) -> None:
        """There is no value of what did not come to an end."""
        result = await box.run(self.program(self.words.fail("boom")))
        assert (result.value, result.value_text) == (None, None)

    @pytest.mark.parametrize("expression", ["{1, 2}", "b'x'", "float('nan')", "(n for n in [])", "len"])
    @case(python("core"))
    async def test_a_value_that_is_no_json_is_text(self, box: Sandbox, expression: str) -> None:
        """`value` is `None` for what JSON cannot say, and `value_text` its `repr`."""
        result = await box.run(expression)
        assert (result.success, result.value) == (True, None)
        assert result.value_text

    @case(python("core"))
    async def test_a_value_whose_repr_fails_does_not_fail_the_run(self, box: Sandbox) -> None:
        """What a program comes to is its own affair."""
        result = await box.run("class Bad:\n    def __repr__(self): raise ValueError('no')\nprint('ran')\nBad()")
        assert result.success, result
        assert (result.value, result.stdout) == (None, "ran\n")

    @case(python("standard library"))
    async def test_rich_forms_come_with_the_value(self, box: Sandbox) -> None:
        """`value_forms` has what a notebook would show."""
        code = "class Rich:\n    def _repr_html_(self): return '<b>hi</b>'\nRich()"
        assert (await box.run(code)).value_forms == {"text/html": "<b>hi</b>"}


class InputCases(Cases):
    """Values that a program is given."""

    @EVERY_VALUE
    @case()
    async def test_an_input_is_a_variable(self, box: Sandbox, value: Any) -> None:
        """`inputs` are JSON values bound as variables before the first line runs."""
        assert await self.answer(box, self.words.answer("given"), inputs={"given": value}) == value

    @case()
    async def test_several_inputs_are_several_variables(self, box: Sandbox) -> None:
        """Each has its own name."""
        program = self.words.answer(self.words.plus("one", "two"))
        assert await self.answer(box, program, inputs={"one": 40, "two": 2}) == 42

    @case()
    async def test_inputs_of_one_run_are_not_in_the_next(self, box: Sandbox) -> None:
        """Every run starts fresh."""
        assert await self.answer(box, self.words.answer("given"), inputs={"given": 1}) == 1
        assert not (await box.run(self.program(self.words.answer("given")))).success

    @case(python("subset"))
    async def test_what_a_program_does_to_an_input_stays_with_it(self, box: Sandbox) -> None:
        """Inputs are copies."""
        given = [1]
        result = await box.run(Program("given.append(2)\ngiven", inputs={"given": given}))
        assert (result.value, given) == ([1, 2], [1])


class StartCases(Cases):
    """The folder that a program starts in, and its variables."""

    @case(CWD, FILES, word("read"))
    async def test_a_program_starts_in_its_folder(self, box: Sandbox) -> None:
        """`cwd` is the folder that it starts in: relative to the working folder, or absolute."""
        await box.write_file("folder/there", b"yes")
        for cwd in ("folder", f"{box.root}/folder"):
            assert await self.answer(box, self.words.answer(self.words.read("there")), cwd=cwd) == "yes"
        assert not (await box.run(self.program(self.words.answer(self.words.read("there"))))).success

    @case(CWD, python("standard library"), FILES)
    async def test_a_program_imports_from_its_folder(self, box: Sandbox) -> None:
        """`cwd` is the folder that it imports from first."""
        for folder in ("", "folder/"):
            await box.write_file(f"{folder}kit_of_modules.py", f"where = {folder!r}".encode())
        result = await box.run(Program("import kit_of_modules\nkit_of_modules.where", cwd="folder"))
        assert result.value == "folder/"

    @case(CWD)
    async def test_a_program_whose_folder_is_missing_does_not_run_elsewhere(self, box: Sandbox) -> None:
        """It fails with exit code 126, as a command does."""
        result = await box.run(self.program(self.words.say("ran"), cwd="nowhere"))
        assert (result.exit_code, result.stdout) == (126, "")
        assert result.error is not None, NO_ERROR
        assert "nowhere" in result.error.message
        await self.still_works(box)

    @case(CWD, word("variable"))
    async def test_a_program_has_variables_of_its_own(self, open_box: OpenBox) -> None:
        """`env` are environment variables beside those of the policy, of one run."""
        box = await kept(self, open_box, Policy(variables={"KIT_OWN": "policy", "KIT_OTHER": "policy"}))
        both = [self.words.variable(name) for name in ("KIT_OWN", "KIT_OTHER")]
        answer = self.words.answer(self.words.listed(*both))
        assert await self.answer(box, answer, env={"KIT_OWN": "ü 1"}) == ["ü 1", "policy"]
        assert await self.answer(box, answer) == ["policy", "policy"]

    @case(CWD, SESSIONS, FILES, word("read"))
    async def test_in_a_session_the_folder_stays(self, box: Sandbox) -> None:
        """In a session both stay for the programs after it."""
        await box.write_file("folder/there", b"yes")
        answer = self.words.answer(self.words.read("there"))
        async with box.session() as session:
            for given in ({"cwd": "folder"}, {}):
                assert self.words.answered(await session.run(self.program(answer, **given))) == "yes"


class FreshCases(Cases):
    """Every run starts fresh."""

    @case()
    async def test_variables_belong_to_one_run(self, box: Sandbox) -> None:
        """A variable of one run is not there in the next."""
        first = self.program(self.words.let("kept", "1"), self.words.answer("kept"))
        assert self.words.answered(await box.run(first)) == 1
        assert not (await box.run(self.program(self.words.answer("kept")))).success

    @case(python("core"))
    async def test_what_is_done_to_builtins_belongs_to_one_run(self, box: Sandbox) -> None:
        """The interpreter itself is fresh."""
        assert (await box.run("import builtins, json\nbuiltins.kept = 1\njson.kept = 1")).success
        result = await box.run("import builtins, json\n[hasattr(builtins, 'kept'), hasattr(json, 'kept')]")
        assert result.value == [False, False]

    @case(python("full"))
    async def test_the_working_folder_and_the_environment_belong_to_one_run(self, box: Sandbox) -> None:
        """Variables, processes, memory, working folder and `/tmp` belong to one run."""
        assert (await box.run("import os\nos.environ['KEPT'] = '1'\nos.chdir('/')")).success
        assert (await box.run("import os\n['KEPT' in os.environ, os.getcwd()]")).value == [False, box.root]

    @case(word("variable"))
    async def test_variables_of_the_policy_are_in_every_run(self, open_box: OpenBox) -> None:
        """`Policy.variables` are the environment of every run, or refused by name."""
        box = await kept(self, open_box, Policy(variables={"KIT_VARIABLE": "ü 1"}))
        for _ in range(2):
            assert await self.answer(box, self.words.answer(self.words.variable("KIT_VARIABLE"))) == "ü 1"

    @case(word("variable"))
    async def test_variables_of_the_host_are_not_inherited(
        self, open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What the host has in its environment is no program's business."""
        monkeypatch.setenv("KIT_SECRET", "canary")
        box = await open_box()
        result = await box.run(self.program(self.words.answer(self.words.variable("KIT_SECRET"))))
        assert "canary" not in str(result.to_dict())

    @case(python("standard library"))
    async def test_randomness_differs_from_run_to_run(self, box: Sandbox) -> None:
        """Two runs do not draw the same numbers."""
        code = "import random, uuid\n[random.random(), str(uuid.uuid4())]"
        first, second = (await box.run(code)).value, (await box.run(code)).value
        assert first[0] != second[0] and first[1] != second[1]
