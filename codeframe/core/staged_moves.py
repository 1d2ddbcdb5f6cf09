"""What an engine did to what a person had staged, and what puts it back."""

from __future__ import annotations

import shlex
from pathlib import Path

from codeframe.core.git import Git
from codeframe.core.raw_git import Entry, index_info, tree_changes
from codeframe.core.shown import shown
from codeframe.core.snapshots import Snapshot
from codeframe.core.whole_file import write_whole

STAGED = "what was staged of "  # how such a line begins
_NAMED = 5


def staged_moved(git: Git, start: Snapshot, end: Snapshot, folder: Path) -> list[str]:
    """A line where what was staged at `start` is staged otherwise at `end`, or files that are there still left
    the index; none where nothing of it happened. What puts it back lies in `folder`.

    What the engine staged of its own beside it is no news.
    """
    if end.unfinished or start.index_tree == end.index_tree:
        return []
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
        return []
    record = folder / f"staged-{start.commit[:10]}"
    write_whole(record, index_info(back).decode("utf-8", "surrogateescape"))
    paths = [shown(path) for path in sorted(back)]
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return [
        f"{STAGED}{', '.join(paths[:_NAMED])}{more} changed; to put it back type: "
        f"git update-index -z --index-info < {shlex.quote(str(record))}"
    ]
