"""What an engine did to what a person had staged or told git to overlook, and what puts it back."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from codeframe.core.git import Git
from codeframe.core.raw_git import MARKS, Entry, index_info, nul, tree_changes
from codeframe.core.shown import shown
from codeframe.core.snapshots import Snapshot, changed_marks
from codeframe.core.whole_file import write_whole

_STAGED, _MARKED = "what was staged of ", "what git overlooks changed: "
STAGED = (_STAGED, _MARKED)  # how such lines begin
_NAMED = 5


def staged_moved(git: Git, start: Snapshot, end: Snapshot, folder: Path) -> list[str]:
    """A line for each kind of what git is told to overlook that changed, and one where what was staged at `start`
    is staged otherwise at `end`, or files that are there still left the index; none where nothing of it happened.
    What puts it back lies in `folder`.

    What the engine staged of its own beside it is no news.
    """
    marked = list(_marks_moved(start, end, folder))
    if end.unfinished or start.index_tree == end.index_tree:
        return marked
    head = start.head or git.text("mktree")
    persons = {path for path, _, _ in tree_changes(git, head, start.index_tree)}
    changes = tree_changes(git, start.index_tree, end.index_tree)
    if any(after is None for _, _, after in changes):
        persons |= {path for path, staged, _ in tree_changes(git, end.index_tree, end.tree) if staged is None}
    back: dict[str, Entry] = {}
    for path, before, after in changes:
        if path in persons and (entry := before or (after and after.removal())):
            back[path] = entry
    if not back:
        return marked
    record = folder / f"staged-{start.commit[:10]}"
    write_whole(record, index_info(back).decode("utf-8", "surrogateescape"))
    return [
        *marked,
        f"{_STAGED}{_named(back)} changed; to put it back type: "
        f"git update-index -z --index-info < {shlex.quote(str(record))}",
    ]


def _marks_moved(start: Snapshot, end: Snapshot, folder: Path) -> Iterator[str]:
    moved = changed_marks(start, end)
    for letter, name in MARKS.items():
        new = [path for path, (was, now) in moved.items() if letter in now and letter not in was]
        gone = [path for path, (was, now) in moved.items() if letter in was and letter not in now]
        for paths, became, option in ((new, "new", f"--no-{name}"), (gone, "gone", f"--{name}")):
            if paths:
                record = folder / f"{became}-{name}-{start.commit[:10]}"
                write_whole(record, nul(sorted(paths)).decode("utf-8", "surrogateescape"))
                yield (
                    f"{_MARKED}{name} is {became} for {_named(paths)}; to put it back type: "
                    f"git update-index {option} -z --stdin < {shlex.quote(str(record))}"
                )


def _named(paths: Iterable[str]) -> str:
    names = [shown(path) for path in sorted(paths)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
