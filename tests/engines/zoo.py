"""Rule 12, as far as a model can cause it: what an engine may do in a project, and what becomes of the run.

The rows are written once, in terms of `stage.Engine`; `test_conformance_built_in.py` plays them. What only the
CLI of an engine can do (its exit status, its output) is played by a fake one in `tests/hostile`.
"""

from __future__ import annotations

import sys

from codeframe.demo.model_script import text
from tests.engines.conformance import UNGATED, check
from tests.engines.stage import Stage, Staged, ended, engine_processes
from tests.kit.repos import git, write

GREEN = "def test_one():\n    assert True\n\n\ndef test_two():\n    assert True\n"


class Zoo(Staged):
    """The rows."""

    def test_a_flood_a_line_of_50_mb_and_half_a_character(self, stage: Stage) -> None:
        flood = "yes some words | head -c 100000000; head -c 50000000 /dev/zero | tr '\\0' x; printf '\\303'"
        stage.play([self.engine.shell(flood), stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task()
        check(stage.start(task, UNGATED), 0)
        assert max(request.size for request in stage.requests()) < 1_000_000

    def test_a_command_that_ignores_sigterm_is_stopped_all_the_same(self, stage: Stage) -> None:
        stubborn = f"trap '' TERM INT; echo $$ > {stage.pid_file}; while :; do sleep 1; done"
        stage.play([stage.write("half.txt", "half\n"), self.engine.shell(stubborn)])
        task = stage.task()
        running = stage.begin(task, UNGATED)
        stage.sleeping()
        check(stage.cf("work", "stop", task), 0)
        check(ended(running), 130)
        assert stage.run(task)["status"] == "STOPPED"
        assert engine_processes(stage.home) == []
        assert (stage.repo / "half.txt").read_text() == "half\n"

    def test_a_command_that_waits_on_stdin_gets_its_end_at_once(self, stage: Stage) -> None:
        stage.play([self.engine.shell("cat > made.txt; echo over >> made.txt"), stage.done()])
        check(stage.start(stage.task(), UNGATED), 0)
        assert (stage.repo / "made.txt").read_text() == "over\n"

    def test_it_commits_by_itself(self, stage: Stage) -> None:
        commit = self.engine.shell("git add made.txt && git commit -q -m 'by the engine' -- made.txt")
        stage.play([stage.write("made.txt", "x\n"), commit, stage.done()])
        task = stage.task()
        check(stage.start(task, UNGATED), 0)
        assert "by the engine" in stage.cf("work", "why", task).stdout
        assert stage.rounds(task)[0]["files"] == ["created made.txt"]
        assert git(stage.repo, "log", "-1", "--format=%s") == "by the engine"

    def test_it_switches_the_branch(self, stage: Stage) -> None:
        branch = git(stage.repo, "branch", "--show-current")
        stage.play(
            [self.engine.shell("git switch -q -c elsewhere"), stage.write("made.txt", "x\n"), stage.done()]
        )
        said = check(stage.start(stage.task(), UNGATED), 3)
        assert "elsewhere" in said.stdout
        assert f"`git switch {branch}`" in said.stdout
        assert (stage.repo / "made.txt").exists()

    def test_it_deletes_tests_that_passed(self, stage: Stage) -> None:
        self._python(stage, GREEN)
        gone = self.engine.write("{cwd}/test_it.py", GREEN.partition("\n\n\n")[0] + "\n")
        stage.play([gone, stage.done()], [stage.done("they are not needed")], [stage.done("really")])
        task = stage.task()
        said = check(stage.start(task), 3)
        assert "test_two" in stage.asked()[1]
        assert "test_two" in said.stdout
        assert stage.status(task) == "BLOCKED"

    def test_it_asks_in_prose(self, stage: Stage) -> None:
        question = "Which database should the module use?"
        stage.play([text(question)])
        said = check(stage.start(stage.task(), UNGATED), 3)
        assert question in said.stdout
        stage.unharmed()

    def test_it_asks_in_prose_after_a_change(self, stage: Stage) -> None:
        question = "Which database should the module use?"
        stage.play([stage.write("made.txt", "x\n"), text(question)])
        said = check(stage.start(stage.task(), UNGATED), 0)
        assert question in said.stdout

    def test_a_repository_without_a_commit(self, stage: Stage) -> None:
        git(stage.repo, "update-ref", "-d", "HEAD")
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task()
        check(stage.start(task, UNGATED), 0)
        assert stage.rounds(task)[0]["files"] == ["created made.txt"]

    def test_what_was_red_before_is_listed_apart(self, stage: Stage) -> None:
        self._python(stage, f"{GREEN}\n\ndef test_red():\n    assert False\n")
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task()
        said = check(stage.start(task), 0)
        assert "1 old failure left alone" in said.stderr
        assert stage.run(task)["verification"] == "verified"

    def test_nothing_is_collected_any_more(self, stage: Stage) -> None:
        self._python(stage, GREEN)
        stage.play([self.engine.write("{cwd}/test_it.py", "\n"), stage.done()])
        task = stage.task()
        check(stage.start(task, "--max-corrections", "0"), 3)
        assert stage.run(task)["verification"] != "verified"

    def test_a_gate_that_never_ends_is_a_new_failure(self, stage: Stage) -> None:
        gate = "test ! -e made.txt || exec sleep 300"
        stage.gates({"name": "check", "command": ["sh", "-c", gate], "timeout": 3})
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        said = check(stage.start(stage.task(), "--max-corrections", "0"), 1)
        assert "check: timeout, 1 new failure" in said.stderr
        assert engine_processes(stage.home) == []

    def _python(self, stage: Stage, tests: str) -> None:
        """The project has these tests, committed, and pytest for its gate."""
        write(stage.repo, {"test_it.py": tests, ".gitignore": ".venv\n"})
        git(stage.repo, "add", ".")
        git(stage.repo, "commit", "-q", "-m", "tests")
        (stage.repo / ".venv").symlink_to(sys.prefix)
        stage.gates({"name": "pytest", "command": ".venv/bin/python -m pytest"})
