"""The agent's loop against a model that is played: every way an answer can end, and what follows from it."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.adapters.llm.base import Model, ModelError, Patience, Reply, Request, Stopped, choose
from codeframe.adapters.llm.draft import Draft
from codeframe.core.adapters.verdict_report import VERDICT_SCHEMA
from codeframe.core.agent_adapter import AgentEvent
from codeframe.core.conversation import Conversation
from codeframe.core.models import ErrorClass, TokenUsage
from codeframe.core.react_agent import MAX_NUDGES, Ending, ReactAgent
from codeframe.core.redaction import Redactor
from codeframe.core.tools import Surroundings, Toolbox

DONE = {"status": "completed", "summary": "did it"}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(name: str, call: str = "c1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def finish(call: str = "cf", **given: Any) -> dict[str, Any]:
    return use("finish", call, **(given or DONE))


def reply(*blocks: dict[str, Any], stop: str = "", broken: Sequence[str] = ()) -> Reply:
    called = any(block["type"] == "tool_use" for block in blocks)
    usage = TokenUsage(10, 5, 2, model="m")
    return Reply(list(blocks), stop or ("tool_use" if called else "end_turn"), usage, frozenset(broken))


class Play:
    """A provider that gives the next of its answers, and keeps what it was asked."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self._replies = list(replies)
        self.asked: list[Request] = []

    def models(self, patience: Patience) -> list[Model]:
        return [Model("m")]

    def answer(self, request: Request, patience: Patience, on_text: Callable[[str], None]) -> Reply:
        messages = [{**m, "content": list(m["content"])} for m in request.messages]
        self.asked.append(Request(request.model, request.max_tokens, request.system, request.tools, messages))
        now = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(now, Exception):
            raise now
        on_text(now.text)
        return now

    def close(self) -> None:
        pass


class Stage:
    def __init__(self, root: Path, *replies: Reply | Exception, **limits: Any) -> None:
        self.root = root
        self.play = Play(*replies)
        self.cancel = threading.Event()
        self.events: list[AgentEvent] = []
        self.records: list[Mapping[str, Any]] = []
        patience = Patience(self.cancel, time.monotonic() + limits.pop("seconds", 60.0))
        around = Surroundings(root, dict(os.environ), "t/0", self.cancel, lambda: patience.left_s)
        self.conversation = Conversation.begin(None, "s", Redactor({}), "the task")
        self.agent = ReactAgent(
            self.play, Toolbox(around, Redactor({})), self.conversation, system="be good",
            finish_schema=VERDICT_SCHEMA, patience=patience, emit=self.events.append,
            record=self.records.append, **limits,
        )  # fmt: skip

    def run(self) -> Ending:
        return self.agent.run(Model("m", 8000))

    def results(self) -> list[tuple[str, bool]]:
        """(text, is it an error) of every tool result so far."""
        return [
            (block["content"], block.get("is_error", False))
            for message in self.conversation.messages
            for block in message["content"]
            if block["type"] == "tool_result"
        ]

    def said(self) -> list[str]:
        return [b["text"] for m in self.conversation.messages if m["role"] == "user"
                for b in m["content"] if b["type"] == "text"]  # fmt: skip


def test_it_does_what_the_model_asks_until_it_finishes(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        reply(words("I look\nand make"), use("create_file", path="a.py", content="x = 1\n")),
        reply(use("read_file", path="a.py")),
        reply(words("done"), finish()),
    )
    assert stage.run() == Ending("done", DONE)
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert stage.results() == [
        ("a.py is created: 1 lines.", False),
        ("     1\tx = 1", False),
        ("Noted.", False),
    ]
    assert (stage.agent.steps, stage.agent.usage) == (3, TokenUsage(30, 15, 6, model="m"))
    assert [(e.type, e.message) for e in stage.events if e.message] == [
        ("output", "I look"), ("output", "and make"), ("progress", "create_file a.py"),
        ("file_changed", "a.py"), ("progress", "read_file a.py"), ("output", "done"),
    ]  # fmt: skip
    assert [r["type"] for r in stage.records] == ["assistant", "tool_result"] * 3
    first = stage.play.asked[0]
    assert (first.model, first.max_tokens, first.system) == ("m", 8000, "be good")
    names = [
        "read_file",
        "edit_file",
        "create_file",
        "search_codebase",
        "list_files",
        "run_command",
        "run_tests",
    ]
    assert [tool["name"] for tool in first.tools] == [*names, "finish"]


def test_calls_beside_each_other_are_done_in_order_and_all_answered(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        reply(
            use("create_file", "c1", path="a", content="1"), use("browse", "c2", url="x"),
            use("edit_file", "c3", path="a", old_text="1", new_text="2"), use("read_file", "c4"),
            use("run_command", "c5", command="cat a"),
        ),
        reply(finish()),
    )  # fmt: skip
    assert stage.run().verdict == DONE
    answers = stage.conversation.messages[2]["content"]
    assert [block["tool_use_id"] for block in answers] == ["c1", "c2", "c3", "c4", "c5"]
    assert [error for _, error in stage.results()] == [False, True, False, True, False, False]
    assert stage.results()[4][0] == "[exit status 0]\n2"
    assert [e.message for e in stage.events if e.type == "command_run"] == ["cat a"]


def test_finish_beside_a_failed_call_or_with_wrong_input_does_not_count(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        reply(finish("c1"), use("read_file", "c2", path="nowhere")),
        reply(finish(status="done", summary="x")),
        reply(finish(status="completed")),
        reply(finish("c1", status="blocked", summary="s", question="Which?"), use("list_files", "c2")),
    )
    ending = stage.run()
    assert ending.verdict == {"status": "blocked", "summary": "s", "question": "Which?"}
    texts = [text for text, _ in stage.results()]
    assert "a call beside this one failed" in texts[1]
    assert "'status' must be one of completed, blocked, failed" in texts[2]
    assert "'summary' is missing" in texts[3]


def test_words_alone_end_it_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reply(words("All is well.")))
    assert stage.run() == Ending("All is well.")


def test_an_answer_without_words_or_calls_is_asked_again_but_not_for_ever(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reply(), reply(stop="max_tokens"), reply(finish()))
    assert stage.run().verdict == DONE
    assert len(stage.said()) == 3
    silent = Stage(tmp_path, reply())
    with pytest.raises(ModelError) as caught:
        silent.run()
    assert caught.value.error_class is ErrorClass.PROTOCOL
    assert silent.agent.steps == MAX_NUDGES + 1


def test_an_answer_that_is_cut_off_goes_on(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        reply(words("a long sto"), stop="max_tokens"),
        reply(use("create_file", "c1", path="a"), stop="max_tokens", broken=["c1"]),
        reply(finish()),
    )
    assert stage.run().verdict == DONE
    assert "cut off at its maximum" in stage.said()[1]
    assert "nothing was done" in stage.results()[0][0]
    assert list(tmp_path.iterdir()) == []


def test_a_paused_turn_goes_on_without_a_word_from_us(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reply(words("wait"), stop="pause_turn"), reply(finish()))
    assert stage.run().verdict == DONE
    assert stage.said() == ["the task"]
    assert [m["role"] for m in stage.play.asked[1].messages] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("stop", "expected"),
    [("refusal", ErrorClass.MODEL), ("model_context_window_exceeded", ErrorClass.CONTEXT_WINDOW)],
)
def test_a_refusal_and_a_full_window_are_errors_and_are_not_kept(
    tmp_path: Path, stop: str, expected: ErrorClass
) -> None:
    stage = Stage(tmp_path, reply(words("I cannot"), stop=stop))
    with pytest.raises(ModelError) as caught:
        stage.run()
    assert caught.value.error_class is expected
    assert [m["role"] for m in stage.conversation.messages] == ["user"]
    assert stage.agent.usage == TokenUsage(10, 5, 2, model="m")


def test_the_steps_are_limited_and_using_them_up_is_no_success(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reply(use("list_files")), max_steps=4)
    assert stage.run() == Ending(exhausted=True)
    assert stage.agent.steps == 4
    assert stage.conversation.open_calls() == []


def test_what_a_broken_off_answer_used_up_is_counted(tmp_path: Path) -> None:
    used = TokenUsage(7, 0, 1)
    stage = Stage(tmp_path, reply(use("list_files")), ModelError(ErrorClass.NETWORK, "cut", usage=used))
    with pytest.raises(ModelError):
        stage.run()
    assert stage.agent.usage == TokenUsage(17, 5, 3, model="m")


def test_a_stop_between_two_calls_leaves_the_second_undone(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        reply(
            use("create_file", "c1", path="a", content="1"), use("create_file", "c2", path="b", content="2")
        ),
    )
    stage.events = Stopper(stage.cancel)  # type: ignore[assignment]
    stage.agent._emit = stage.events.append
    with pytest.raises(Stopped) as caught:
        stage.run()
    assert caught.value.error_class is ErrorClass.CANCELLED
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert [call["id"] for call in stage.conversation.open_calls()] == ["c2"]


class Stopper(list[AgentEvent]):
    """Throws the switch at the first event a person sees."""

    def __init__(self, cancel: threading.Event) -> None:
        super().__init__()
        self._cancel = cancel

    def append(self, event: AgentEvent) -> None:
        if event.message:
            self._cancel.set()
        super().append(event)


def test_no_time_left_is_a_timeout(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reply(use("run_command", command="sleep 60")), seconds=0.3)
    with pytest.raises(Stopped) as caught:
        stage.run()
    assert caught.value.error_class is ErrorClass.TIMEOUT


BLOCKS = st.sampled_from(
    [words("hm"), use("read_file", "c", path="nowhere"), use("read_file", "c", path=1), use("x", "c"),
     use("finish", "c", status="completed", summary="s"), use("finish", "c", status=1)]
)  # fmt: skip
STOPS = st.sampled_from(
    ["end_turn", "tool_use", "max_tokens", "pause_turn", "stop_sequence", "what_is_this", ""]
)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.lists(BLOCKS, max_size=3), STOPS), min_size=1, max_size=6))
def test_whatever_the_model_answers_every_call_gets_its_result(
    tmp_path_factory: pytest.TempPathFactory, answers: list[tuple[list[dict[str, Any]], str]]
) -> None:
    replies: list[Reply] = []
    for n, (blocks, stop) in enumerate(answers):
        named = [{**b, "id": f"c{n}-{i}"} if b["type"] == "tool_use" else b for i, b in enumerate(blocks)]
        replies.append(Reply(named, stop, TokenUsage()))
    stage = Stage(tmp_path_factory.getbasetemp(), *replies, max_steps=6)
    with contextlib.suppress(ModelError):
        ending = stage.run()
        assert ending.exhausted or ending.verdict == {"status": "completed", "summary": "s"} or ending.text
    assert stage.conversation.open_calls() == []
    roles = [m["role"] for m in stage.conversation.messages]
    assert all(a != b for a, b in itertools.pairwise(roles))


# -- an answer put together from its stream ---------------------------------------------------------------


def test_a_draft_puts_blocks_together() -> None:
    draft = Draft("m")
    said = [
        draft.take(event)
        for event in (
            {"type": "message_start", "message": {"usage": {
                "input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5,
                "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "S"}},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "one "}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "two"}},
            {"type": "content_block_start", "index": 2,
             "content_block": {"type": "tool_use", "id": "c", "name": "n", "input": {}, "caller": None}},
            {"type": "content_block_delta", "index": 2,
             "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
            {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
            {"type": "content_block_start", "index": 3,
             "content_block": {"type": "tool_use", "id": "d", "name": "n", "input": {"whole": True}}},
            {"type": "content_block_start", "index": 4,
             "content_block": {"type": "tool_use", "id": "e", "name": "n", "input": {}}},
            {"type": "content_block_delta", "index": 4,
             "delta": {"type": "input_json_delta", "partial_json": '{"cut'}},
            {"type": "content_block_start", "index": 5, "content_block": {"type": "text", "text": "  \n"}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        )
    ]  # fmt: skip
    assert "".join(said) == "one two  \n"
    answer = draft.reply()
    assert answer.content == [
        {"type": "thinking", "thinking": "hm", "signature": "S"}, words("one two"),
        use("n", "c", a=1), use("n", "d", whole=True), use("n", "e"),
    ]  # fmt: skip
    assert (answer.stop_reason, answer.broken) == ("tool_use", frozenset({"e"}))
    assert answer.usage == TokenUsage(7, 5, 9, model="m")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(["type", "index", "delta", "usage", "content_block", "message", "text", "id", "input",
                         "partial_json", "input_tokens", "stop_reason"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta",
                              "message_stop", "error", "new"])},
    optional={"index": st.integers(0, 2) | JSON, "delta": JSON, "content_block": JSON, "message": JSON, "usage": JSON},
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(EVENTS, max_size=8))
def test_no_event_makes_a_draft_stumble(events: list[dict[str, Any]]) -> None:
    draft = Draft("m")
    for event in events:
        assert isinstance(draft.take(event), str)
    draft.take({"type": "message_stop"})
    for block in draft.reply().calls:
        assert isinstance(block["input"], dict)


def test_an_input_nested_without_end_is_broken() -> None:
    draft = Draft("m")
    block = {"type": "tool_use", "id": "c", "name": "n"}
    for piece in ('{"a":' + "[" * 60 + "]" * 60 + "}", '{"a":' + "[" * 100_000):
        draft.take({"type": "content_block_start", "index": 0, "content_block": block})
        draft.take(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
        )
        draft.take({"type": "message_stop"})
        assert draft.reply().broken == {"c"}


def test_a_stream_that_broke_off_is_a_network_error() -> None:
    draft = Draft("m")
    draft.take({"type": "message_start", "message": {"usage": {"input_tokens": 3}}})
    with pytest.raises(ModelError) as caught:
        draft.reply()
    assert (caught.value.error_class, caught.value.usage) == (ErrorClass.NETWORK, TokenUsage(3, model="m"))


def test_the_newest_model_in_use_is_chosen() -> None:
    old, new = Model("old", created=1), Model("new", created=2)
    leaving = Model("leaving", created=3, current=False)
    assert choose([old, leaving, new]) == new
    assert choose([leaving]) == leaving
    assert choose([Model("first"), Model("second")]) == Model("first")
    assert choose([]) is None
