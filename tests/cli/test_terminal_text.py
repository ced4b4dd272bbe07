from __future__ import annotations

import itertools

import pytest

from actbox.content.safe_text import RESET, TerminalText


def shown(*pieces: str) -> str:
    text = TerminalText()
    return "".join([*map(text.feed, pieces), text.end()])


def test_plain_text_newlines_and_tabs_stay():
    assert shown("é 漢 🙂\tx\ny\r\nz") == "é 漢 🙂\tx\ny\nz"


def test_colours_stay_and_end_with_the_stream():
    assert shown("\x1b[1;31mred") == "\x1b[1;31mred" + RESET
    assert shown("\x1b[38:2::1:2:3mx") == "\x1b[38:2::1:2:3mx" + RESET


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("\x1b[2J", "^[[2J"),
        ("\x1b]0;title\x07", "^[]0;title^G"),
        ("\x1b]52;c;cm0gLXJm\x1b\\", "^[]52;c;cm0gLXJm^[\\"),
        ("\x1b[6n", "^[[6n"),
        ("\x1b[?25l", "^[[?25l"),
        ("\x1b[>4;1m", "^[[>4;1m"),
        ("\x1bc", "^[c"),
        ("\x1b[" + "1;" * 100 + "m", "^[[" + "1;" * 100 + "m"),
        ("\x9b2J", "\\x9b2J"),
        ("secret\rpublic", "secret^Mpublic"),
        ("ab\x08c", "ab^Hc"),
        ("\x00\x7f", "^@^?"),
        ("\udc9b2J", "\\udc9b2J"),
        ("\x1b\x1b[31", "^[^[[31"),
    ],
)
def test_what_would_act_on_the_terminal_is_made_visible(text, visible):
    assert shown(text) == visible


@pytest.mark.parametrize("text", ["a\x1b[31mb\x1b[0mc", "\x1b]0;t\x07", "x\r\ny\rz", "\x1b[31\x1b[2J", "\x1b"])
def test_it_does_not_matter_where_a_sequence_is_cut(text):
    whole = shown(text)
    for first, second in itertools.combinations(range(len(text) + 1), 2):
        assert shown(text[:first], text[first:second], text[second:]) == whole


def test_text_is_not_held_back_for_longer_than_a_colour_may_take():
    text = TerminalText()
    assert text.feed("now") == "now"
    assert text.feed("\x1b[" + "1" * 100) == "^[[" + "1" * 100
