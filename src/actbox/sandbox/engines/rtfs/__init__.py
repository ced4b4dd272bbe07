"""The `rtfs` engine: programs of a pure language, in this process, that can reach nothing but their tools."""

from .engine import RtfsSandbox
from .traits import TRAITS

__all__ = ["TRAITS", "RtfsSandbox"]
