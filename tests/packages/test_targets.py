"""Packages for an interpreter of an image or another machine: the wheels that fit it."""

from __future__ import annotations

import pytest

from actbox.packages.environments import platform_of
from actbox.packages.resolving import CannotResolve, _locked, _uv_platform
from actbox.sandbox.dependencies import Target

GLIBC = Target("3.12", "x86_64", "glibc", 36)
OLD = Target("3.12", "x86_64", "glibc", 17)
MUSL = Target("3.12", "x86_64", "musl", 2)
ARM = Target("3.12", "aarch64", "glibc", 36)
PURE = Target("3.12")
WHEELS = (
    "kit-1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
    "kit-1.0-cp312-cp312-manylinux2014_x86_64.whl",
    "kit-1.0-cp312-cp312-musllinux_1_1_x86_64.whl",
    "kit-1.0-cp312-cp312-manylinux_2_28_aarch64.whl",
    "kit-1.0-py3-none-any.whl",
)


def lock_of(*names: str) -> str:
    wheels = ", ".join(f'{{ url = "http://127.0.0.1/{name}", hashes = {{ sha256 = "{"0" * 64}" }} }}' for name in names)
    return (
        'lock-version = "1.0"\ncreated-by = "tests"\n[[packages]]\nname = "kit"\nversion = "1.0"\n'
        f"wheels = [{wheels}]\n"
    )


@pytest.mark.parametrize(
    ("target", "fits"),
    [(GLIBC, 0), (OLD, 1), (MUSL, 2), (ARM, 3), (PURE, 4)],
    ids=["glibc", "old", "musl", "arm", "any"],
)
def test_the_best_wheel_that_fits_is_chosen(target: Target, fits: int) -> None:
    [locked] = _locked(lock_of(*WHEELS), "3.12", target)
    assert locked.filename == WHEELS[fits]


def test_a_wheel_for_another_c_library_does_not_fit() -> None:
    with pytest.raises(CannotResolve, match="kit"):
        list(_locked(lock_of(WHEELS[2]), "3.12", GLIBC))


def test_uv_is_told_the_nearest_platform_that_it_knows() -> None:
    told = [_uv_platform(target)[-1:] for target in (GLIBC, OLD, MUSL, ARM, PURE, None)]
    names = ["x86_64-manylinux_2_36", "x86_64-manylinux_2_17", "x86_64-unknown-linux-musl", "aarch64-manylinux_2_36"]
    assert told == [*([name] for name in names), [], []]


def test_locks_for_different_targets_are_different() -> None:
    platforms = {platform_of(target, "3.12") for target in (GLIBC, OLD, MUSL, ARM, PURE, None)}
    assert len(platforms) == 6
