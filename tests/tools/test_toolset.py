"""The frozen set of tools that one run has."""

from __future__ import annotations

import functools
import json
import pickle
from typing import Any

import pytest

from actbox.core.errors import InvalidValue
from actbox.tools import ApprovalDecision, ApprovalRequest, Tool, Toolset, tool


def search(query: str, limit: int = 10, *, exact: bool = False) -> list[str]:
    """Search the shelf.

    Args:
        query: What to find
    """
    return [query]


@tool
async def weigh(book: str, **options: int) -> float:
    """Weigh a book."""
    return 1.0


def named(name: str) -> Tool:
    return Tool.from_function(lambda x=None: x, name=name)


def test_functions_and_tools_make_a_toolset_in_their_order():
    toolset = Toolset.of([search, weigh])
    assert toolset.names == ("search", "weigh") and len(toolset) == 2
    assert [item.name for item in toolset] == ["search", "weigh"]
    assert toolset.get("weigh") is weigh and toolset.get("lift") is None
    assert "search" in toolset and "lift" not in toolset and 7 not in toolset


def test_a_toolset_is_returned_as_it_is_and_nothing_makes_an_empty_one():
    toolset = Toolset.of([search])
    assert Toolset.of(toolset) is toolset
    assert len(Toolset.of(None)) == 0 and Toolset.of(()).names == ()


def test_a_toolset_does_not_follow_the_list_that_it_was_made_from():
    tools: list[Any] = [search]
    toolset = Toolset.of(tools)
    tools.append(weigh)
    assert toolset.names == ("search",)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(InvalidValue, match="two tools are called 'search'"):
        Toolset.of([search, named("search")])


@pytest.mark.parametrize("name", ["call_tool", "ToolError"])
def test_names_that_programs_have_already_are_refused(name: str):
    with pytest.raises(InvalidValue, match=f"a tool cannot be named '{name}'"):
        Toolset.of([named(name)])


@pytest.mark.parametrize("tools", [search, weigh, "search", {"search": search}])
def test_one_tool_that_is_not_in_a_list_is_refused(tools: Any):
    with pytest.raises(InvalidValue, match="must be a list"):
        Toolset.of(tools)


def test_a_method_without_its_object_is_refused():
    with pytest.raises(InvalidValue, match="'search' is a method without its object"):
        Toolset.of([Shelf.search])
    with pytest.raises(InvalidValue, match="'count' is a method without its object"):
        Toolset.of([Shelf.count])
    assert Toolset.of([Shelf().search, Shelf().count]).names == ("search", "count")


class Shelf:
    @tool
    def search(self, query: str) -> str:
        return query

    def count(self) -> int:
        return 0


def test_an_unknown_tool_is_told_with_a_suggestion_and_the_tools_that_there_are():
    toolset = Toolset.of([search, weigh])
    assert toolset.suggest("serch") == "search" and toolset.suggest("zzz") is None
    assert toolset.unknown("serch") == "there is no tool 'serch'; did you mean 'search'? Tools: search, weigh"
    assert toolset.unknown("zzz") == "there is no tool 'zzz'. Tools: search, weigh"
    assert Toolset.of(None).unknown("x") == "there is no tool 'x'. Tools: none"
    assert len(toolset.unknown("x" * 10_000_000)) < 200


def test_the_guests_description_is_json_and_says_how_arguments_bind():
    toolset = Toolset.of([search, weigh])
    first, second = json.loads(json.dumps(toolset.guest_spec()))
    assert first == {
        "name": "search",
        "alias": "search",
        "parameters": ["query", "limit"],
        "variadic": False,
        "signature": "(query: str, limit: int = 10, *, exact: bool = False) -> list[str]",
        "doc": "Search the shelf.\n\nquery: What to find",
    }
    assert second["variadic"] is True


def test_a_name_that_is_no_identifier_gets_an_alias_that_is_and_both_find_the_tool():
    toolset = Toolset.of([named("web-search"), named("import"), named("2d plot"), named("call-tool")])
    assert dict(toolset.aliases) == {
        "web-search": "web_search",
        "import": "import_",
        "2d plot": "_2d_plot",
        "call-tool": "call_tool_2",
    }
    assert toolset.get("web_search") is toolset.get("web-search") is not None


def test_aliases_are_unique_and_never_take_another_tools_own_name():
    toolset = Toolset.of([named("a-b"), named("a.b"), named("a_b")])
    assert dict(toolset.aliases) == {"a-b": "a_b_2", "a.b": "a_b_3", "a_b": "a_b"}
    assert toolset.get("a_b") is not toolset.get("a-b")


def test_names_that_are_one_identifier_to_python_get_two_aliases():
    toolset = Toolset.of([named("ﬁle"), named("file")])
    assert dict(toolset.aliases) == {"ﬁle": "file_2", "file": "file"}


def must_ask(name: str) -> Tool:
    return Tool.from_function(lambda: None, name=name, approval="always_require")


class Anybody:
    async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(True)


def test_a_toolset_says_what_requires_approval_and_who_is_asked():
    toolset = Toolset.of([search, must_ask("pay"), must_ask("tell")])
    somebody = Anybody()
    asking = toolset.asking(somebody)
    assert toolset.requiring == asking.requiring == ("pay", "tell")
    assert (toolset.approver, asking.approver) == (None, somebody)
    assert asking.approved(["pay"]).requiring == ("tell",) and asking.approved().requiring == ()
    assert asking.requiring == ("pay", "tell")  # none of this changes it


def test_only_a_toolset_whose_approvals_can_be_had_is_one_for_a_run():
    toolset = Toolset.of([search, must_ask("pay")])
    with pytest.raises(InvalidValue, match=r"'pay' requires approval, and there is no approver"):
        Toolset.for_run(toolset)
    for ready in (toolset.asking(Anybody()), toolset.approved(), Toolset.of([search])):
        assert Toolset.for_run(ready) is ready


def test_further_tools_keep_what_was_said_of_approval_for_the_others():
    somebody = Anybody()
    toolset = Toolset.of([must_ask("pay"), must_ask("tell")]).asking(somebody).approved(["pay"])
    more = toolset.with_tools(must_ask("sign"), named("look"))
    assert (more.names, more.requiring) == (("pay", "tell", "sign", "look"), ("tell", "sign"))
    assert more.approver is somebody


def test_what_is_no_approver_and_approval_for_what_is_no_tool_are_refused():
    toolset = Toolset.of([must_ask("pay")])
    with pytest.raises(InvalidValue, match="an approver needs a method"):
        toolset.asking("Ada")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match=r"as in asking\(actbox\.codeact\.CallbackApprover\(function\)\)"):
        toolset.asking(lambda request: True)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match=r"not the class Anybody: write Anybody\(…\)"):
        toolset.asking(Anybody)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="there is no tool 'pai'; did you mean 'pay'"):
        toolset.approved(["pai"])


def test_the_guest_is_told_of_which_tools_it_has_to_say_where_they_are_called():
    asks = [spec.get("asks", False) for spec in Toolset.of([search, must_ask("pay")]).guest_spec()]
    assert asks == [False, True]


# Only some of them


def guarded(name: str) -> Tool:
    return Tool.from_function(lambda x=None: x, name=name, approval="always_require")


def test_only_some_of_the_tools_keep_their_order_and_their_aliases():
    toolset = Toolset.of([named("get-user"), named("get_user"), named("get.user"), named("other")])
    some = toolset.only(["other", "get.user"])
    assert some.names == ("get.user", "other")
    assert dict(some.aliases) == {"get.user": toolset.aliases["get.user"], "other": "other"}
    assert some.get("get.user") is toolset.get("get.user")
    assert some.get(toolset.aliases["get-user"]) is None
    assert [(spec["name"], spec["alias"]) for spec in some.guest_spec()] == [
        ("get.user", toolset.aliases["get.user"]),
        ("other", "other"),
    ]
    assert len(toolset) == 4


def test_only_some_of_the_tools_keep_what_was_said_of_approval():
    class Clerk:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            return ApprovalDecision(True)

    clerk = Clerk()
    toolset = Toolset.of([guarded("pay"), guarded("mail"), guarded("sell"), named("look")]).approved(["pay"])
    some = toolset.asking(clerk).only(["pay", "mail", "look"])
    assert some.requiring == ("mail",)
    assert some.approver is clerk
    assert some.only(["pay", "look"]).requiring == ()
    assert toolset.requiring == ("mail", "sell")


def test_a_name_that_there_is_not_is_none_of_them():
    assert Toolset.of([named("a")]).only(["b"]).names == ()
    assert Toolset().only([]).names == ()


def test_one_that_was_left_out_is_told_as_such_by_its_name_and_its_alias():
    some = Toolset.of([named("get-user"), named("mail"), named("look")]).only(["mail", "look"]).only(["look"])
    for name in ("get-user", "get_user", "mail"):
        for told in (some.unknown(name), some.with_tools(named("more")).unknown(name)):
            assert f"only the tools that it names, and {name!r} is none of them: write its name out" in told
    assert some.unknown("male") == "there is no tool 'male'. Tools: look"


def test_a_function_is_read_once_whatever_number_of_runs_has_it(monkeypatch: pytest.MonkeyPatch):
    def lend(book: str) -> str:
        """Lend a book."""
        return book

    first = Toolset.of([lend]).get("lend")
    monkeypatch.setattr("actbox.tools.definition.read", lambda *_: pytest.fail("the function was read again"))
    assert Toolset.of([lend]).get("lend") is first


def change_docstring(function: Any) -> None:
    function.__doc__ = "Lend a map."


def change_default(function: Any) -> None:
    function.__defaults__ = (3,)


def change_annotation(function: Any) -> None:
    function.__annotations__["weeks"] = float


@pytest.mark.parametrize("change", [change_docstring, change_default, change_annotation])
def test_a_function_that_says_something_else_by_now_is_read_again(change: Any):
    def lend(weeks: int = 2) -> None:
        """Lend a book."""

    before = Toolset.of([lend]).get("lend")
    change(lend)
    after = Toolset.of([lend]).get("lend")
    assert before is not None and after is not None
    assert (after.description, after.input_schema) != (before.description, before.input_schema)


def test_a_wrapper_is_not_taken_for_the_function_that_it_wraps():
    def lend(book: str) -> str:
        """Lend a book."""
        return book

    Toolset.of([lend])

    @functools.wraps(lend)
    def loudly(book: str) -> str:
        return lend(book).upper()

    wrapper = Toolset.of([loudly]).get("lend")
    assert wrapper is not None and wrapper("emma") == "EMMA"


def test_what_is_kept_with_a_function_is_not_copied_or_pickled_with_its_attributes():
    def lend(book: str) -> str:
        """Lend a book."""
        return book

    Toolset.of([lend])
    assert [*pickle.loads(pickle.dumps(vars(lend))).values()] == [()]


def test_a_function_with_a_default_that_may_be_changed_in_place_is_read_each_time():
    books = ["emma"]

    def lend(names: list[str] = books) -> None:
        """Lend books."""

    before = Toolset.of([lend]).get("lend")
    books.append("persuasion")
    after = Toolset.of([lend]).get("lend")
    assert before is not None and after is not None
    assert after.input_schema["properties"]["names"]["default"] == ["emma", "persuasion"]
