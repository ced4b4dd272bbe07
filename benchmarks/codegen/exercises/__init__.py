"""The project's own exercises, in groups."""

from __future__ import annotations

from benchmarks.codegen.exercise import Exercise

from . import algorithms, data, files, text, tools

EXERCISES: tuple[Exercise, ...] = tuple(
    exercise for module in (data, text, algorithms, files, tools) for exercise in module.GROUP.exercises
)
