"""kill -9 of `cf` at seeded moments of one run, and all that has to hold after each (rules 4.2, 4.4).

A moment is a line of `cf`'s own code in a phase of the run, a git process of its that is at work, a step of the
engine's turn or of a gate. Some moments kill the command after it, too, in the middle of its recovery. Each is
made of one number, so that a bad one can be played again:

    python -m tests.hostile.seeded_kills --seed 7 --only 31
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeframe.core.process_sweep import find_marked
from codeframe.core.workspace import find_workspace
from tests.hostile.stage import Stage
from tests.kit import deadly_cf
from tests.kit.claude_runs import session, verdict, wrote
from tests.kit.engines import ROOT, Completed, clean_env
from tests.kit.repos import git
from tests.kit.scenario import FakeEngine, Step, call, flat, hang, sh, spawn
from tests.kit.trusting import runs_something, trust

BAD, GOOD = "x = 'bad'\n", "x = 'good'\n"
PHASES = ("claim", "snapshots", "launch", "mid-turn", "sweep", "gates", "verdict")
KINDS = (*PHASES, deadly_cf.ELSEWHERE, "git", "engine", "gate")
GATES = 4  # how often the gate runs: baseline, after each round, and the first failure once more

# A git in front of the real one. At its n-th call it lets `cf` be killed: before, meanwhile or right after it.
DEADLY_GIT = """#!/bin/sh
echo x >> '{count}'
if [ $(wc -l < '{count}') = {number} ]; then
    case {when} in
    before) kill -9 $PPID ;;
    meanwhile) ( sleep {delay}; kill -9 {cf} ) >/dev/null 2>&1 <&- & ;;
    after) '{git}' "$@"; status=$?; kill -9 $PPID; exit $status ;;
    esac
fi
exec '{git}' "$@"
"""


@dataclass(frozen=True)
class Hit:
    """What became of one moment. `kind` is one of KINDS, or "survived" where the run was over before it."""

    number: int
    kind: str
    where: str
    trouble: str = ""


class Kills:
    """All moments of one `seed`, played in `folder`."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.folder = folder
        self.model = Stage.build(folder, name="model")
        self.lengths: dict[str, int] = {}
        self.gits = 0

    def measure(self) -> None:
        """One run that nobody kills: how many lines each phase has, and how many git processes there are."""
        scene = Scene.build(self, "measured")
        scene.deadly_git(0, "before", 0.0)
        done = scene.play(None, 0, *scene.start)
        assert done.returncode == 0, done
        self.lengths = json.loads(scene.file("seen").read_text())
        self.gits = len(scene.file("count").read_text().splitlines())
        assert set(PHASES) <= self.lengths.keys(), f"a phase was not found: {self.lengths}"
        shutil.rmtree(scene.folder)

    def moment(self, number: int) -> Hit:
        """Play one moment; the scene stays on disk only when something does not hold."""
        chosen = random.Random(f"{self.seed}/{number}")
        kind = KINDS[number % len(KINDS)]
        scene = Scene.build(self, f"moment-{number}")
        where = ""
        try:
            kind, where = scene.kill(kind, chosen)
            scene.check(recovery_dies=chosen.random() < 0.3, undo=chosen.random() < 0.5, chosen=chosen)
        except Exception as error:  # told with the seed, as what it is
            return Hit(number, kind, where, f"{type(error).__name__}: {error}\n(see {scene.folder})")
        shutil.rmtree(scene.folder)
        return Hit(number, kind, where)

    def all(self, numbers: Iterable[int], at_once: int = 2) -> list[Hit]:
        """Measure, then play these moments, `at_once` of them at the same time."""
        self.measure()
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(self.moment, numbers))


class Scene:
    """One moment's project: a copy of the model's, with its own engine and a task."""

    def __init__(self, kills: Kills, folder: Path, stage: Stage) -> None:
        self.kills = kills
        self.folder = folder
        self.stage = stage
        self.task = stage.task()
        self.gate_hook = folder / "gate-hook"
        self.gate_hook.touch()
        stage.gate(f". '{self.gate_hook}'; test ! -e work.py || grep good work.py")
        self.steps = [
            # Each leaves a child, so that there is something to sweep at every moment from here on.
            flat(session(spawn(), wrote("work.py", BAD), verdict("written"))),
            flat(session(spawn(), wrote("work.py", GOOD), verdict("mended"))),
        ]
        self.plays(*self.steps)
        self.start = stage.start_args(self.task, gates=True)

    @classmethod
    def build(cls, kills: Kills, name: str) -> Scene:
        folder = kills.folder / name
        repo = Path(shutil.copytree(kills.model.repo, folder / "project", symlinks=True))
        git(repo, "update-index", "-q", "--refresh")
        return cls(kills, folder, Stage(repo, FakeEngine(folder), find_workspace(repo), repo))

    def plays(self, *turns: list[Step]) -> None:
        """What the engine does, call by call; the last one again and again."""
        self.stage.engine.calls(*(call(steps) for steps in turns))

    def file(self, name: str) -> Path:
        return self.folder / name

    # -- killing ------------------------------------------------------------------------------------

    def play(self, phase: str | None, line: int, *args: str) -> subprocess.CompletedProcess[str]:
        """`cf ARGS`, killed at that line of that phase. Its output goes to files, which no orphan holds up."""
        plan: dict[str, Any] = {"root": str(ROOT), "phase": phase, "line": line}
        plan |= {name: str(self.file(name)) for name in ("hit", "pid", "seen")}
        self.file("hit").unlink(missing_ok=True)
        self.file("plan").write_text(json.dumps(plan))
        argv = [sys.executable, "-P", deadly_cf.__file__, str(self.file("plan")), *args]
        env = clean_env() | self.stage.env
        if runs_something(args):
            trust(self.stage.place, env)
        with self.file("out").open("w+") as out, self.file("err").open("w+") as err:
            done = subprocess.run(
                argv, cwd=self.stage.place, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True, timeout=120,
            )  # fmt: skip
        return subprocess.CompletedProcess(
            args, done.returncode, self.file("out").read_text(), self.file("err").read_text()
        )

    def deadly_git(self, number: int, when: str, delay: float) -> None:
        words = {
            "count": self.file("count"),
            "git": shutil.which("git"),
            "cf": f"$(cat '{self.file('pid')}')",
        }
        deadly = self.stage.engine.bin / "git"
        deadly.write_text(DEADLY_GIT.format(**words, number=number, when=when, delay=f"{delay:.3f}"))
        deadly.chmod(0o755)

    def kill(self, kind: str, chosen: random.Random) -> tuple[str, str]:
        """Start the task and kill `cf`; (the kind, or "survived", where it was)."""
        phase, line, where = None, 0, ""
        cf = f"{{ kill -9 $(cat '{self.file('pid')}') 2>/dev/null || true; }}"  # once: the file goes with it
        if kind == "git":
            number, when = chosen.randint(1, self.kills.gits), chosen.choice(("before", "meanwhile", "after"))
            where = f"{when} git {number}"
            self.deadly_git(number, when, chosen.uniform(0, 0.03))
        elif kind == "engine":
            turn, mended = chosen.randrange(len(self.steps)), list(self.steps[-1])
            step = chosen.randint(0, len(self.steps[turn]))
            hangs = chosen.random() < 0.5
            where = f"turn {turn + 1}, before step {step + 1}{', which hangs then' if hangs else ''}"
            self.steps[turn][step:step] = [sh(cf), *([hang()] if hangs else [])]
            self.plays(*self.steps, mended)
        elif kind == "gate":
            number, lingers = chosen.randint(1, GATES), chosen.choice(("", "; sleep 60"))
            where = f"gate run {number}{lingers}"
            count = self.file("gates")
            self.gate_hook.write_text(
                f"echo x >> '{count}'; if [ $(wc -l < '{count}') = {number} ]; then {cf}{lingers}; fi\n"
            )
        else:
            phase, line = kind, chosen.randint(1, self.kills.lengths[kind])
        done = self.play(phase, line, *self.start)
        self.file("pid").unlink()
        (self.stage.engine.bin / "git").unlink(missing_ok=True)
        if self.file("hit").exists():
            where = self.file("hit").read_text()
        if done.returncode == -9:
            return kind, where
        assert done.returncode == 0, f"neither killed nor done: {done}"
        return "survived", where

    # -- what has to hold ---------------------------------------------------------------------------

    def check(self, *, recovery_dies: bool, undo: bool, chosen: random.Random) -> None:
        """The next command finds it; no process is left, no byte and no work is lost; the task can be
        finished, and nothing is left to mend that cannot be mended."""
        stage, runs = self.stage, self.stage.workspace.store.runs
        stage.check_persons_work()
        if recovery_dies:
            self.play("recovery", chosen.randint(1, 250), "work", "status")
            stage.check_persons_work()
        said = stage.cf("work", "status")
        assert said.exit_code == 0, said
        assert "Traceback" not in said.stderr, said
        stage.check_persons_work()
        assert not stage.is_there(".git/index.lock")
        run = runs.latest(self.task.id)
        if run is None:
            self.finish(stage.cf(*self.start))
        else:
            assert find_marked(f"{run.id}/", prefix=True) == [], "a process is left"
            if stage.is_there("work.py"):
                stage.outcome(self.task, said).check_work_kept("work.py", stage.read("work.py"))
            if run.status.value == "COMPLETED":
                assert stage.status(self.task) == "DONE"
            else:
                found = run.status.value, run.error_class, stage.status(self.task)
                assert found == ("FAILED", "crashed", "READY"), found
                self.finish(stage.cf("work", "resume", self.task.id))
        mended = stage.cf("doctor", "--fix")
        assert (mended.exit_code, mended.stdout) == (0, "Nothing to mend.\n"), mended
        if undo:
            undone = stage.cf("work", "undo", self.task.id)
            assert undone.exit_code == 0, undone
            assert not stage.is_there("work.py"), undone
            stage.check_persons_work()

    def finish(self, said: Completed) -> None:
        """What began it again brought it to its end."""
        outcome = self.stage.outcome(self.task, said)
        outcome.expect(0, "COMPLETED", None, "DONE")
        outcome.check_work_kept("work.py", GOOD)


def report(hits: list[Hit]) -> str:
    """How many moments hit each phase, then what did not hold."""
    counts = Counter(hit.kind for hit in hits)
    lines = [f"{counts.get(kind, 0):5}  {kind}" for kind in (*KINDS, "survived")]
    bad = [f"\nmoment {h.number} ({h.kind}, {h.where}):\n{h.trouble}" for h in hits if h.trouble]
    return "\n".join([f"{len(hits)} moments, {len(bad)} bad:", *lines, *bad])


def main() -> None:
    """Play moments from the command line; exit status 1 when something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="any number; printed")
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--only", type=int, action="append", help="these moments of the seed only")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="seeded-kills-"))
    hits = Kills(seed, folder).all(args.only or range(args.moments))
    print(report(hits))
    bad = any(hit.trouble for hit in hits)
    if not bad:
        shutil.rmtree(folder)
    sys.exit(bad)


if __name__ == "__main__":
    main()
