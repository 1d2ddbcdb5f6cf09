"""Where a conformance case is played: one project, one home, one scripted model, the real `cf` and a real engine.

`Engine` is all that differs from engine to engine: a new one is one class of this shape.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import psutil
import pytest

from codeframe.demo.model_script import Block, as_turn
from codeframe.demo.model_server import Request, ScriptedModel
from tests.kit.engines import Completed, run_cf, start_cf
from tests.kit.repos import git, make_repo
from tests.kit.waiting import wait_until

SCENARIO = "work"
PATIENCE_S = 600.0  # for one command; a busy machine is no failure


class Engine(Protocol):
    """A row of the table: what a case has to know of one engine.

    The scripted model speaks the API of every engine; its blocks and `requests` mean the same in each.
    """

    name: str
    # Whether the engine asks its model only once per prompt: all the turns of a prompt then come in one answer.
    asks_once: bool
    # Words of a blocker that say how to log in.
    login_words: tuple[str, ...]

    def environment(self, home: Path, url: str) -> dict[str, str]:
        """The environment of a person who has this engine, logged in, with its model at `url` (see `logged_in`).

        It may write that person's configuration into `home`; called again, for another `url`.
        """
        ...

    def logged_out(self, env: Mapping[str, str]) -> dict[str, str]:
        """The same without any credentials."""
        ...

    def logins(self) -> Mapping[str, Any]:
        """Ways to be logged in beside the usual one: name -> function(home) -> variables to add."""
        ...

    def write(self, path: str, content: str) -> Block:
        """The model's call of the tool that writes a file; `{cwd}` stands for the project."""
        ...

    def shell(self, command: str) -> Block:
        """The model's call of the tool that runs a shell command, in the foreground, without a limit that matters."""
        ...

    def verdict(self, summary: str, status: str = "completed", **more: Any) -> Block:
        """How the model reports its end (rule 4.9)."""
        ...

    def session_files(self, home: Path) -> list[Path]:
        """What the engine keeps of its sessions in `home`."""
        ...


class Stage:
    """One project with `cf init` done, in a home of its own. `play` says what the model does."""

    def __init__(self, engine: Engine, server: ScriptedModel, folder: Path, name: str = SCENARIO) -> None:
        self.engine, self.server, self.folder, self.scenario = engine, server, folder, name
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.repo = make_repo(folder / f"project-{name}", {"README.md": "# A project\n"})
        self.env = engine.environment(self.home, server.url(name))
        self.cf("init")

    def play(self, *prompts: list[Any], **scenario: Any) -> None:
        """The n-th list holds the model's turns after the n-th prompt; `scenario` as in `model_script`."""
        scenario["prompts"] = list(prompts) or [[self.done()]]
        if self.engine.asks_once:
            for branch in (scenario, *scenario.get("match", [])):
                branch["prompts"] = [_in_one_answer(turns) for turns in branch["prompts"]]
        self.server.add(self.scenario, scenario)

    # -- what the model does ----------------------------------------------------------------------

    def write(self, path: str, content: str) -> Block:
        return self.engine.write(f"{{cwd}}/{path}", content)

    def done(self, summary: str = "did it", **more: Any) -> Block:
        return self.engine.verdict(summary, **more)

    def sleeper(self, detached: str = "") -> Block:
        """A shell tool's `sleep 300`; its pid is in `pid_file`. `detached`: the command that makes it a daemon."""
        script = f"echo $$ > {self.pid_file}; exec sleep 300"
        command = f"sh -c '{script}'"
        if detached:
            # The shell must not go on before the daemon is there: it would be none yet.
            command = (
                f"{detached} {command} >/dev/null 2>&1 & until test -s {self.pid_file}; do sleep 0.05; done"
            )
        return self.engine.shell(command)

    @property
    def pid_file(self) -> Path:
        return self.folder / "sleeper.pid"

    def sleeping(self) -> psutil.Process:
        """The sleeper, once it runs."""
        wait_until(lambda: self.pid_file.exists() and self.pid_file.read_text().strip(), PATIENCE_S)
        number = int(self.pid_file.read_text())
        candidates = [p for p in engine_processes(self.home) if own_number(p) == number]
        (sleeper,) = [p for p in candidates if any("sleep" in word for word in p.cmdline())]
        return sleeper

    # -- what a person does -----------------------------------------------------------------------

    def cf(self, *args: str, env: Mapping[str, str] | None = None, stdin: str | None = None) -> Completed:
        return run_cf(*args, cwd=self.repo, env=env or self.env, timeout=PATIENCE_S, stdin=stdin)

    def task(self, title: str = "Do the work", description: str = "") -> str:
        """Add a task; its id."""
        return self.cf("tasks", "add", title, "--description", "-", stdin=description).stdout.strip()

    def start(self, task: str, *flags: str, env: Mapping[str, str] | None = None) -> Completed:
        return self.cf(*self.starting(task), *flags, env=env)

    def starting(self, task: str) -> tuple[str, ...]:
        return ("work", "start", task, "--execute", "--engine", self.engine.name)

    def begin(self, task: str, *flags: str) -> subprocess.Popen[str]:
        """Start the task in another terminal."""
        return start_cf(*self.starting(task), *flags, cwd=self.repo, env=self.env, stdin=subprocess.DEVNULL)

    def gate(self, command: str) -> None:
        """Declare the one gate of the project: a shell command."""
        self.gates({"name": "check", "command": ["sh", "-c", command], "timeout": 60})

    def gates(self, *gates: dict[str, Any]) -> None:
        """Declare the gates of the project, as in its configuration."""
        done = self.cf("config", "set", "gates", json.dumps(gates))
        assert done.exit_code == 0, done.stderr

    # -- what is to be seen -----------------------------------------------------------------------

    def why(self, task: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The latest run of a task, and its engine calls."""
        said = self.cf("work", "why", task, "--json").json()
        return said["run"], said["rounds"]

    def run(self, task: str) -> dict[str, Any]:
        return self.why(task)[0]

    def rounds(self, task: str) -> list[dict[str, Any]]:
        return self.why(task)[1]

    def status(self, task: str) -> str:
        return str(self.cf("tasks", "show", task, "--json").json()["status"])

    def blockers(self) -> list[dict[str, Any]]:
        return list(self.cf("blocker", "list", "--json").json())

    def requests(self) -> list[Request]:
        """The requests the model got."""
        return self.server.requests(self.scenario)

    def asked(self) -> tuple[str, ...]:
        """The person's prompts in the conversation of the latest request."""
        return self.requests()[-1].prompts

    def unharmed(self) -> None:
        """What a run must leave alone: commits, the index, what was committed."""
        assert git(self.repo, "log", "--format=%s") == "first"
        assert git(self.repo, "diff", "--cached", "--name-only") == ""
        assert (self.repo / "README.md").read_text() == "# A project\n"


def _in_one_answer(turns: list[Any]) -> list[Any]:
    """The turns of a prompt as one; an error among them leaves them as they are."""
    whole = [as_turn(turn) for turn in turns]
    if any("error" in turn for turn in whole):
        return turns
    how = {key: value for turn in whole for key, value in turn.items()}
    return [{**how, "blocks": [block for turn in whole for block in turn["blocks"]]}]


def engine_processes(home: Path) -> list[psutil.Process]:
    """Live processes that were started for `home`, which is one test's alone; zombies do not live."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME") == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def own_number(process: psutil.Process) -> int:
    """The pid a process has in its own eyes: a sandbox may have a pid namespace of its own."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return process.pid
    return int(status.partition("NSpid:")[2].partition("\n")[0].split()[-1])


def is_gone(process: psutil.Process) -> bool:
    """Whether this very process has ended."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def ended(process: subprocess.Popen[str]) -> Completed:
    """Wait for a `cf` of another terminal."""
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"cf did not end\nstdout: {out}\nstderr: {err}") from None
    return Completed(process.returncode, out, err)


def _linked_if_it_may(source: str, target: str) -> None:
    """Packages are thousands of files, and nobody changes them in place."""
    if f"{os.sep}node_modules{os.sep}" in source:
        try:
            os.link(source, target)
            return
        except OSError:  # another file system
            pass
    shutil.copy2(source, target)


class Staged:
    """What test classes share whose cases are played by an engine. `engine` is the row of the one under test."""

    engine: ClassVar[Engine]

    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[Stage]:
        with staged(self.engine, tmp_path) as stage:
            yield stage
            for process in engine_processes(stage.home):  # after a failure: the next test is not to suffer
                process.kill()


@contextmanager
def staged(engine: Engine, folder: Path) -> Iterator[Stage]:
    """A stage with a scripted model of its own, which is yet to be told what to `play`.

    Its home is a copy of the engine's `template`, where it has one: a home in which it was started before.
    """
    if (template := getattr(engine, "template", None)) is not None:
        shutil.copytree(template, folder / "home", copy_function=_linked_if_it_may, symlinks=True)
    with ScriptedModel() as server:
        yield Stage(engine, server, folder)
