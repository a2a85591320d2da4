"""Pages of the web as Markdown: fetched with limits, stripped to their words.

What it needs is imported on need: most tasks never fetch a page.
"""

from __future__ import annotations

import asyncio
import re

from joey.errors import ToolError
from joey.ports import Pages

_SECONDS = 15
_MOST_BYTES = 2 * 1024 * 1024
_MOST_CHARACTERS = 200_000
_READABLE = re.compile(r"text/|application/(?:json|xml|xhtml\+xml)$")


class WebPages:
    """Only `http` and `https`, only text, never more than a few megabytes."""

    async def text(self, url: str) -> str:
        scheme = url.partition(":")[0].lower()
        if scheme not in ("http", "https"):
            raise ToolError(f"only http and https pages can be fetched, not {scheme}")
        kind, charset, data = await asyncio.to_thread(_fetch, url)
        try:
            words = data.decode(charset, errors="replace")
        except LookupError:
            words = data.decode(errors="replace")
        if "html" in kind:
            from joey.knowledge.page_text import markdown_of

            words = await asyncio.to_thread(markdown_of, words)
        if len(words) > _MOST_CHARACTERS:
            words = f"{words[:_MOST_CHARACTERS]}\n[...the rest of the page is left out...]"
        return words


def _fetch(url: str) -> tuple[str, str, bytes]:
    """Media type, character set and body.

    Raises:
        ToolError: the address is wrong, nobody answers, or what comes is not text.
    """
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "joey", "Accept": "text/*"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            kind = response.headers.get_content_type()
            if not _READABLE.match(kind):
                raise ToolError(f"the address gives {kind}, which is not text")
            charset = response.headers.get_content_charset() or "utf-8"
            return kind, charset, response.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            raise ToolError(f"the server answered {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise ToolError(f"the page cannot be fetched: {error}") from error


_fits: type[Pages] = WebPages
