"""A table of media types and programming languages, and the properties of a media type."""

from __future__ import annotations

# The registered type if there is one, else the usual one; the first name is the language's usual one.
_LANGUAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("text/x-python", ("python", "py", "python3")),
    ("text/javascript", ("javascript", "js", "node", "nodejs")),
    ("text/x-typescript", ("typescript", "ts")),
    ("application/x-sh", ("shell", "sh", "bash")),
    ("application/sql", ("sql",)),
    ("text/x-r", ("r",)),
    ("text/x-java", ("java",)),
    ("text/x-c", ("c",)),
    ("text/x-c++", ("c++", "cpp")),
    ("text/x-csharp", ("csharp", "c#", "cs")),
    ("text/x-go", ("go", "golang")),
    ("text/x-ruby", ("ruby", "rb")),
    ("text/x-rust", ("rust", "rs")),
    ("text/x-rtfs", ("rtfs",)),
)
_TYPES = {name: media_type for media_type, names in _LANGUAGES for name in names}
_NAMES = {media_type: names[0] for media_type, names in _LANGUAGES} | {
    "application/javascript": "javascript",
    "application/x-python-code": "python",
    "application/x-python": "python",
    "text/x-script.python": "python",
    "text/x-shellscript": "shell",
    "text/x-sql": "sql",
}
_TEXTUAL = frozenset({"application/json", "application/xml", "application/sql", "application/x-sh", "image/svg+xml"})
_TEXTUAL_SUFFIXES = ("+json", "+xml")


def media_type_of_language(language: str) -> str:
    """Return the media type of source code in a language; `text/x-LANGUAGE` if the table lacks it."""
    name = language.strip().lower()
    return _TYPES.get(name) or f"text/x-{name.replace(' ', '-') or 'code'}"


def language_of_media_type(media_type: str) -> str:
    """Return the language that a media type names, "" if it names none."""
    bare = bare_media_type(media_type)
    if bare in _NAMES:
        return _NAMES[bare]
    name = bare.removeprefix("text/x-")
    return name if name != bare else ""


def bare_media_type(media_type: str) -> str:
    """Return a media type in lower case and without its parameters, such as a charset."""
    return media_type.partition(";")[0].strip().lower()


def is_text(media_type: str) -> bool:
    """Return True if bytes of this media type are text that a person can read."""
    bare = bare_media_type(media_type)
    return bare.startswith("text/") or bare in _TEXTUAL or bare.endswith(_TEXTUAL_SUFFIXES)
