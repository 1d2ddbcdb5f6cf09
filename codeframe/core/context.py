"""What there is to know about a task, collected and free of secrets; how it is told is the packager's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from codeframe.core.config import load_environment_config
from codeframe.core.errors import CodeFrameError
from codeframe.core.models import Blocker, BlockerStatus, Prd, RunStatus, Task
from codeframe.core.redaction import Redactor
from codeframe.core.relevant_files import Ranking, rank_files
from codeframe.core.safe_read import Refusal, Unreadable, read_text_inside
from codeframe.core.secret_files import looks_secret
from codeframe.core.snapshots import Snapshots
from codeframe.core.tech_stack import detect_tech_stack
from codeframe.core.workspace import Workspace

PREFERENCE_FILES = ("AGENTS.md", "CLAUDE.md", "CODEFRAME.md")
SECRET = "looks like a secret or holds one"
MAX_PREFERENCES_BYTES = 256 * 1024
MAX_DEPENDENCIES = 20
MAX_DIFF_LINES = 20_000  # a longer diff fits no budget: it is not even made


class ProjectFile(NamedTuple):
    """A file by its path relative to the workspace, and its text."""

    path: str
    text: str


class LeftOut(NamedTuple):
    """A file that is named but not shown; `why` ends a sentence that begins with its path."""

    path: str
    why: str


class Dependency(NamedTuple):
    """What a task that had to be done first left behind.

    `summary`, `diff` and `stat` are those of its last COMPLETED run, "" where there are none; `span` is the
    two commits the diff lies between (`git diff` takes them), `left_out` the files missing from the diff.
    """

    task: Task
    summary: str = ""
    diff: str = ""
    stat: str = ""
    span: str = ""
    left_out: tuple[LeftOut, ...] = ()


class TaskContext(NamedTuple):
    """Everything an engine may be told about a task, without secrets."""

    task: Task
    prd: Prd | None
    tech_stack: str
    preferences: tuple[ProjectFile, ...]
    preferences_left_out: tuple[LeftOut, ...]
    files: Ranking
    blockers: tuple[Blocker, ...]
    dependencies: tuple[Dependency, ...]


def collect(
    workspace: Workspace, task_id: str, redactor: Redactor, snapshots: Snapshots | None = None
) -> TaskContext:
    """What task `task_id` needs to know. Runs nothing of the repository and writes nothing.

    Secrets (rule 9.2): a file that looks secret or holds a secret is left out whole and named, and so is
    its part of a diff; in what people and engines wrote (titles, PRD, answers, summaries) the secret
    alone is replaced. Without `snapshots` a dependency has no diff. UsageError for an unknown task.
    """
    store, clean = workspace.store, redactor.redact
    task = _clean_task(store.tasks.get(task_id), redactor)
    prd = store.prds.current()
    preferences, left_out = _preferences(workspace, redactor)
    return TaskContext(
        task=task,
        prd=prd._replace(title=clean(prd.title), content=clean(prd.content)) if prd else None,
        tech_stack=clean(load_environment_config(workspace.root).tech_stack or "")
        or detect_tech_stack(workspace.root),
        preferences=preferences,
        preferences_left_out=left_out,
        files=rank_files(
            workspace.repo.toplevel,
            workspace.root,
            task.title,
            task.description,
            holds_secret=redactor.contains_secret,
            exclude=PREFERENCE_FILES,
        ),
        blockers=tuple(
            b._replace(question=clean(b.question), answer=b.answer and clean(b.answer))
            for b in store.blockers.history(task_id)
            if b.answer or b.status is BlockerStatus.OPEN  # what was settled without words says nothing
        ),
        dependencies=tuple(
            _dependency(workspace, id_, redactor, snapshots) for id_ in task.depends_on[:MAX_DEPENDENCIES]
        ),
    )


def _clean_task(task: Task, redactor: Redactor) -> Task:
    return task._replace(title=redactor.redact(task.title), description=redactor.redact(task.description))


def _preferences(
    workspace: Workspace, redactor: Redactor
) -> tuple[tuple[ProjectFile, ...], tuple[LeftOut, ...]]:
    """The preference files of the repository, then those of the workspace where it is a folder of it.

    The same text twice, or a file that only imports another one of them, would be paid for twice.
    """
    found: dict[Path, ProjectFile] = {}
    left_out = []
    toplevel = workspace.repo.toplevel
    for path in [
        folder / n for folder in dict.fromkeys((toplevel, workspace.root)) for n in PREFERENCE_FILES
    ]:
        name = os.path.relpath(path, workspace.root)
        real = Path(os.path.realpath(path))
        if looks_secret(os.path.relpath(real, toplevel)):
            left_out.append(LeftOut(name, SECRET))
            continue
        try:
            text = _without_front_matter(read_text_inside(toplevel, path, MAX_PREFERENCES_BYTES))
        except Unreadable as error:
            if error.refusal is not Refusal.MISSING:
                left_out.append(LeftOut(name, str(error)))
            continue
        if redactor.contains_secret(text):
            left_out.append(LeftOut(name, SECRET))
        elif text and text not in (other.text for other in found.values()):
            found[path] = ProjectFile(name, text)
    kept = (file for path, file in found.items() if not _only_imports(path, file.text, found))
    return tuple(kept), tuple(left_out)


def _without_front_matter(text: str) -> str:
    return re.sub(r"\A---[ \t]*\n.*?^---[ \t]*(\n|\Z)", "", text, flags=re.DOTALL | re.MULTILINE).strip()


def _only_imports(path: Path, text: str, others: Iterable[Path]) -> bool:
    """Whether all of `text` is lines like `@AGENTS.md` that name others of these files."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    imported = [Path(os.path.normpath(path.parent / line[1:])) for line in lines if line.startswith("@")]
    return len(imported) == len(lines) and set(imported) <= set(others) - {path}


def _dependency(
    workspace: Workspace, task_id: str, redactor: Redactor, snapshots: Snapshots | None
) -> Dependency:
    task = _clean_task(workspace.store.tasks.get(task_id), redactor)
    completed = workspace.store.runs.list(task_id=task_id, status=RunStatus.COMPLETED, limit=1)
    if not completed:
        return Dependency(task)
    run = completed[0]
    summary = redactor.redact(run.summary)
    if snapshots is None or not run.base or not run.end or run.base == run.end:
        return Dependency(task, summary)
    try:
        stat = snapshots.diff(run.base, run.end, stat=True)
        small = sum(map(int, re.findall(r"(\d+) (?:insertion|deletion)", stat))) <= MAX_DIFF_LINES
        diff = snapshots.diff(run.base, run.end) if small else ""
    except CodeFrameError:
        return Dependency(task, summary)  # the snapshots were removed: the summary is what is left
    diff, left_out = _without_secret_files(diff, redactor)
    return Dependency(task, summary, diff, redactor.redact(stat), f"{run.base} {run.end}", left_out)


def _without_secret_files(diff: str, redactor: Redactor) -> tuple[str, tuple[LeftOut, ...]]:
    """A git diff without the parts of files that look secret or hold a secret, and the names of those."""
    kept, left_out = [], []
    for part in re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE):
        header = part.partition("\n@@")[0]
        paths = re.findall(r'^(?:--- "?a|\+\+\+ "?b)/(.*?)"?\t?$', header, re.MULTILINE)
        # An empty or binary file has no such lines, but the same name twice in the first one.
        paths = paths or re.findall(r'\Adiff --git "?a/(.*)"? "?b/\1"?$', header, re.MULTILINE)
        if any(map(looks_secret, paths)) or redactor.contains_secret(part):
            left_out.append(LeftOut(paths[-1] if paths else "a file", SECRET))
        else:
            kept.append(part)
    return "".join(kept), tuple(left_out)
