"""Text from a guest, made safe to show on a terminal: from the room that shows content, where it lives."""

from actbox.content.safe_text import RESET, TerminalText, spelt_out

__all__ = ["RESET", "TerminalText", "spelt_out"]
