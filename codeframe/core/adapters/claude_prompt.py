"""How a prompt reaches Claude Code's model byte for byte. Facts observed on version 2.1.197.

It travels as one `--input-format stream-json` message of two text blocks: the prompt, then a blank one. The
CLI expands `@path` (it reads that file into the conversation, `/etc/hostname` too) and obeys a leading
`/command`, but only in the *last* block of a message; a blank block it leaves out of the request. So nothing
is escaped and nothing added: `@`, `/`, quotes, CRLF, NUL, 13 MB (plain text on stdin ends at 10 MB). Events,
exit statuses, sessions, signals and the structured verdict are those of plain text. Escaping is the worse way:
an `@` after a zero-width space stays unexpanded, but altered.
"""

from __future__ import annotations

import json

_BLANK = "\n"


def prompt_message(prompt: str) -> bytes:
    """The prompt as the one message of the conversation."""
    blocks = [{"type": "text", "text": prompt}, {"type": "text", "text": _BLANK}]
    message = {"type": "user", "message": {"role": "user", "content": blocks}}
    return (json.dumps(message, ensure_ascii=False) + "\n").encode("utf-8", "replace")
