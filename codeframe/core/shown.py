"""Words that others chose (names of files, of gates, commands) as one line that hides nothing and forges nothing."""

from __future__ import annotations

import re

_SPACES = re.compile(" {5,}")


def shown(text: str) -> str:
    """`text` as one line of which nothing is hidden: what does not print is escaped, and so is what spaces push
    out of sight."""
    if text.isprintable() and "     " not in text:  # as nearly every text is
        return text
    printed = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return _SPACES.sub(lambda run: f"<{len(run[0])} spaces>", printed)
