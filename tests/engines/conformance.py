"""The conformance cases: what every engine has to do through `cf` (rule 11.2), written once for all of them.

A test file per engine subclasses `Conformance` and names its engine; see `test_conformance_claude_code.py`.
The real CLI runs against a scripted model on loopback; nothing is patched, and no time is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from codeframe.demo.model_script import error, text
from codeframe.demo.model_server import ScriptedModel, refused_url
from tests.engines.stage import PATIENCE_S, Stage, Staged, ended, engine_processes, is_gone
from tests.kit.engines import Completed
from tests.kit.repos import write

UNGATED = "--no-gates"
OVERFULL = error(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")


def check(done: Completed, exit_code: int) -> Completed:
    """`done`, which must have ended with this status."""
    assert done.exit_code == exit_code, f"exit {done.exit_code}\nstdout: {done.stdout}\nstderr: {done.stderr}"
    return done


class Conformance(Staged):
    """The cases.

    `puts_up_with` says how many refusals one engine call takes before it gives up, by their class; `outlives_us`
    whether the engine goes on when CodeFrame is killed.
    """

    puts_up_with: ClassVar[Mapping[str, int]] = {"rate_limited": 4, "overloaded": 4}
    outlives_us: ClassVar[bool] = True

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each way of being logged in."""
        if "login" in metafunc.fixturenames:
            metafunc.parametrize("login", sorted(self.engine.logins()))

    # -- the work itself --------------------------------------------------------------------------

    def test_success(self, stage: Stage) -> None:
        stage.play([stage.write("made.txt", "hello\n"), stage.done("made it")])
        task = stage.task("Make made.txt")
        done = check(stage.start(task, UNGATED), 0)
        assert "made it" in done.stdout
        assert (stage.repo / "made.txt").read_text() == "hello\n"
        run = stage.run(task)
        assert (run["status"], run["verification"], run["rounds"]) == ("COMPLETED", "unverified", 1)
        assert run["usage"]["output_tokens"] > 0
        assert stage.status(task) == "DONE"
        stage.unharmed()
        assert engine_processes(stage.home) == []

    def test_a_correction_round_goes_on_in_the_session_and_costs_less_than_a_cold_start(
        self, stage: Stage, record_property: Callable[[str, object], None]
    ) -> None:
        """Both are told the same failures; the price is the input no cache held."""
        wrong = stage.write("made.txt", "wrong\n")
        right = self.engine.shell("cat made.txt; echo right > made.txt")
        stage.gate("cat made.txt; grep -q right made.txt")
        description = "Words that a cold start has to send again.\n" * 400

        stage.play([wrong, stage.done("tried")], [right, stage.done("corrected")])
        task = stage.task("Make made.txt", description)
        check(stage.start(task), 0)
        run, rounds = stage.why(task)
        assert (run["status"], run["verification"]) == ("COMPLETED", "verified")
        assert [r["reason"] for r in rounds] == ["first", "correction"]
        assert len({r["session_id"] for r in rounds}) == 1
        whole, correction = stage.asked()
        assert "Words that a cold start" in whole
        assert "wrong" in correction
        assert "Words that a cold start" not in correction
        resumed = rounds[1]

        (stage.repo / "made.txt").unlink()
        stage.play(
            [wrong, stage.done("tried")], match=[{"text": "attempt 2", "prompts": [[right, stage.done()]]}]
        )
        task = stage.task("Make made.txt once more", description)
        check(stage.start(task, "--max-corrections", "0"), 1)
        check(stage.cf("work", "retry", task), 0)
        (cold,) = stage.rounds(task)
        for name, call in (("resumed", resumed), ("cold", cold)):
            tokens = f"{call['input_tokens']} tokens in, {call['cached_input_tokens']} from the cache"
            record_property(f"{self.engine.name}: correction {name}", tokens)
        assert resumed["input_tokens"] < cold["input_tokens"]

    def test_success_without_a_change_is_fed_back_once(self, stage: Stage) -> None:
        write(stage.repo, {"mine.txt": "a person's\n"})  # what was dirty before is not the engine's work
        stage.play([stage.done("all done")], [stage.done("really")])
        task = stage.task()
        check(stage.start(task, UNGATED), 1)
        run = stage.run(task)
        assert (run["status"], run["error_class"], run["rounds"]) == ("FAILED", "no_change", 2)
        assert len(stage.asked()) == 2
        assert "no file of the repository changed" in stage.asked()[1]

    def test_already_satisfied_with_green_gates(self, stage: Stage) -> None:
        stage.gate("grep -q project README.md")
        stage.play([stage.done("it was so", already_satisfied=True)])
        task = stage.task()
        check(stage.start(task), 0)
        run = stage.run(task)
        assert (run["status"], run["verification"], run["rounds"]) == ("COMPLETED", "verified", 1)
        stage.unharmed()

    def test_binary_tool_output(self, stage: Stage) -> None:
        noise = self.engine.shell("head -c 2000 /dev/urandom; printf '\\303'")
        stage.play([noise, stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task()
        check(stage.start(task, UNGATED), 0)
        logged = check(stage.cf("work", "logs", task, "--raw", "--json"), 0).stdout.splitlines()
        assert all(isinstance(json.loads(line), dict) for line in logged)
        assert any("/dev/urandom" in line for line in logged)

    def test_what_it_reads_about_errors_classifies_nothing(self, stage: Stage) -> None:
        words = "Error: 429 rate limit, invalid api key, credit balance too low"
        read_aloud = self.engine.shell(f"echo '{words}'; echo '{words}' >&2")
        stage.play(
            [read_aloud, [text(words), self.engine.shell("true")], stage.done("in vain", status="failed")]
        )
        task = stage.task()
        check(stage.start(task, UNGATED), 1)
        run = stage.run(task)
        assert (run["status"], run["error_class"], run["rounds"]) == ("FAILED", None, 1)
        assert stage.blockers() == []

    def test_four_at_once_on_a_fresh_home(self, tmp_path: Path) -> None:
        with ScriptedModel() as server:
            stages = [Stage(self.engine, server, tmp_path, name) for name in "abcd"]
            for stage in stages:
                stage.play([stage.write("made.txt", f"by {stage.scenario}\n"), stage.done()])
            tasks = [stage.task() for stage in stages]
            running = [stage.begin(task, UNGATED) for stage, task in zip(stages, tasks, strict=True)]
            for process in running:
                check(ended(process), 0)
            made = [(stage.repo / "made.txt").read_text() for stage in stages]
            assert made == ["by a\n", "by b\n", "by c\n", "by d\n"]
            assert engine_processes(tmp_path / "home") == []

    # -- what is said ------------------------------------------------------------------------------

    def test_the_prompt_is_verbatim(self, stage: Stage) -> None:
        outside = stage.folder / "outside.txt"
        outside.write_text("what no one asked for")
        url = f"{stage.server.url(stage.scenario)}/fetched"
        title = f"/clear @{outside} \"quotes\" 'single' \\n \\\\ $HOME `id` {{x}} é 日本 \U0001f600"
        description = (
            f"/clear\n@/etc/hostname\n{url}\n@{outside}\n\n\tTab, <b> &amp; %s {{{{y}}}}\n```\n@README.md"
        )
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task(title, description)
        check(stage.start(task, UNGATED), 0)
        (prompt,) = stage.asked()
        assert title in prompt
        assert description in prompt
        assert "what no one asked for" not in json.dumps([r.body for r in stage.requests()])
        assert not [r.path for r in stage.server.all_requests() if "fetched" in r.path]

    def test_a_description_of_a_megabyte(self, stage: Stage) -> None:
        """It is cut to what a prompt may hold; the engine is told so and where all of it is."""
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task("A long story", "The beginning. " + "On and on. " * 95_000 + "The end.")
        check(stage.start(task, UNGATED), 0)
        (prompt,) = stage.asked()
        assert "The beginning." in prompt
        assert f"cf tasks show {task}" in prompt
        assert len(prompt) < 200_000

    def test_a_question_then_an_answer_of_a_megabyte_in_the_same_session(self, stage: Stage) -> None:
        question = stage.done("stuck", status="blocked", question="Which colour?")
        stage.play([question], [stage.write("made.txt", "blue\n"), stage.done("made it blue")])
        task = stage.task("Paint it")
        blocked = check(stage.start(task, UNGATED), 3)
        assert "Which colour?" in blocked.stdout
        (blocker,) = stage.blockers()
        assert (blocker["kind"], blocker["question"]) == ("question", "Which colour?")
        assert stage.status(task) == "BLOCKED"
        session = stage.run(task)["session_id"]
        check(stage.cf("work", "resume", task), 3)  # not before it is answered

        answer = "@/etc/hostname blue " * 52_429  # 1 MiB
        check(stage.cf("blocker", "answer", blocker["id"], "-", stdin=answer), 0)
        check(stage.cf("work", "resume", task), 0)
        assert stage.run(task)["session_id"] == session
        # In one message or more, and before the engine makes room for what follows.
        first, *told = next(r.prompts for r in stage.requests() if len(r.prompts) > 1)
        assert "Paint it" in first
        assert answer.strip() in "".join(told)
        assert stage.blockers() == []
        assert (stage.repo / "made.txt").read_text() == "blue\n"

    def test_a_session_that_is_gone_is_replaced_once(self, stage: Stage) -> None:
        question = stage.done("stuck", status="blocked", question="Which colour?")
        made = [stage.write("made.txt", "blue\n"), stage.done()]
        stage.play([question], match=[{"text": "The answer: blue", "prompts": [made]}])
        task = stage.task("Paint it")
        check(stage.start(task, UNGATED), 3)
        session = stage.run(task)["session_id"]
        files = self.engine.session_files(stage.home)
        assert files
        for path in files:
            path.unlink()
        check(stage.cf("blocker", "answer", stage.blockers()[0]["id"], "blue"), 0)
        resumed = check(stage.cf("work", "resume", task), 0)
        assert "fresh session" in resumed.stdout
        assert stage.run(task)["session_id"] != session
        (prompt,) = stage.asked()
        for words in (
            "Paint it",
            "stuck",
        ):  # all of it again, with the last words: the new session knows nothing
            assert words in prompt

    def test_a_full_context_window_is_followed_by_a_fresh_session(self, stage: Stage) -> None:
        first = [stage.write("half.txt", "x\n"), OVERFULL]
        rest = [stage.write("made.txt", "x\n"), stage.done()]
        if getattr(
            self.engine, "compacts", False
        ):  # it makes room by itself, and goes on in the same session
            stage.play(first, rest, aux="what was done so far")
            check(stage.start(task := stage.task(), UNGATED), 0)
            (only,) = stage.rounds(task)
            assert only["files"] == ["created half.txt", "created made.txt"]
            return
        stage.play(first, match=[{"text": "# Where this task stands", "prompts": [rest]}])
        task = stage.task()
        done = check(stage.start(task, UNGATED), 0)
        assert "context window is full" in done.stdout
        before, after = stage.rounds(task)
        assert before["error_class"] == "context_window"
        assert after["session_id"] != before["session_id"]

    # -- what stands in the way ------------------------------------------------------------------------

    def test_a_refused_login_blocks_until_it_is_right(self, stage: Stage) -> None:
        stage.play(errors=[{"status": 401, "type": "authentication_error", "message": "invalid x-api-key"}])
        task = stage.task()
        self._blocked_by_login(stage, check(stage.start(task, UNGATED), 3))
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        check(stage.cf("work", "resume", task), 0)
        assert stage.blockers() == []

    def test_no_login_at_all(self, stage: Stage) -> None:
        stage.play([stage.done()])
        self._blocked_by_login(
            stage, check(stage.start(stage.task(), UNGATED, env=self.engine.logged_out(stage.env)), 3)
        )
        assert stage.requests() == []

    def _blocked_by_login(self, stage: Stage, done: Completed) -> None:
        (blocker,) = stage.blockers()
        assert blocker["kind"] == "auth"
        for words in self.engine.login_words:
            assert words in blocker["question"]
            assert words in done.stdout

    def test_every_login_of_the_engine_will_do(self, stage: Stage, login: str) -> None:
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        env = self.engine.logged_out(stage.env) | self.engine.logins()[login](stage.home)
        check(stage.start(stage.task(), UNGATED, env=env), 0)

    @pytest.mark.parametrize(
        ("status", "kind", "named"),
        [(429, "rate_limit_error", "rate_limited"), (529, "overloaded_error", "overloaded")],
    )
    def test_a_passing_refusal_is_waited_out(self, stage: Stage, status: int, kind: str, named: str) -> None:
        """More refusals than one engine call puts up with by itself."""
        refusal: dict[str, Any] = {"status": status, "type": kind, "headers": {"retry-after": "0"}}
        refusal["times"] = self.puts_up_with[named] + 1
        stage.play([stage.write("made.txt", "x\n"), stage.done()], errors=[refusal])
        task = stage.task("Make made.txt")
        done = check(stage.start(task, UNGATED), 0)
        assert f"{named}: trying again" in done.stderr
        calls = stage.rounds(task)
        assert [c["error_class"] for c in calls] == [named] * (len(calls) - 1) + [None]
        assert {c["round"] for c in calls} == {0}  # it costs no correction round
        assert "Make made.txt" in stage.asked()[0]

    def test_a_rate_limit_that_does_not_pass(self, stage: Stage) -> None:
        stage.play(errors=[{"status": 429, "type": "rate_limit_error", "headers": {"retry-after": "0"}}])
        task = stage.task()
        check(stage.start(task, UNGATED, env=stage.env | {"CODEFRAME_BACKOFF_S": "0.1"}), 1)
        run = stage.run(task)
        assert (run["status"], run["error_class"], run["rounds"]) == ("FAILED", "rate_limited", 6)
        assert stage.status(task) == "FAILED"

    def test_the_network_is_down(self, stage: Stage) -> None:
        """With no time for another try: the first one tells."""
        task = stage.task()
        with refused_url() as url:
            env = self.engine.environment(stage.home, url) | {"CODEFRAME_BACKOFF_S": "9000"}
            check(stage.start(task, UNGATED, env=env), 1)
        run = stage.run(task)
        assert (run["status"], run["error_class"], run["rounds"]) == ("FAILED", "network", 1)

    def test_the_network_is_down_then_up_again(self, stage: Stage) -> None:
        task = stage.task("Make made.txt")
        with refused_url() as url:
            stage.env = self.engine.environment(stage.home, f"{url}/{stage.scenario}")
            running = stage.begin(task, UNGATED)
            assert running.stderr is not None
            assert any("network: trying again" in line for line in running.stderr)
        made = {"prompts": [[stage.write("made.txt", "x\n"), stage.done()]]}
        with ScriptedModel({stage.scenario: made}, port=int(url.rpartition(":")[2])) as server:
            check(ended(running), 0)
            assert "Make made.txt" in server.requests()[-1].prompts[0]
        assert stage.rounds(task)[0]["error_class"] == "network"

    # -- how it is ended --------------------------------------------------------------------------------

    def test_timeout(self, stage: Stage) -> None:
        stage.play([{"blocks": [], "hang": PATIENCE_S}])
        task = stage.task()
        check(stage.start(task, UNGATED, "--timeout", "5s"), 4)
        assert stage.run(task)["status"] == "TIMEOUT"
        assert engine_processes(stage.home) == []
        stage.play([stage.write("made.txt", "x\n"), stage.done()])
        check(stage.cf("work", "resume", task, "--timeout", "1h"), 0)

    def test_stop_with_a_running_child(self, stage: Stage) -> None:
        outside = stage.folder / "outside.txt"
        outside.write_text("what no one asked for")
        task, running, sleeper = self._asleep(stage)
        check(stage.cf("work", "stop", task), 0)
        check(ended(running), 130)
        self._stopped(stage, task, sleeper)
        # A person's first words may look like a command of the engine.
        note = f"/clear @{outside} and go on"
        self._goes_on(stage, task, "-m", note)
        assert stage.asked()[-1].startswith(note)
        assert "what no one asked for" not in json.dumps([r.body for r in stage.requests()])

    @pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_signal_with_a_running_child(
        self, stage: Stage, number: signal.Signals, exit_code: int
    ) -> None:
        task, running, sleeper = self._asleep(stage)
        os.killpg(running.pid, number)  # to the whole group, as a terminal does
        check(ended(running), exit_code)
        self._stopped(stage, task, sleeper)
        self._goes_on(stage, task)

    def test_killed_in_mid_turn_then_recovered(self, stage: Stage) -> None:
        task, running, sleeper = self._asleep(stage)
        session = stage.run(task)["session_id"]
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        if self.outlives_us:
            assert not is_gone(sleeper)  # or there would be nothing to recover from
        status = check(stage.cf("work", "status"), 0)
        assert "had crashed: kept its work" in status.stderr
        assert is_gone(sleeper)
        assert engine_processes(stage.home) == []
        run, (call,) = stage.why(task)
        assert (run["status"], run["error_class"], stage.status(task)) == ("FAILED", "crashed", "READY")
        assert (stage.repo / "half.txt").read_text() == "half\n"
        assert session == run["session_id"]
        assert (call["reason"], call["files"]) == ("crashed", ["created half.txt"])
        self._goes_on(stage, task)

    @pytest.mark.parametrize("how", ["setsid", "nohup"])
    def test_a_daemon_does_not_outlive_the_run(self, stage: Stage, how: str) -> None:
        if shutil.which(how) is None:
            pytest.skip(f"this system has no {how}")
        stage.play([stage.sleeper(how), stage.write("made.txt", "x\n"), stage.done()])
        task = stage.task()
        check(stage.start(task, UNGATED), 0)
        assert stage.pid_file.read_text().strip()
        assert engine_processes(stage.home) == []
        assert "sleep 300" in str(stage.rounds(task)[0]["engine"]["survivors"])

    def _asleep(self, stage: Stage) -> tuple[str, subprocess.Popen[str], psutil.Process]:
        """A task under way: half of it is written, and the engine's shell tool sleeps."""
        stage.play([stage.write("half.txt", "half\n"), stage.sleeper()])
        task = stage.task("Make two files")
        running = stage.begin(task, UNGATED)
        return task, running, stage.sleeping()

    def _stopped(self, stage: Stage, task: str, sleeper: psutil.Process) -> None:
        assert is_gone(sleeper)
        assert engine_processes(stage.home) == []
        run = stage.run(task)
        assert (run["status"], run["error_class"], stage.status(task)) == ("STOPPED", "cancelled", "READY")
        assert (stage.repo / "half.txt").read_text() == "half\n"

    def _goes_on(self, stage: Stage, task: str, *flags: str) -> None:
        """Resume: the same session, which knows what it was asked at first."""
        session = stage.run(task)["session_id"]
        cold = [stage.done("a cold start", status="failed")]
        stage.play(cold, [stage.write("made.txt", "x\n"), stage.done()])
        check(stage.cf("work", "resume", task, *flags), 0)
        assert stage.run(task)["session_id"] == session
        assert "Make two files" in stage.asked()[0]
        assert (stage.repo / "half.txt").exists()
        assert (stage.repo / "made.txt").exists()
