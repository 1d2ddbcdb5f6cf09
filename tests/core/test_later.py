"""What is begun now is waited for, or fails, where its result is asked for."""

from __future__ import annotations

import threading

import pytest

from codeframe.core.later import later


def test_it_has_begun_before_anyone_asks_and_gives_its_result_each_time() -> None:
    begun, go = threading.Event(), threading.Event()

    def job() -> int:
        begun.set()
        assert go.wait(60)
        return 7

    result = later(job)
    assert begun.wait(60)
    go.set()
    assert (result(), result()) == (7, 7)


def test_one_may_wait_for_another() -> None:
    first = later(lambda: "a")
    assert later(lambda: first() + "b")() == "ab"


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_is_raised_where_the_result_is_asked_for(kind: type[BaseException]) -> None:
    def job() -> None:
        raise kind("no")

    result = later(job)
    for _ in range(2):
        with pytest.raises(kind, match="no"):
            result()
