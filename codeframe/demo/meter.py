"""What a request to the scripted model costs, in tokens counted from its real bytes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codeframe.demo.deeds import Block

BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Part:
    """One block of a request as bytes, and whether the prompt cache is written up to it."""

    data: bytes
    marked: bool


@dataclass
class Meter:
    """Counts tokens from the real bytes of each request, with a prompt cache that works as the APIs' do.

    A token is four bytes. The cached prefix is the longest one an earlier request had up to its last mark.
    What follows it up to this request's last mark is written to the cache, the rest is plain input. Left out:
    minimum sizes and expiry.
    """

    _seen: set[bytes] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def measure(self, parts: Sequence[Part], answer: Sequence[Block]) -> dict[str, int]:
        """The usage of the answer, in the Messages API's terms; these prefixes are in the cache from now on."""
        marks = [number for number, part in enumerate(parts) if part.marked]
        last_mark = marks[-1] if marks else -1
        read = written = rest = 0
        with self._lock:
            chain = b""
            for number, part in enumerate(parts):
                chain = hashlib.sha256(chain + part.data).digest()
                if number > last_mark:
                    rest += len(part.data)
                elif chain in self._seen:
                    read += len(part.data)
                else:
                    written += len(part.data)
                    self._seen.add(chain)
        return {
            "input_tokens": tokens(rest),
            "cache_creation_input_tokens": tokens(written),
            "cache_read_input_tokens": tokens(read),
            "output_tokens": max(1, tokens(len(json.dumps(list(answer))))),
        }


def part(label: str, block: Any, marked: bool) -> Part:
    """A block of a request as the meter counts it."""
    data = json.dumps([label, block], sort_keys=True, ensure_ascii=False).encode(errors="surrogatepass")
    return Part(data, marked)


def tokens(size: int) -> int:
    """Tokens of `size` bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)
