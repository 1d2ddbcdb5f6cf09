"""The sections of a prompt: other people's text fenced, cut to a budget, every cut announced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

BYTES_PER_TOKEN = 4
SHORTEST_CUT = 200  # bytes; less of a text than this says nothing, so the text is left out
BETWEEN = "\n\n"
CUT_HERE = "\n[... cut here ...]\n"


def estimate_tokens(text: str) -> int:
    """How many tokens `text` is about: its UTF-8 bytes / 4, rounded up.

    An estimate, the same for every engine; real tokenizers differ by model. Budgets are kept with
    it, bills are not.
    """
    return -(-_size(text) // BYTES_PER_TOKEN)


class Keep(Enum):
    """What stays of a text that does not fit."""

    HEAD = "head"
    ENDS = "ends"  # head and tail: an error says first what failed and last how it ended
    WHOLE = "whole"  # all or nothing: half a source file misleads


class Block(NamedTuple):
    """One text somebody else wrote, shown inside a fence it cannot end.

    `label` and `where` (where the whole text is) are words of ours, on one line; names in them go
    through `inline`. `info` is the language of the fence. `brief` takes the place of a text that
    does not fit.
    """

    label: str
    text: str
    where: str
    info: str = "text"
    keep: Keep = Keep.HEAD
    brief: str = ""


class Section(NamedTuple):
    """A titled part of the prompt, absent when it has neither blocks with text in them nor notes.

    `share` weighs its claim on the budget against the other sections'. `notes` are lines that end it.
    """

    title: str
    share: int
    blocks: Sequence[Block] = ()
    intro: str = ""
    notes: Sequence[str] = ()


class Rendered(NamedTuple):
    """A section as markdown ("" when absent), and which of its blocks are in it whole."""

    text: str
    whole: tuple[Block, ...] = ()


def fence(text: str, info: str = "text") -> str:
    """`text` as a fenced block that nothing inside can end.

    A closing fence is at least as long as the opening one (CommonMark 0.31, 4.5), so ours is longer
    than any run of backticks in the text.
    """
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}{info}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{marks}"


def inline(text: str, limit: int = 200) -> str:
    """`text` as a code span on one line, at most `limit` characters of it; unprintable ones become `?`."""
    line = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())
    line = line or "?"
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    marks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{pad}{line}{pad}{marks}"


def cut_line(label: str, left_out: int, size: int, where: str) -> str:
    """The line that announces a cut. Sizes are bytes."""
    how_much = "all" if left_out >= size else f"{left_out:,} of"
    return f"Cut: {label}, {how_much} {size:,} bytes left out; the whole: {where}."


def keep_ends(text: str, max_bytes: int) -> str:
    """`text` in at most `max_bytes` bytes: its head and its tail, and between them a line that says so."""
    if _size(text) <= max_bytes:
        return text
    half = max(0, max_bytes - _size(CUT_HERE)) // 2
    return _head(text, half) + CUT_HERE + _tail(text, half)


def allot(needs: Sequence[int], shares: Sequence[int], total: int) -> list[int]:
    """Divide `total` fairly by weight: whoever needs less than their share leaves the rest to the others.

    (Weighted max-min fairness.) The result sums to at most `total` and gives nobody more than needed.
    """
    given = [0] * len(needs)
    waiting = set(range(len(needs)))
    left = total
    while waiting:
        weight = sum(shares[i] for i in waiting)
        portion = {i: left * shares[i] // weight for i in waiting}
        content = {i for i in waiting if needs[i] <= portion[i]}
        for i in content or waiting:
            given[i] = min(needs[i], portion[i])
        left -= sum(given[i] for i in content)
        waiting = waiting - content if content else set()
    return given


def render_sections(sections: Sequence[Section], budget_tokens: int) -> list[Rendered]:
    """Each section as markdown; their blocks together stay within `budget_tokens`.

    A block counts with its label and fence. Titles, intros, notes and the lines that announce cuts are
    ours, short, and not counted.
    """
    sections = [section._replace(blocks=[b for b in section.blocks if b.text]) for section in sections]
    needs = [sum(_cost(block, block.text) for block in section.blocks) for section in sections]
    budgets = allot(needs, [section.share for section in sections], budget_tokens * BYTES_PER_TOKEN)
    return [_render(section, budget) for section, budget in zip(sections, budgets, strict=True)]


def _render(section: Section, budget: int) -> Rendered:
    if not section.blocks and not section.notes:
        return Rendered("")
    parts, cuts, whole = [f"## {section.title}", section.intro], [], []
    for block, room in zip(section.blocks, _rooms(section.blocks, budget), strict=True):
        text, left_out = _fit(block, room)
        if text:
            parts.append(_show(block, text))
        if left_out:
            cuts.append(cut_line(block.label, left_out, _size(block.text), block.where))
        else:
            whole.append(block)
    parts.append("\n".join([*section.notes, *cuts]))
    return Rendered(BETWEEN.join(part for part in parts if part), tuple(whole))


def _rooms(blocks: Sequence[Block], budget: int) -> list[int]:
    """How many bytes each block of a section gets: a fair part, then in order what makes a block whole."""
    needs = [_cost(block, block.text) for block in blocks]
    least = [
        need if block.keep is not Keep.WHOLE else _cost(block, block.brief) if block.brief else 0
        for block, need in zip(blocks, needs, strict=True)
    ]
    rooms = allot(least, [1] * len(blocks), budget)
    left = budget - sum(rooms)
    for i, need in enumerate(needs):
        if need - rooms[i] <= left:
            left -= need - rooms[i]
            rooms[i] = need
    return rooms


def _fit(block: Block, room: int) -> tuple[str, int]:
    """What of the block fits `room` bytes with its label and fence, and how many bytes of its text do not."""
    size, shown = _size(block.text), _cost(block, block.text)
    if shown <= room:
        return block.text, 0
    if block.brief and _cost(block, block.brief) <= room:
        return block.brief, size
    # The fence of the whole is at least as long as that of a part; a part may need one line end more.
    room -= shown - size + 1
    if block.keep is Keep.WHOLE or room < SHORTEST_CUT:
        return "", size
    text = _head(block.text, room) if block.keep is Keep.HEAD else keep_ends(block.text, room)
    return text, size - _size(text.replace(CUT_HERE, "", 1))


def _show(block: Block, text: str) -> str:
    return f"{block.label}:\n\n{fence(text, block.info)}"


def _cost(block: Block, text: str) -> int:
    return _size(_show(block, text)) + len(BETWEEN)


def _head(text: str, room: int) -> str:
    """The first `room` bytes of `text`, whole characters, and whole lines where the last one is short."""
    head = text.encode()[:room].decode(errors="ignore")
    line_end = head.rfind("\n") + 1
    return head[:line_end] if line_end > len(head) // 2 else head


def _tail(text: str, room: int) -> str:
    return text.encode()[-room:].decode(errors="ignore") if room else ""


def _size(text: str) -> int:
    return len(text.encode())


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
