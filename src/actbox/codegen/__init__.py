"""Coding agents: models that write programs, which run in a sandbox until they pass their checks."""
