"""`cf demo`: the main job on a small project, with a scripted model, offline and free."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from codeframe.cli.grammar import Commands
from codeframe.cli.output import say

if TYPE_CHECKING:
    from codeframe.demo.stage import Stage
    from codeframe.demo.story import Task

app = Commands()

# This very copy of CodeFrame, installed or not, and nothing of the working directory.
_CF = (
    sys.executable,
    "-P",
    "-c",
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); "
    "from codeframe.cli.app import main; main()",
)


@app.command()
def demo(
    engine: str | None = typer.Option(
        None, "--engine", metavar="NAME", help="Let another engine do it, where it is installed."
    ),
) -> None:
    """See the whole thing work: three tasks on a small project, offline, with a scripted model.

    Its folder stays, for you to look at.
    """
    from codeframe.core.engine_check import check_engine
    from codeframe.core.engine_registry import DEFAULT_ENGINE, TYPED_WHY
    from codeframe.demo.model_server import ScriptedModel
    from codeframe.demo.stage import Stage
    from codeframe.demo.story import scenario

    name = engine or DEFAULT_ENGINE
    how = called()
    with ScriptedModel({"demo": scenario()}, models=["scripted-model"]) as model:
        stage = Stage(model.url("demo"))
        os.environ.clear()  # what is asked of an engine here is asked in the demo's environment
        os.environ.update(stage.env)
        check_engine(name, TYPED_WHY)
        say("The model in this demo is scripted: a small server on this machine that plays fixed answers.")
        say(
            "All else is real: the engine, its tools, the gates, git, every command. Nothing leaves this machine;"
        )
        say("a cost that an engine names is its own reckoning, and nobody pays it.")
        stage.build()
        _Play(stage, name, how).all()


class _Play:
    """What a person would type, in order, shown and run."""

    def __init__(self, stage: Stage, engine: str, called: str) -> None:
        self._stage, self._engine, self._called = stage, engine, called
        self._ids: dict[str, str] = {}

    def all(self) -> None:
        from codeframe.demo.story import ANSWER, TASKS

        _chapter("A project with a few tests becomes a workspace")
        self._shown("cd", str(self._stage.project))
        self._cf("init", "--detect")
        self._cf("config", "set", "engine", self._engine)
        say(
            "\nGates run the project's own code. A person says once that they may; what changes is asked again."
        )
        self._cf("trust", "--yes")
        self._cf("prd", "add", "PRD.md")
        for task in TASKS:
            self._add(task)
        self._cf("tasks", "list")

        _chapter("The first try fails its gates; the engine is sent back with the failures")
        total = self._ids["total"]
        self._cf("work", "start", total, "--execute")
        self._cf("work", "why", total)
        self._cf("work", "diff", total)
        self._cf("commit", "create")

        _chapter("The second task meets a question only a person can answer")
        discount = self._ids["discount"]
        self._cf("work", "start", discount, "--execute", status=3)
        self._cf("blocker", "list")
        self._cf("blocker", "answer", self._open_blocker(), ANSWER)
        self._cf("work", "resume", discount)
        self._cf("commit", "create")

        _chapter("The third is ready now; `work start` finds it")
        self._cf("work", "start", "--execute")
        self._cf("commit", "create")

        _chapter("What is there now")
        self._cf("tasks", "list")
        self._git("log", "--oneline")

        _chapter("On your own project")
        if self._called:
            say(f"    alias cf={self._called}    # until it is installed, as README.md says")
        say("    cf init --detect            # in your repository; adds nothing that git shows")
        say("    cf engines list             # the engines there are, and which one would run")
        say("    cf engines check NAME       # what it still needs")
        say("    cf trust                    # shows what of the project would run, and asks")
        say('    cf tasks add "what is to be done"')
        say("    cf work start --execute --engine NAME")
        say()
        say(f"The demo's project stays in {self._stage.project}: look around, then remove it.")

    def _cf(self, *args: str, status: int = 0) -> None:
        """Run a command of ours as typed in the project. Anything but `status` ends the demo."""
        self._shown("cf", *args)
        process = subprocess.Popen([*_CF, *args], cwd=self._stage.project, env=self._stage.env)
        try:
            ended = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)  # it may have gone to us alone; it ends what it started
            process.wait()
            raise
        if ended != status:
            self._went_wrong(f"cf {args[0]} ended with exit status {ended} instead of {status}")

    def _cf_text(self, *args: str, shown: bool = True) -> str:
        """The same for one whose output is needed: what it printed, which is shown as well."""
        if shown:
            self._shown("cf", *args)
        done = subprocess.run(
            [*_CF, *args], cwd=self._stage.project, env=self._stage.env, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            self._went_wrong(f"cf {args[0]} ended with exit status {done.returncode}")
        if shown:
            say(done.stdout.rstrip())
        return done.stdout.strip()

    def _add(self, task: Task) -> None:
        depends = [word for key in task.depends_on for word in ("--depends-on", self._ids[key])]
        added = self._cf_text("tasks", "add", task.title, "--description", task.description, *depends)
        self._ids[task.key] = added[:8]

    def _open_blocker(self) -> str:
        return str(json.loads(self._cf_text("blocker", "list", "--json", shown=False))[0]["id"])[:8]

    def _git(self, *args: str) -> None:
        self._shown("git", *args)
        if subprocess.run(
            ["git", "--no-pager", *args], cwd=self._stage.project, env=self._stage.env
        ).returncode:
            self._went_wrong(f"git {args[0]} failed")

    def _went_wrong(self, what: str) -> NoReturn:
        from codeframe.core.errors import CodeFrameError

        raise CodeFrameError(f"The demo stopped: {what}.", f"See above, and look at {self._stage.project}")

    @staticmethod
    def _shown(*words: str) -> None:
        say(f"\n$ {shlex.join(words)}", "cyan")
        sys.stdout.flush()


def called() -> str:
    """How this `cf` is called from anywhere, quoted for an alias; "" where that is `cf`."""
    import shutil

    found, program = shutil.which("cf"), os.path.abspath(sys.argv[0])
    if found and os.path.realpath(found) == os.path.realpath(program):
        return ""
    words = [program] if os.access(program, os.X_OK) else _CF
    return shlex.quote(shlex.join(words))


def _chapter(title: str) -> None:
    say(f"\n── {title} ──", "bold")
