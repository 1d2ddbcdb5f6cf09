"""The line splitter: the same lines for any chunking, and never more memory than promised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeframe.core.lines import EDGE_BYTES, Line, LineSplitter

# Bytes that are rich in what matters: line ends, carriage returns, whole and broken UTF-8.
PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"a",
        b"bc",
        "é".encode(),
        "€".encode(),
        "😀".encode(),
        b"\xff",
        b"\xe2\x82",
        b"\xf0",
    ]
)
STREAMS = st.lists(st.one_of(PIECES, st.binary(max_size=6)), max_size=60).map(b"".join)


def split(data: bytes, cuts: list[int], max_line_bytes: int) -> list[Line]:
    splitter = LineSplitter(max_line_bytes)
    lines = []
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        lines += splitter.feed(data[start:stop])
    return lines + splitter.flush()


@given(data=STREAMS, cuts=st.lists(st.integers(0, 200)), max_line_bytes=st.integers(2, 40))
def test_any_chunking_gives_the_same_lines(data: bytes, cuts: list[int], max_line_bytes: int) -> None:
    cuts = sorted(min(cut, len(data)) for cut in cuts)
    assert split(data, cuts, max_line_bytes) == split(data, [], max_line_bytes)
    every_byte = list(range(len(data)))
    assert split(data, every_byte, max_line_bytes) == split(data, [], max_line_bytes)


@given(data=STREAMS)
def test_lines_are_what_splitting_and_decoding_each_gives(data: bytes) -> None:
    raw = data.split(b"\n")
    if raw[-1] == b"":
        raw.pop()
    expected = [Line(line.decode("utf-8", "replace").removesuffix("\r")) for line in raw]
    assert split(data, [], 1000) == expected


@given(data=STREAMS, max_line_bytes=st.integers(2, 20))
def test_a_long_line_keeps_head_and_tail_and_counts_the_rest(data: bytes, max_line_bytes: int) -> None:
    raw = data.split(b"\n")
    if raw[-1] == b"":
        raw.pop()
    edge = max_line_bytes // 2
    for whole, line in zip(raw, split(data, [], max_line_bytes), strict=True):
        if len(whole) <= max_line_bytes:
            assert line.dropped_bytes == 0
            continue
        head, tail = whole[:edge], whole[len(whole) - edge :]
        assert line.dropped_bytes == len(whole) - 2 * edge
        text = head.decode("utf-8", "replace") + tail.decode("utf-8", "replace")
        assert line.text == text.removesuffix("\r")


def test_buffer_stays_bounded_while_a_line_never_ends() -> None:
    splitter = LineSplitter(max_line_bytes=300_000)
    for number in range(500):
        assert splitter.feed(b"%05d" % number * 2000) == []
        assert len(splitter._pending) <= 300_000
    [line] = splitter.feed(b"\n")
    assert line.text.startswith("00000")
    assert line.text.endswith("00499")
    assert len(line.text) == 2 * EDGE_BYTES
    assert line.dropped_bytes == 500 * 10_000 - 2 * EDGE_BYTES


def test_the_next_line_is_whole_after_a_long_one() -> None:
    splitter = LineSplitter(max_line_bytes=10)
    assert splitter.feed(b"x" * 50 + b"\nshort\nlast") == [Line("x" * 10, 40), Line("short")]
    assert splitter.flush() == [Line("last")]
    assert splitter.flush() == []


def test_a_character_split_over_chunks_stays_whole() -> None:
    splitter = LineSplitter()
    assert splitter.feed("caf\u00e9".encode()[:-1]) == []
    assert splitter.feed("\u00e9\n".encode()[1:]) == [Line("caf\u00e9")]


def test_half_a_character_at_the_end_is_replaced() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"ok \xe2\x82") == []
    assert splitter.flush() == [Line("ok \ufffd")]
