"""What a person does about blockers, and what becomes of the task with it (rule 8.1).

A blocker of a run leaves its task BLOCKED until `cf work resume` goes on in that run's session. One that a
person raised belongs to no run: once the last of them is dealt with the task is READY again.
"""

from __future__ import annotations

from codeframe.core.models import Blocker, BlockerStatus, Task, TaskStatus
from codeframe.core.store import Store


def raise_blocker(store: Store, task: Task, question: str) -> Blocker:
    """Block a task with a question of a person's.

    Raises CodeFrameError for a task that is being worked on or is done.
    """
    with store.write():
        store.tasks.block(task.id)
        return store.blockers.add(task.id, None, question)


def answer(store: Store, blocker: Blocker, text: str) -> Blocker:
    """Record a person's answer. Raises as `BlockerStore.answer`."""
    with store.write():
        answered = store.blockers.answer(blocker.id, text)
        _let_go(store, answered)
        return answered


def resolve(store: Store, blocker: Blocker) -> Blocker:
    """Declare a blocker settled, without words for the engine. Doing it twice changes nothing."""
    with store.write():
        resolved = store.blockers.resolve(blocker.id)
        _let_go(store, resolved)
        return resolved


def _let_go(store: Store, blocker: Blocker) -> None:
    if blocker.run_id is not None or store.tasks.get(blocker.task_id).status is not TaskStatus.BLOCKED:
        return
    if not store.blockers.list(status=BlockerStatus.OPEN, task_id=blocker.task_id):
        store.tasks.set_status(blocker.task_id, TaskStatus.READY)
