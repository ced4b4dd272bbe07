"""A search index of tools by their words, without a model or a network: the best match for a query comes first.

The ranking is BM25F (Robertson, Zaragoza and Taylor, "Simple BM25 extension to multiple weighted fields", 2004): words
of a tool's name weigh more than those of its description, rare words more than common ones. Words are compared without
their endings, and as beginnings of one another at a discount. The same tools and query give the same answer always.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from actbox.tools import Tool, Toolset

MAX_INDEXED = 4_000
"""The most characters of a description that are indexed."""

_NAME, _GROUP, _PARAMETER, _DESCRIPTION, _NOTE = 4.0, 2.0, 1.0, 1.0, 0.5
"""The weight of a word by where it stands; a note is the description of a parameter."""
_SATURATION = 1.5  # BM25's k1
_LENGTH = 0.5  # BM25's b, for descriptions and notes: names and groups are not padded with words
_BEGINNING = 0.6
"""The weight of a match of one word's beginning, multiplied by the share of the longer word that it covers."""
_SYNONYM = 0.5
"""The weight of a synonym for the same action."""
_COMMON = 0.25
"""The weight of a common word of the query; it can match names only (`turn_on`)."""

_ENGLISH = (
    "a all an and any are as at be by can do for from has have how i if in into is it its me my need of on one or our"
    " out please so some that the their them then there this to tool tools up use used using want was we what when"
    " where which who will with you your"
)
_COMMON_WORDS = frozenset(_ENGLISH.split())
_VERBS = (
    "create add new make open register insert",
    "delete remove erase destroy drop",
    "get fetch read show retrieve view",
    "update edit change modify set",
    "list all show every enumerate",
    "find search lookup look locate",
    "send post deliver",
    "run execute start launch trigger",
    "stop end cancel abort",
)
"""Synonyms for the actions of tools, in the words that servers and models use."""
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # kana and ideographs
_RUNS = re.compile(rf"[{_UNSPACED}]+|[^\W\d_{_UNSPACED}]+|\d+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LAST = "\U0010ffff"
_VOWEL = re.compile("[aeiouy]")


class ToolIndex:
    """An index of a toolset. Building it takes time in proportion to the text; a search reads only what matches."""

    def __init__(self, toolset: Toolset, groups: Mapping[str, str]) -> None:
        self._names = toolset.names
        self._aliases = toolset.aliases
        self._exact: dict[str, list[int]] = {}
        weights: list[dict[str, float]] = []  # for each tool, the weight of each term of its name and group
        texts: list[dict[str, float]] = []  # the same for its parameters and description
        for at, tool in enumerate(toolset):
            parts = words(tool.name)
            for key in {tool.name, self._aliases[tool.name], " ".join(parts)} - {""}:
                self._exact.setdefault(key, []).append(at)
            weights.append(_title_terms(parts, groups.get(tool.name, "")))
            texts.append(_text_terms(tool))
        lengths = [sum(terms.values()) for terms in texts]
        average = sum(lengths) / len(lengths) if any(lengths) else 1.0
        for terms, text, length in zip(weights, texts, lengths, strict=True):
            for term, count in text.items():
                terms[term] = terms.get(term, 0.0) + count / (1 - _LENGTH + _LENGTH * length / average)
        self._postings = _scored(weights)
        self._terms = sorted(self._postings)

    def search(self, query: str) -> list[str]:
        """Return the names of the tools that a query matches, the best first.

        First comes the tool of exactly that name, then those whose names have exactly those words, then all others by
        their scores; equals are in the order of their aliases.
        """
        parts = words(query)
        scores: dict[int, float] = {}
        for meanings in self._meanings(parts):
            best: dict[int, float] = {}
            for term, share in meanings:
                for at, score in self._postings[term]:
                    best[at] = max(best.get(at, 0.0), score * share)
            for at, score in best.items():
                scores[at] = scores.get(at, 0.0) + score
        for first, key in ((2e6, query.strip()), (1e6, " ".join(parts))):
            for at in self._exact.get(key, ()):
                scores[at] = scores.get(at, 0.0) + first
        order = sorted(scores, key=lambda at: (-round(scores[at], 9), self._aliases[self._names[at]]))
        return [self._names[at] for at in order]

    def _meanings(self, parts: Sequence[str]) -> Iterator[list[tuple[str, float]]]:
        """Yield, for each term of a query, the indexed terms that it may mean, each with the weight of a match."""
        factors = {stem(part): _COMMON if part in _COMMON_WORDS else 1.0 for part in parts}
        for term, factor in factors.items():
            synonyms = [(known, _SYNONYM) for known in _synonyms().get(term, ()) if known in self._postings]
            yield [(known, factor * share) for known, share in [*self._similar(term), *synonyms]]
        for pair in dict.fromkeys(_pairs(parts)):
            if pair in self._postings:
                yield [(pair, 1.0)]

    def _similar(self, term: str) -> Iterator[tuple[str, float]]:
        if term in self._postings:
            yield term, 1.0
        if len(term) >= 3:
            start, end = (bisect_left(self._terms, bound) for bound in (term, term + _LAST))
            for known in self._terms[start:end]:
                if known != term:
                    yield known, _BEGINNING * len(term) / len(known)
        for end in range(4, len(term)):
            if term[:end] in self._postings:
                yield term[:end], _BEGINNING * end / len(term)


def words(text: str) -> list[str]:
    """Return the words of a text or name in lower case: `findUser_byID2` has find, user, by, id, 2.

    Accents are dropped. Of writing without spaces, each two characters in a row are a word.
    """
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    found: list[str] = []
    for run in _RUNS.findall(text):
        if "\u3040" <= run[0] <= "\u9fff":
            found += [first + second for first, second in pairwise(run)] or [run]
        else:
            found += [run] if run.islower() else [part.casefold() for part in _HUMPS.split(run)]
    return found


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return a word without the commonest English endings, so that its inflections match; the result need not be a
    word.
    """
    if len(word) <= 3 or not word.isascii():
        return word
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ion", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            word = rest
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    if len(word) > 5 and word.endswith("is"):
        return word[:-1] + "z"  # summarise, summarize
    return word[:-1] + "i" if word.endswith("y") else word


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for verbs in _VERBS:
        terms = {stem(verb) for verb in verbs.split()}
        for term in terms:
            found[term] = found.get(term, set()) | terms - {term}
    return found


def _pairs(parts: Sequence[str]) -> Iterator[str]:
    """Yield each two adjacent words joined: `sendmail` finds `send_mail`, and `s3`, of two words, counts as one."""
    for first, second in pairwise(parts):
        yield stem(first + second)


def _title_terms(parts: Sequence[str], group: str) -> dict[str, float]:
    terms: defaultdict[str, float] = defaultdict(float)
    for part in dict.fromkeys(map(stem, parts)):
        terms[part] += _NAME
    for pair in dict.fromkeys(_pairs(parts)):
        terms[pair] += _NAME
    for part in dict.fromkeys(map(stem, words(group))):
        terms[part] += _GROUP
    return terms


def _text_terms(tool: Tool) -> dict[str, float]:
    terms: defaultdict[str, float] = defaultdict(float)
    _add_text(terms, tool.description, _DESCRIPTION)
    properties = tool.input_schema.get("properties")
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        _add_text(terms, name, _PARAMETER)
        if isinstance(schema, Mapping) and isinstance(schema.get("description"), str):
            _add_text(terms, schema["description"], _NOTE)
    return terms


def _add_text(terms: defaultdict[str, float], text: str, weight: float) -> None:
    for word in words(text[:MAX_INDEXED]):
        if word not in _COMMON_WORDS:
            terms[stem(word)] += weight


def _scored(weights: Sequence[Mapping[str, float]]) -> dict[str, list[tuple[int, float]]]:
    """Return for each term the tools that contain it, each with the score that a match adds."""
    postings: dict[str, list[tuple[int, float]]] = {}
    for at, terms in enumerate(weights):
        for term, weight in terms.items():
            postings.setdefault(term, []).append((at, weight / (weight + _SATURATION)))
    for term, entries in postings.items():
        rarity = math.log(1 + (len(weights) - len(entries) + 0.5) / (len(entries) + 0.5))
        postings[term] = [(at, rarity * share) for at, share in entries]
    return postings
