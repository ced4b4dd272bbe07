"""Messages as one self-contained HTML page: no script, no request, and all untrusted text escaped."""

from .document import html_fragment, html_page

__all__ = ["html_fragment", "html_page"]
