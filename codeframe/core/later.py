"""Do something meanwhile: most of what a snapshot costs is waiting for one git process after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class later(Generic[T]):
    """Starts `job` on another thread; calling the object waits for it and gives its result or raises its error.

    As a future of `concurrent.futures` would; importing that takes 10 ms, `logging` with it.
    """

    def __init__(self, job: Callable[[], T]) -> None:
        self._job = job
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __call__(self) -> T:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._job())
        except BaseException as error:
            self._error = error
