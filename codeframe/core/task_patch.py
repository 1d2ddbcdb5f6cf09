"""`cf patch export`: what a task changed as a patch in git's mail format, for `git am` or `git apply`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from codeframe.core.errors import CodeFrameError
from codeframe.core.git import IDENTITY
from codeframe.core.models import Task
from codeframe.core.person_index import put_entries
from codeframe.core.task_commit import message_of, nothing
from codeframe.core.task_work import EXPORT, TaskWork, index_of_head, steps
from codeframe.core.workspace import Workspace

# Each against a setting of the person's that would make the patch one that `git am` reads otherwise.
_FORMAT = (
    "--stdout", "--binary", "--full-index", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/",
    "--subject-prefix=PATCH", "--no-numbered", "--no-cover-letter", "--no-attach", "--no-signature",
    "--no-to", "--no-cc", "--no-add-header", "--no-base", "-U3", f"-O{os.devnull}",
)  # fmt: skip


def patch_of(workspace: Workspace, task: Task, named: Sequence[str] = ()) -> tuple[bytes, Mapping[str, str]]:
    """The patch that makes of HEAD what the task's commit would, and what that leaves out, each with why; of a
    committed task, that commit as it is. `named` is as for `commit_task`.

    Nothing is changed. Raises CodeFrameError where the task changed nothing, or something that stands on
    changes which are not committed.
    """
    work = TaskWork(workspace, task, named, command=EXPORT)
    wanted = work.wanted()
    if wanted:
        with index_of_head(work) as (index, _):
            put_entries(work.git, wanted, index)
            tree = work.git.text("write-tree", env={"GIT_INDEX_FILE": str(index)})
        parent = ("-p", work.head.commit) if work.head.commit else ()
        text = message_of(task, work.runs[-1], None).encode()
        known = work.git.text("config", "user.email", check=False)
        commit = work.git.text("commit-tree", tree, *parent, stdin=text, env=None if known else IDENTITY)
        if other := {path for path, _ in steps(work.git, work.head.commit, commit).items() ^ wanted.items()}:
            raise CodeFrameError(
                f"The patch would not be what the task changed: {min(other)} is wrong in it.",
                "Nothing was written; type the same again.",
            )
        commits = [commit]
    else:
        grep = ("--fixed-strings", f"--grep=CodeFrame-Task: {task.id}")
        commits = work.git.text("log", "--reverse", "--format=%H", *grep, "HEAD", "--", check=False).split()
    left_out = work.left_out()
    if not commits:
        raise nothing(work, left_out)
    patches = [work.git.run("format-patch", "-1", *_FORMAT, commit).stdout for commit in commits]
    return b"".join(patches), left_out
