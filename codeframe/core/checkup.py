"""What is wrong with a workspace and its surroundings, and the command that mends each thing (`cf doctor`).

Looking changes nothing. A finding that can be mended without losing anything carries the step that does it.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from codeframe.core.config import CONFIG_DIR, load_environment_config
from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.errors import CodeFrameError, UsageError, how_to_write
from codeframe.core.git import Git, Repo, discover, require_version
from codeframe.core.git_locks import git_locks
from codeframe.core.lease import is_held, read_info
from codeframe.core.leftovers import snapshots_of
from codeframe.core.models import RunKind, RunStatus
from codeframe.core.removal import finish_removal, staying
from codeframe.core.run_lock import commit_at_work, is_alive, lease_path, owner_unseen, tree_lock_path
from codeframe.core.scratch import SCRATCH, in_use
from codeframe.core.store.rescue import rescue, trouble
from codeframe.core.whole_file import HALF_WRITTEN
from codeframe.core.workspace import DATABASE, Workspace, find_workspace, leaving, neighbours, unregistered

FIX = "cf doctor --fix"
DELETED = "task_deleted"  # the event that tells a deletion that was cut short from a task that was lost
_EMPTY_RUN = frozenset({"lease", "alive"})  # what the folder of a run holds that was killed before its claim


class Finding(NamedTuple):
    """One thing to mend. `kind` is a stable word, `command` is to be typed; `mend` does what FIX is to do and
    returns what it did, None where a person has to decide."""

    kind: str
    problem: str
    command: str
    mend: Callable[[], str] | None = None


class Checkup(NamedTuple):
    """All findings, the locks that are held in words, and the workspace: one without an id where the repository
    is all that was found, None where not even that."""

    findings: list[Finding]
    locks: list[str]
    workspace: Workspace | None = None


def examine(folder: Path) -> Checkup:
    """Look at the workspace that `folder` lies in, as far as that is possible. UsageError where there is none."""
    try:
        require_version()
        repo = discover(folder)
    except UsageError:
        raise
    except CodeFrameError as error:
        return Checkup([_said("git", error), *_databases_above(folder)], [])
    findings = [*_state_folders(repo)]
    try:
        workspace = find_workspace(folder)
    except UsageError:
        if findings:
            return Checkup(findings, [], Workspace("", repo.toplevel, repo))
        raise
    except CodeFrameError as error:
        return Checkup([*findings, _said("registration", error)], [], Workspace("", repo.toplevel, repo))
    findings += [*_permissions(workspace), *_configuration(workspace)]
    findings += (Finding("git lock", lock.problem, lock.command) for lock in git_locks(repo))
    if unwritable := _unwritable(workspace.state_dir):
        return Checkup([*findings, unwritable], [], workspace)  # SQLite cannot even read there
    if operation := snapshots_of(workspace).operation():
        findings.append(_said("operation", operation))
    if commit := commit_at_work(workspace):
        findings.append(_said("commit", commit))
    damage = _database(workspace.state_dir / DATABASE)
    findings += damage
    try:
        if not damage and (workspace.state_dir / DATABASE).exists():
            for owner in (workspace, *neighbours(workspace)):
                findings += _runs(owner, workspace)
            findings += _processes(workspace)
            findings += _snapshots(workspace)
            findings += _run_folders(workspace)
        findings += _temporaries(workspace)
        return Checkup(findings, _locks(workspace), workspace)
    except CodeFrameError as error:
        return Checkup([*findings, _said("state", error)], [], workspace)


# -- what there may be ------------------------------------------------------------------------------


def _state_folders(repo: Repo) -> Iterator[Finding]:
    """Folders of removals and inits that were killed, and of workspaces whose entry is lost."""
    try:
        for gone in leaving(repo):
            yield Finding(
                "removal", f"The removal of the workspace {gone.root} was cut short.", FIX,
                partial(_finish, gone),
            )  # fmt: skip
    except CodeFrameError as error:
        yield _said("registration", error)
    for folder in unregistered(repo):
        entry = folder / "workspace.json"
        if {each.name for each in folder.iterdir()} <= {f"{entry.name}.new"}:
            yield Finding(
                "folder", f"{folder} is left of an init that was cut short.", FIX, _remover([folder])
            )
        else:
            words = f'\'{{"id": "{folder.name}", "path": "."}}\''
            yield Finding(
                "registration", f"{folder} holds the state of a workspace that is not registered.",
                f"Name its folder again, if it was not the top one: echo {words} > {shlex.quote(str(entry))}",
            )  # fmt: skip


def _configuration(workspace: Workspace) -> Iterator[Finding]:
    """A configuration that nothing can run with: it cannot be read, or names an engine that is not there."""
    try:
        known = EngineRegistry.at(workspace.root)
        config = load_environment_config(workspace.root)
    except CodeFrameError as error:
        yield _said("configuration", error)
        return
    for key, names in (("engine", [config.engine]), ("fallback", config.fallback or ())):
        for name in filter(None, names):
            try:
                known.adapter_class(name)
            except ValueError as error:
                yield Finding(
                    "configuration", f"`{key}` in {CONFIG_DIR}/: {error}", f"Type: cf config set {key} NAME"
                )


def _permissions(workspace: Workspace) -> Iterator[Finding]:
    for folder in (workspace.state_dir.parent, workspace.locks_dir, workspace.state_dir):
        try:
            found = folder.stat()
        except FileNotFoundError:
            continue
        place = shlex.quote(str(folder))
        if found.st_uid != os.geteuid():
            yield Finding(
                "permissions", f"{folder} belongs to another user.", f"sudo chown -R {os.geteuid()} {place}"
            )
        elif stat.S_IMODE(found.st_mode) != 0o700:
            mode = f"{stat.S_IMODE(found.st_mode):o}"
            yield Finding(
                "permissions", f"{folder} has the permissions {mode} instead of 700.", f"chmod 700 {place}",
                partial(_close_to_others, folder),
            )  # fmt: skip


def _unwritable(folder: Path) -> Finding | None:
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        hint = how_to_write(folder / DATABASE, OSError(errno.EROFS, ""))
        return Finding("permissions", f"{folder} cannot be written.", hint)
    return Finding("permissions", f"{folder} cannot be written.", f"chmod u+rwx {shlex.quote(str(folder))}")


def _database(path: Path, *, mends: bool = True) -> list[Finding]:
    if not path.exists():
        return []  # made by the first task
    try:
        said = trouble(path)
    except CodeFrameError as error:
        return [_said("database", error)]
    except sqlite3.Error as error:
        folder = shlex.quote(str(path.parent))
        return [Finding("database", f"The database {path} cannot be opened: {error}.", f"ls -la {folder}")]
    if said is None:
        return []
    return [
        Finding("database", f"The database {path} is damaged ({said}).", FIX, partial(_rescue, path) if mends else None)
    ]  # fmt: skip


def _databases_above(folder: Path) -> list[Finding]:
    """Damaged databases where git is of no use: looked for as git would."""
    folder = folder.resolve()
    homes = (place / ".git" / "codeframe" for place in (folder, *folder.parents))
    home = next((home for home in homes if home.is_dir()), None)
    found = sorted(home.glob(f"*/{DATABASE}")) if home else []
    return [finding for path in found for finding in _database(path, mends=False)]


def _runs(owner: Workspace, here: Workspace) -> Iterator[Finding]:
    """Runs whose process is gone or cannot be seen, of the workspaces that share this working tree."""
    cf = owner.command(here)
    for run in owner.store.runs.running():
        if run.kind is RunKind.MANUAL or is_alive(owner, run.id) or not run.process:
            continue  # by hand there is no process that could be gone
        if refusal := owner_unseen(owner, run, cf):
            yield Finding("unseen", refusal.problem, f"{cf} work stop {run.task_id[:8]} --force")
            continue
        if run.process.get("tree") != here.tree_key:
            cf = f"cf -C {shlex.quote(str(run.process.get('toplevel')))}"
        yield Finding(
            "dead run", f"Run {run.id[:8]} of task {run.task_id[:8]} died; its task is held.", f"{cf} work status"
        )  # fmt: skip


def _processes(workspace: Workspace) -> Iterator[Finding]:
    """Processes that are left of a `cf` that is gone. Those of dead runs are ended together with their recovery."""
    from codeframe.core.process_sweep import describe_process, marked

    left: dict[str, tuple[str, Path]] = {}  # how markers begin -> whose that is, and the lock its `cf` holds
    for run in workspace.store.runs.list():
        if run.status is not RunStatus.RUNNING:
            left[run.id] = f"the ended run {run.id[:8]}", lease_path(workspace, run.id)
        elif run.kind is RunKind.MANUAL:
            left[run.id] = f"gates of the run {run.id[:8]} by hand", tree_lock_path(workspace, run)
    for folder in workspace.state_dir.glob("gates-*"):
        left[folder.name] = "a `cf gates run` that was killed", folder / "lease"
    for process, marker in marked():
        begun_by = marker.partition("/")[0]
        if begun_by in left and not is_held(left[begun_by][1]):
            yield Finding(
                "process", f"A process of {left[begun_by][0]} lives: {describe_process(process)}.",
                FIX, partial(_end, begun_by),
            )  # fmt: skip


def _snapshots(workspace: Workspace) -> Iterator[Finding]:
    """Refs of tasks that are not in the database."""
    prefix = f"refs/codeframe/{workspace.id}/"
    git = Git(workspace.repo.toplevel)
    tasks: dict[str, list[str]] = {}
    for ref in git.text("for-each-ref", "--format=%(refname)", prefix).splitlines():
        tasks.setdefault(ref.removeprefix(prefix).partition("/")[0], []).append(ref)
    known = {task.id for task in workspace.store.tasks.list()} if tasks else set()
    lost = {task: refs for task, refs in tasks.items() if task not in known}
    deleted = _deleted(workspace)[0] if lost else set()
    for task, refs in sorted(lost.items()):
        count = f"{len(refs)} snapshot{'s' if len(refs) != 1 else ''} of task {task}"
        if task in deleted:
            yield Finding(
                "snapshots", f"{count}, which was deleted, are left.", FIX, partial(_delete_refs, workspace, task)
            )  # fmt: skip
        else:
            listing = f"git for-each-ref --format='delete %(refname)' {prefix}{task}/"
            yield Finding(
                "snapshots",
                f"{count}, which the database does not know, may hold work that is nowhere else.",
                f"To look at it: git show --stat {refs[-1]}; to drop it: {listing} | git update-ref --stdin",
            )


def _run_folders(workspace: Workspace) -> Iterator[Finding]:
    """Folders of runs that are not in the database."""
    known = {run.id for run in workspace.store.runs.list()}
    strays = [f for f in _inside(workspace.runs_dir) if f.name not in known and not is_held(f / "lease")]
    deleted = _deleted(workspace)[1] if strays else set()
    harmless = []
    for folder in strays:
        if folder.name in deleted or {each.name for each in _inside(folder)} <= _EMPTY_RUN:
            harmless.append(folder)
        else:
            yield Finding(
                "folder", f"{folder} belongs to no run in the database; it holds what was said in one.",
                f"rm -r {shlex.quote(str(folder))}",
            )  # fmt: skip
    if harmless:
        yield Finding(
            "folder", f"{_named(harmless)} {'is' if len(harmless) == 1 else 'are'} left of no run.", FIX,
            _remover(harmless),
        )  # fmt: skip


def _temporaries(workspace: Workspace) -> Iterator[Finding]:
    """What killed processes left half-written. While a run or an undo is at work it may be theirs."""
    state = workspace.state_dir
    if any(is_held(lock) for lock in (*_tree_locks(workspace), *state.glob("index/*/lock"))):
        return
    patterns = (
        "workspace.json.new", f"{DATABASE}.new*", "gates-*", f"{SCRATCH}*", "index/*/*.new", "index/*/*.tmp",
        "index/*/*.lock", "index/*/undo/*", "runs/*/*.new",
    )  # fmt: skip
    found = [each for pattern in patterns for each in sorted(state.glob(pattern))]
    # `cf gates run`, `cf patch export` and the git of a killed `cf commit create` hold no lock but that of a folder.
    found = [each for each in found if not (each.is_dir() and in_use(each))]
    if workspace.config_dir.is_dir() and not workspace.config_dir.is_symlink():
        found += sorted(workspace.config_dir.glob(f".*{HALF_WRITTEN}"))
    # git leaves one of ours where it was killed itself; until it is gone, no snapshot of the task can be kept.
    found += sorted((workspace.repo.common_dir / "refs" / "codeframe" / workspace.id).glob("**/*.lock"))
    if found:
        yield Finding("temporary", f"Left half-written: {_named(found)}.", FIX, _remover(found))


def _locks(workspace: Workspace) -> list[str]:
    """Who holds what, in words."""
    lines = []
    for lock in _tree_locks(workspace):
        if is_held(lock):
            info = read_info(lock)
            who = (
                f"task {info['task']} “{info.get('title', '')}”"
                if info.get("task")
                else info.get("purpose", "?")
            )
            tree = lock.stem.removeprefix("tree-")
            lines.append(
                f"The working tree {info.get('root', tree)} is held by {who}, process {info.get('pid', '?')}."
            )
    return lines


# -- how it is mended -------------------------------------------------------------------------------


def _finish(workspace: Workspace) -> str:
    finish_removal(workspace)
    return "\n".join([f"Finished the removal of the workspace {workspace.root}.", *staying(workspace)])


def _close_to_others(folder: Path) -> str:
    folder.chmod(0o700)
    return f"{folder} is now 700."


def _rescue(path: Path) -> str:
    done = rescue(path)
    kept = ", ".join(f"{count} {table}" for table, count in done.kept.items())
    lacks = f"; some of these may be missing: {', '.join(done.damaged)}" if done.damaged else ""
    more = f"; and {len(done.mended) - 5} more" if len(done.mended) > 5 else ""
    changed = f" Damaged rows: {'; '.join(done.mended[:5])}{more}." if done.mended else ""
    return f"Made the database anew with {kept}{lacks}.{changed} The damaged one is {done.aside}."


def _end(begun_by: str) -> str:
    from codeframe.core.process_sweep import end_marked

    # Nothing where the finding before was of the same `cf`: all of its are ended at once.
    ended = end_marked(f"{begun_by}/", prefix=True)
    return f"Ended: {'; '.join(ended)}." if ended else ""


def _delete_refs(workspace: Workspace, task_id: str) -> str:
    snapshots_of(workspace).delete_task(task_id)
    return f"Deleted the snapshots of task {task_id}."


def _remover(paths: Iterable[Path]) -> Callable[[], str]:
    def remove() -> str:
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                if not in_use(path):
                    shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return f"Removed {_named(paths)}."

    return remove


# -- helpers ----------------------------------------------------------------------------------------


def _said(kind: str, error: CodeFrameError) -> Finding:
    return Finding(kind, error.problem, error.hint)


def _deleted(workspace: Workspace) -> tuple[set[str], set[str]]:
    """Ids of the tasks that were deleted on purpose, and of their runs."""
    events = [event.metadata for event in workspace.store.events.list() if event.type == DELETED]
    return {e["task"] for e in events}, {run for e in events for run in e["runs"]}


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _tree_locks(workspace: Workspace) -> list[Path]:
    return sorted(workspace.locks_dir.glob("tree-*.lock"))


def _named(paths: Iterable[Path]) -> str:
    """At most three of them."""
    listed = [str(path) for path in paths]
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return ", ".join(listed[:3]) + more
