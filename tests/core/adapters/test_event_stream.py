"""The event queue: nothing lost but old output, nobody blocked, every consumer sees one end (rule 3.1)."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.adapters.event_stream import EventStream
from codeframe.core.agent_adapter import AgentEvent


def event(kind: str, message: str) -> AgentEvent:
    return AgentEvent(kind, message)


def reading(stream: EventStream) -> tuple[threading.Thread, list[str]]:
    """A consumer in a thread of its own, bound to the stream now; what it reads, as it comes."""
    seen: list[str] = []
    events = iter(stream)
    thread = threading.Thread(target=lambda: seen.extend(e.message for e in events), daemon=True)
    thread.start()
    return thread, seen


def test_read_after_the_close_gives_what_was_unread_and_ends() -> None:
    stream = EventStream()
    stream.open()
    stream.put(event("progress", "a"))
    stream.put(event("output", "b"))
    stream.close()
    assert [e.message for e in stream] == ["a", "b"]


def test_a_consumer_that_comes_before_the_open_gets_all() -> None:
    stream = EventStream()
    thread, seen = reading(stream)
    stream.open()
    stream.put(event("progress", "a"))
    stream.close()
    thread.join(10)
    assert not thread.is_alive()
    assert seen == ["a"]


def test_an_execute_that_said_nothing_still_ends() -> None:
    stream = EventStream()
    stream.open()
    stream.close()
    assert list(stream) == []


def test_a_consumer_that_saw_an_end_waits_for_the_next_execute() -> None:
    stream = EventStream()
    stream.open()
    stream.put(event("progress", "first"))
    stream.close()
    assert len(list(stream)) == 1
    thread, seen = reading(stream)  # before the second execute: must not end at once, on the old close
    stream.open()
    stream.put(event("progress", "second"))
    stream.close()
    thread.join(10)
    assert seen == ["second"]


def test_what_nobody_read_is_forgotten_by_the_next_execute() -> None:
    stream = EventStream()
    stream.open()
    stream.put(event("progress", "old"))
    stream.close()
    stream.open()
    stream.put(event("progress", "new"))
    stream.close()
    assert [e.message for e in stream] == ["new"]


def test_when_full_the_oldest_output_goes_and_is_counted_and_nothing_else() -> None:
    stream = EventStream(limit=3)
    stream.open()
    for number in range(10):
        stream.put(event("output", f"o{number}"))
        stream.put(event("file_changed", f"f{number}"))
    stream.close()
    messages = [e.message for e in stream]
    assert [m for m in messages if m.startswith("o")] == ["o7", "o8", "o9"]
    assert [m for m in messages if m.startswith("f")] == [f"f{n}" for n in range(10)]
    assert stream.dropped == 7
    assert messages[-1].startswith("7 output")


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["output", "progress", "error", "command_run"]), max_size=60), st.integers(1, 9)
)
def test_order_is_kept_and_only_old_output_is_missing(kinds: list[str], limit: int) -> None:
    stream = EventStream(limit=limit)
    stream.open()
    for number, kind in enumerate(kinds):
        stream.put(event(kind, str(number)))
    stream.close()
    outputs = [number for number, kind in enumerate(kinds) if kind == "output"]
    gone = set(outputs[: max(0, len(outputs) - limit)])
    got = [int(e.message) for e in stream if "dropped" not in e.metadata]
    assert got == [number for number in range(len(kinds)) if number not in gone]


def test_many_producers_and_one_consumer_lose_nothing() -> None:
    stream = EventStream(limit=5)
    stream.open()
    thread, seen = reading(stream)

    def produce(name: int) -> None:
        for number in range(200):
            stream.put(event("progress", f"{name}-{number}"))

    producers = [threading.Thread(target=produce, args=(name,)) for name in range(4)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    stream.close()
    thread.join(10)
    assert sorted(seen) == sorted(f"{name}-{number}" for name in range(4) for number in range(200))
