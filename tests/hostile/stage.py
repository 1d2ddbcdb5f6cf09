"""The stage of a hostile engine: a project with a person's work in it, a fake `claude`, and the real `cf`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeframe.core.heartbeat import ALIVE
from codeframe.core.models import Run, Task
from codeframe.core.process_sweep import find_marked
from codeframe.core.run_lock import is_alive, tree_in_use
from codeframe.core.workspace import Workspace, init_workspace
from tests.kit.engines import Completed, run_cf, start_cf
from tests.kit.repos import Content, git, make_repo, write
from tests.kit.scenario import FakeEngine
from tests.kit.waiting import wait_until

WAIT_S = 60.0  # for what must happen soon; reached only when a test fails

# What a person has in the tree while engines run: nothing of it may ever be lost.
COMMITTED: dict[str, Content] = {
    ".gitignore": ".venv\n",
    "README.md": "hello\n",
    "staged.txt": "old\n",
    "unstaged.txt": "old\n",
}
STAGED, UNSTAGED, UNTRACKED = "staged by a person\n", "edited by a person\n", "new by a person\n"


@dataclass
class Stage:
    """One project. `place` is where `cf` is typed; `clean` says that no person's work is in the tree."""

    repo: Path
    engine: FakeEngine
    workspace: Workspace
    place: Path
    clean: bool = False
    more_env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        folder: Path,
        files: dict[str, Content] | None = None,
        *,
        name: str = "project",
        clean: bool = False,
        empty: bool = False,
    ) -> Stage:
        """A repository of `files` over COMMITTED (`empty`: without a commit), a person's work on top."""
        repo = make_repo(folder / name, None if empty else COMMITTED | (files or {}))
        if empty:
            write(repo, {"README.md": "hello\n"})
        elif not clean:
            write(repo, {"staged.txt": STAGED})
            git(repo, "add", "staged.txt")
            write(repo, {"unstaged.txt": UNSTAGED, "untracked.txt": UNTRACKED})
        workspace, _ = init_workspace(repo)
        return cls(repo, FakeEngine(folder), workspace, repo, clean or empty)

    def use_own_environment(self) -> None:
        """Give the project a `.venv` that has pytest: the one these tests run in."""
        (self.repo / ".venv").symlink_to(sys.prefix)

    def gate(self, shell: str, name: str = "check", timeout: str = "60s") -> None:
        """Declare one gate: a shell command."""
        entry = {"name": name, "command": ["sh", "-c", shell], "timeout": timeout}
        write(self.repo, {".codeframe/config.yaml": json.dumps({"gates": [entry]})})

    # -- typing commands ----------------------------------------------------------------------------

    @property
    def env(self) -> dict[str, str]:
        own = str(Path(sys.executable).parent)
        path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if p != own)
        # The plugins of the tests' own environment would cost every pytest of a gate seconds.
        quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CODEFRAME_BACKOFF_S": "0.01"}
        return {"PATH": self.engine.path(path), **quick, **self.more_env}

    def task(self, title: str = "Write the module", description: str = "Add work.py.") -> Task:
        return self.workspace.store.tasks.add(title, description=description)

    def cf(self, *args: str, timeout: float = 120.0) -> Completed:
        return run_cf(*args, cwd=self.place, env=self.env, timeout=timeout)

    def start_args(self, task: Task, *more: str, gates: bool = False) -> list[str]:
        args = ["work", "start", task.id, "--execute", "--engine", "claude-code", *more]
        return args if gates else [*args, "--no-gates"]

    def start(self, task: Task, *more: str, gates: bool = False, timeout: float = 120.0) -> Outcome:
        """`cf work start`, to its end."""
        return self.outcome(task, self.cf(*self.start_args(task, *more, gates=gates), timeout=timeout))

    def again(self, verb: str, task: Task, *more: str) -> Outcome:
        """`cf work resume` or `retry`, to its end."""
        return self.outcome(task, self.cf("work", verb, task.id, *more))

    def begin(self, task: Task, *more: str) -> subprocess.Popen[str]:
        """`cf work start` in the background."""
        return start_cf(*self.start_args(task, *more), cwd=self.place, env=self.env)

    def kill(self, task: Task, process: subprocess.Popen[str], release: Path | None = None) -> str:
        """kill -9 of a `begin` that was seen to live after all that is in the tree; returns its stderr.

        `release` is made right after, for what holds its pipes.
        """
        run = self.workspace.store.runs.latest(task.id)
        assert run is not None
        beats = self.workspace.run_dir(run.id) / ALIVE
        now = beats.stat().st_mtime_ns
        wait_until(lambda: beats.stat().st_mtime_ns > now)
        os.kill(process.pid, signal.SIGKILL)
        if release is not None:
            release.touch()
        return process.communicate(timeout=WAIT_S)[1]

    def ended(self, task: Task, process: subprocess.Popen[str]) -> Outcome:
        """What became of a `begin`."""
        out, err = process.communicate(timeout=WAIT_S)
        return self.outcome(task, Completed(process.returncode, out, err))

    def outcome(self, task: Task, said: Completed) -> Outcome:
        """The command's end with the run's row; checks what holds however an engine behaves."""
        run = self.workspace.store.runs.latest(task.id)
        assert run is not None, f"no run was made: {said}"
        outcome = Outcome(self, said, run)
        outcome.check_manners()
        return outcome

    # -- looking ------------------------------------------------------------------------------------

    def why(self, task: Task) -> str:
        said = self.cf("work", "why", task.id)
        assert said.exit_code == 0, said
        return said.stdout

    def status(self, task: Task) -> str:
        return self.workspace.store.tasks.get(task.id).status.value

    def read(self, path: str) -> str:
        return (self.repo / path).read_text()

    def is_there(self, path: Path | str) -> bool:
        return os.path.lexists(self.repo / path)

    def check_persons_work(self) -> None:
        """The person's staged work is staged, their unstaged unstaged, their untracked untracked."""
        if self.clean:
            return
        assert self.read("untracked.txt") == UNTRACKED
        assert self.read("unstaged.txt") == UNSTAGED
        assert self.read("staged.txt") == STAGED
        assert git(self.repo, "show", ":staged.txt") + "\n" == STAGED
        assert git(self.repo, "show", ":unstaged.txt") == "old"
        assert git(self.repo, "ls-files", "untracked.txt") == ""


@dataclass
class Outcome:
    """How a `cf work start|resume|retry` ended, and the run it made."""

    stage: Stage
    said: Completed
    run: Run

    @property
    def exit(self) -> int:
        return self.said.exit_code

    @property
    def told(self) -> str:
        """All that a person saw."""
        return self.said.stdout + self.said.stderr

    @property
    def rounds(self) -> list[dict[str, Any]]:
        return self.stage.workspace.store.runs.rounds(self.run.id)

    def expect(self, exit: int, run: str, error_class: str | None, task: str) -> None:
        """Exit status, run status, error class and task status are these."""
        found = self.run.error_class.value if self.run.error_class else None
        now = self.exit, self.run.status.value, found, self.stage.status(self.task)
        assert now == (exit, run, error_class, task), f"{now}\n{self.told}"

    @property
    def task(self) -> Task:
        return self.stage.workspace.store.tasks.get(self.run.task_id)

    def check_manners(self) -> None:
        """No traceback, nothing left running, no lock left behind."""
        assert "Traceback" not in self.told, self.told
        assert "Internal error" not in self.told, self.told
        left = find_marked(f"{self.run.id}/", prefix=True)
        assert left == [], f"still running: {[p.cmdline() for p in left]}"
        assert not is_alive(self.stage.workspace, self.run.id)
        assert not tree_in_use(self.stage.workspace)

    def saved(self, path: str) -> str:
        """The content of `path` in the run's last snapshot, which a ref under refs/codeframe keeps."""
        assert self.run.end is not None
        kept = git(self.stage.repo, "for-each-ref", "--format=%(objectname)", "refs/codeframe/").splitlines()
        assert self.run.end in kept, "no ref keeps the run's work"
        return git(self.stage.repo, "show", f"{self.run.end}:{path}") + "\n"

    def check_work_kept(self, path: str, content: str) -> None:
        """The engine's work is in the tree and in a ref; the person's is where it was."""
        assert self.stage.read(path) == content
        assert self.saved(path) == content
        self.stage.check_persons_work()


def prompt_text(stdin: bytes | None) -> str:
    """The prompt in the message an engine got on stdin."""
    message = json.loads(stdin or b"{}")
    return "".join(block["text"] for block in message["message"]["content"])


def safety_of(undone: str) -> str:
    """The snapshot that `cf work undo` says it took first."""
    return undone.split("--source=")[1].split()[0]
