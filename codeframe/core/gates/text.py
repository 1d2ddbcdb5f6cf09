"""Text that tools print, made safe to show and stable to compare. Nothing a tool printed is trusted."""

from __future__ import annotations

import re
from pathlib import Path

DETAIL_BYTES = 8 * 1024

_ANSI = r"(?:\x1b|#x1B)(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)"
_CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
_FOLDERS = r"(?<![\w./])/(?:[^\s/:'\"()<>]+/)+"
_ADDRESS = r"\b0x[0-9a-fA-F]+\b"
_HASH = r"\b(?=[0-9a-f-]*[0-9])[0-9a-f]{8}[0-9a-f-]*\b"
_NUMBER = r"(?<!\w)\d+(?:[.,:/-]\d+)*(?:(?:[TZ]|ns|us|µs|ms|s|m|h)(?:\d[\d.,:]*)?Z?)?(?!\w)"


def clean(text: str) -> str:
    """`text` without escape sequences, control characters (newline and tab stay) and lone surrogates."""
    text = re.sub(_ANSI, "", text.replace("\r\n", "\n").replace("\r", "\n"))
    return re.sub(_CONTROLS, "", text).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, limit: int = 300) -> str:
    """`text` cleaned and folded into one line of at most `limit` characters."""
    folded = " ".join(clean(text).split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"


def clip(text: str, limit: int = DETAIL_BYTES, gap: str = "") -> str:
    """`text` in at most `limit` bytes of UTF-8: the first five eighths, a line saying what is left
    out (`gap` is added to it), and the end."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    mark = f"\n[... {len(raw) - limit} bytes or more left out{gap} ...]\n"
    room = max(limit - len(mark.encode()), 0)
    head = room * 5 // 8
    return (
        raw[:head].decode("utf-8", "ignore")
        + mark
        + raw[len(raw) - (room - head) :].decode("utf-8", "ignore")
    )


def normalise(text: str, root: Path | None = None) -> str:
    """`text` without what changes from run to run: line numbers, times, counts, addresses, hashes, the
    folders of absolute paths, white space. What is left identifies a failure across edits."""
    text = clean(text)
    if root is not None:
        text = text.replace(f"{root}/", "")
    text = re.sub(_FOLDERS, "", text)
    text = re.sub(_HASH, "#", re.sub(_ADDRESS, "#", text))
    return " ".join(re.sub(_NUMBER, "#", text).split())
