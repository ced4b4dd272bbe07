"""Cases of inputs and values, of a program's start, and of the fresh state of each run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .ground import BRINGS_MODULES, NO_ERROR, Cases, OpenBox, refuses_value
from .needs import CWD, FILES, SESSIONS, VALUE, case, kept, python, word

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
        """`value_text` is `None` if there was no value."""
        result = await box.run("1 + 1\nx = 1")
        assert (result.success, result.value, result.value_text) == (True, None, None)

    @case()
    async def test_a_program_that_fails_has_no_value(self, box: Sandbox) -> None:
        """A program that fails has no value."""
        result = await box.run(self.program(self.words.fail("boom")))
        assert (result.value, result.value_text) == (None, None)

    @pytest.mark.parametrize(
        "value", [{1, 2}, (1, (2,)), b"x", [float("nan")], {1: "a", "1": "b"}, {"!set": 1}], ids=repr
    )
    @case(python("subset"))
    async def test_a_value_that_json_lacks_crosses_whole(self, box: Sandbox, value: Any) -> None:
        """`value` has the types that the tagged form knows, and `to_dict()` is strict JSON all the same."""
        result = await box.run(repr(value).replace("nan", "float('nan')"))
        assert repr(result.value) == repr(value), result
        assert repr(ExecutionResult.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False))).value) == repr(
            value
        )
        given = await box.run(Program("given", inputs={"given": value}))
        assert repr(given.value) == repr(value), given

    @pytest.mark.parametrize("expression", ["(n for n in [])", "len", "[0, {'a': len}]"])
    @case(python("core"))
    async def test_a_value_that_cannot_cross_is_text_and_a_warning(self, box: Sandbox, expression: str) -> None:
        """If a value cannot cross, `value` is `None`, `value_text` is its `repr`, and a warning names the place."""
        result = await box.run(expression)
        assert (result.success, result.value) == (True, None)
        assert result.value_text
        place = "value[1]['a']" if expression.startswith("[") else "value"
        assert any(place in warning for warning in result.warnings), result

    @case(python("core"))
    async def test_a_value_whose_repr_fails_does_not_fail_the_run(self, box: Sandbox) -> None:
        """A run succeeds even if the `repr` of its value raises."""
        result = await box.run("class Bad:\n    def __repr__(self): raise ValueError('no')\nprint('ran')\nBad()")
        assert result.success, result
        assert (result.value, result.stdout) == (None, "ran\n")

    @case(python("standard library"))
    async def test_rich_forms_come_with_the_value(self, box: Sandbox) -> None:
        """`value_forms` has the forms that a notebook would show."""
        code = "class Rich:\n    def _repr_html_(self): return '<b>hi</b>'\nRich()"
        assert (await box.run(code)).value_forms == {"text/html": "<b>hi</b>"}

    @pytest.mark.parametrize("shown", ["Bad()", "display(Bad())"])
    @case(python("standard library"))
    async def test_a_rich_form_that_raises_is_told_on_standard_error(self, box: Sandbox, shown: str) -> None:
        """A broken form is left out; it fails no run."""
        result = await box.run(f"class Bad:\n    def _repr_html_(self): raise ValueError('no')\n{shown}")
        assert result.success, result
        assert result.value_forms == {}
        assert "_repr_html_ of a Bad raised ValueError('no'), and is left out" in result.stderr

    @pytest.mark.parametrize("way", ["", "from IPython.display import display\n"], ids=["by name", "IPython"])
    @case(python("standard library"))
    async def test_what_is_displayed_has_its_rich_forms(self, box: Sandbox, way: str) -> None:
        """`display` prints an object's text, and `value_forms` has the forms of the last, as a notebook would show."""
        code = "class Rich:\n    def _repr_html_(self): return '<b>hi</b>'\n    def __repr__(self): return 'rich'\n"
        for end in ("", "print('after')\n"):
            result = await box.run(f"{way}{code}display(1, Rich())\n{end}")
            assert result.success, result
            assert result.stdout == "1\nrich\n" + ("after\n" if end else "")
            assert (result.value_forms, result.value_text) == ({"text/html": "<b>hi</b>"}, None)

    @case(python("standard library"), FILES)
    async def test_all_that_is_displayed_is_kept_in_order(self, box: Sandbox) -> None:
        """Each displayed object with rich forms is an artifact, except the last one if the program has no value."""
        code = (
            "class Shown:\n    def __init__(self, **forms): self.forms = forms\n"
            "    def _repr_html_(self): return self.forms.get('html')\n"
            "    def _repr_latex_(self): return self.forms.get('latex')\n"
            "    def _repr_png_(self): return self.forms.get('png')\n"
            "display(Shown(html='<b>1</b>', latex='$1$'), 'no form')\ndisplay(Shown(png=b'2', html='2'))\n"
            "display({'application/x.own+json': [3]}, raw=True)\ndisplay(Shown(latex='$4$'))\n"
        )
        kept = {"html": b"<b>1</b>", "png": b"2", "json": b"[3]", "tex": b"$4$"}
        for end in ("", "[1]"):
            result = await box.run(code + end)
            files = sorted((artifact.name, artifact.data) for artifact in result.artifacts)
            numbered = [(f"display-{at}.{suffix}", data) for at, (suffix, data) in enumerate(kept.items(), 1)]
            assert files == (numbered if end else numbered[:3]), result
            assert result.value_forms == ({} if end else {"text/latex": "$4$"})
            for name, _ in files:
                await box.remove_file(f"output/{name}")

    @case(python("standard library"), FILES)
    async def test_a_picture_that_is_not_the_last_displayed_is_a_file(self, box: Sandbox) -> None:
        """Pictures of all but the last object that is displayed are artifacts."""
        code = "class Picture:\n    def _repr_png_(self): return b'png'\ndisplay(Picture(), Picture())"
        for count, end, forms in ((1, "", {"image/png": b"png"}), (2, "\n1", {})):
            result = await box.run(code + end)
            assert [artifact.data for artifact in result.artifacts] == [b"png"] * count, result
            assert result.value_forms == forms

    @case(python("standard library"), FILES)
    async def test_raw_forms_that_are_displayed_are_looked_at_as_an_objects_are(self, box: Sandbox) -> None:
        """With `raw=True` data becomes JSON text, pictures in base64 become bytes, and no broken form is kept."""
        given = '{"text/plain": "said", "application/json": {"a": 1}, "image/png": "cG5n", "image/jpeg": 5, 6: "x"}'
        result = await box.run(f"display({given}, raw=True)")
        assert result.success, result
        assert (result.stdout, result.value_forms) == ("said\n", {"application/json": '{"a": 1}', "image/png": b"png"})
        result = await box.run(f"display({given}, raw=True)\n1")
        assert ([artifact.data for artifact in result.artifacts], result.value) == ([b"png"], 1), result


class InputCases(Cases):
    """Values that a program is given."""

    @EVERY_VALUE
    @case()
    async def test_an_input_is_a_variable(self, box: Sandbox, value: Any) -> None:
        """`inputs` are JSON values bound as variables before the first line runs."""
        assert await self.answer(box, self.words.answer("given"), inputs={"given": value}) == value

    @case()
    async def test_several_inputs_are_several_variables(self, box: Sandbox) -> None:
        """Several inputs are bound to several variables."""
        program = self.words.answer(self.words.plus("one", "two"))
        assert await self.answer(box, program, inputs={"one": 40, "two": 2}) == 42

    @case()
    async def test_inputs_of_one_run_are_not_in_the_next(self, box: Sandbox) -> None:
        """The inputs of one run are not in the next."""
        assert await self.answer(box, self.words.answer("given"), inputs={"given": 1}) == 1
        assert not (await box.run(self.program(self.words.answer("given")))).success

    @case(python("subset"))
    async def test_what_a_program_does_to_an_input_stays_with_it(self, box: Sandbox) -> None:
        """A program's changes to an input do not reach the caller: inputs are copies."""
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

    @case(CWD, python("standard library"), FILES)
    async def test_a_program_imports_from_the_folders_of_its_path(self, box: Sandbox) -> None:
        """`PYTHONPATH` names folders below `/workspace` or a mount that modules come from too."""
        for folder in ("one", "other"):
            await box.write_file(f"{folder}/kit_in_{folder}.py", f"where = {folder!r}".encode())
        path = f"one:{box.root}/other"
        program = Program("import kit_in_one, kit_in_other\n[kit_in_one.where, kit_in_other.where]")
        result = await box.run(replace(program, env={"PYTHONPATH": path}))
        assert result.value == ["one", "other"], result

    @pytest.mark.parametrize("env", BRINGS_MODULES, ids=str)
    @case(CWD)
    async def test_variables_that_bring_modules_from_elsewhere_are_refused(
        self, box: Sandbox, env: dict[str, str]
    ) -> None:
        """A `PYTHONPATH` outside the workspace and mounts, or a `PIP_TARGET`, raises `InvalidValue`."""
        assert min(env) in await refuses_value(box.run(self.program(self.words.answer("1"), env=env)))

    @case(CWD)
    async def test_a_program_whose_folder_is_missing_does_not_run_elsewhere(self, box: Sandbox) -> None:
        """A program whose `cwd` is missing fails with exit code 126, as a command does."""
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
        """In a session, `cwd` and `env` of a program stay for the programs after it."""
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
        """Changes to built-ins last for one run only."""
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
        """A program does not inherit the host's environment variables."""
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
