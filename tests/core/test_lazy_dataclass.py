"""Dataclasses whose methods are compiled when they are first used behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from dataclasses import field
from typing import Any

import pytest

from actbox.core import lazy_dataclass
from actbox.core.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lazy:
    """A class with a field of each kind."""

    x: int
    y: str = "a"
    z: list[int] = field(default_factory=list, repr=False, compare=False)
    w: int = field(default=3, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", abs(self.x))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """A class with a field of each kind."""

    x: int
    y: str = "a"
    z: list[int] = field(default_factory=list, repr=False, compare=False)
    w: int = field(default=3, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", abs(self.x))


@dataclass(slots=True)
class Counter:
    """A class that can change."""

    count: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Plain:
    """A class without slots, equality and its own text."""

    x: int


KINDS: list[Any] = [Lazy, Usual]


@pytest.mark.parametrize("kind", KINDS)
def test_its_objects_are_those_of_a_dataclass(kind: Any) -> None:
    made = kind(x=-1)
    assert repr(made) == f"{kind.__name__}(x=1, y='a', w=3)"
    assert made == kind(x=1, z=[1]) != kind(x=2)
    assert made != 1
    assert hash(made) == hash(kind(x=1, z=[1]))
    assert made.z is not kind(x=1).z
    assert dataclasses.replace(made, y="b") == kind(x=1, y="b")
    assert dataclasses.asdict(made) == {"x": 1, "y": "a", "z": [], "w": 3}
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert again == made and again.z == made.z
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_described_as_a_dataclass(kind: Any) -> None:
    assert str(inspect.signature(kind)) == "(*, x: 'int', y: 'str' = 'a', z: 'list[int]' = <factory>) -> None"
    assert typing.get_type_hints(kind.__init__) == {"x": int, "y": str, "z": list[int], "return": type(None)}
    assert kind.__init__.__qualname__ == f"{kind.__name__}.__init__"
    assert kind.__match_args__ == ()
    assert [one.name for one in dataclasses.fields(kind)] == ["x", "y", "z", "w"]
    assert repr(kind.__dataclass_params__) == repr(Usual.__dataclass_params__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_its_frozen_objects_do_not_change(kind: Any) -> None:
    made = kind(x=1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        made.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del made.x
    assert made.x == 1
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):  # the latter from the standard library
        made.other = 2


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments_are_refused_with_the_name_of_the_class(kind: Any) -> None:
    for positional, named in (((), {}), ((1,), {}), ((), {"x": 1, "w": 2})):
        with pytest.raises(TypeError, match=rf"{kind.__name__}\.__init__\(\)"):
            kind(*positional, **named)


def test_classes_can_be_derived_from_it() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class More(Lazy):
        more: int = 0

    class Other(Lazy):
        pass

    assert repr(More(x=-1)).endswith("More(x=1, y='a', w=3, more=0)")
    assert More(x=1) == More(x=1) != More(x=1, more=1)
    other: Any = Other(x=-1)
    other.more = 1
    assert (other.x, other.more) == (1, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        other.x = 2


def test_what_its_decorator_leaves_out_is_that_of_every_object() -> None:
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    plain = Plain(1)
    assert plain != Plain(1)
    assert repr(plain) == object.__repr__(plain)
    assert plain.__dict__ == {"x": 1}


def test_methods_of_the_class_itself_stay() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        """A class with methods of its own."""

        x: int
        y: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and other.x == self.x

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(1, 2)
    assert repr(Own(1)) == "own"
    assert hash(Own(1)) == hash(Own(1))


def test_a_method_is_compiled_once_and_only_if_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    init_of = lazy_dataclass._init_of

    def count(cls: Any, frozen: bool) -> Any:
        compiled.append(cls.__name__)
        return init_of(cls, frozen)

    monkeypatch.setattr(lazy_dataclass, "_init_of", count)

    @dataclass(frozen=True, slots=True)
    class Unused:
        """Is never made."""

        x: int

    @dataclass(frozen=True, slots=True)
    class Used:
        """Is made twice."""

        x: int

    assert Used(1) == Used(1)
    assert compiled == ["Used"]
    assert isinstance(vars(Unused)["__init__"], lazy_dataclass._Later)
    assert isinstance(vars(Used)["__repr__"], lazy_dataclass._Later)
