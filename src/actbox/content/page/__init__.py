"""Messages as one page of HTML that needs nothing else: no script, no request, everything of a stranger's escaped."""

from .document import html_fragment, html_page

__all__ = ["html_fragment", "html_page"]
