"""Tools and settings for the tests of `CodeActConfig`, and helpers that inspect a configuration."""

from __future__ import annotations

from typing import Any

from actbox import Tool
from actbox.codeact import CodeActConfig


def named(name: str, **given: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, **given)


def names(config: CodeActConfig) -> list[str]:
    return [tool.name for tool in config.get_tools()]


def places(config: CodeActConfig) -> list[str]:
    return [str(mount.mount_path) for mount in config.get_file_mounts()]


def targets(config: CodeActConfig) -> list[str]:
    return [str(domain) for domain in config.get_allowed_domains()]
