"""What counts as an old failure is not for an engine to say, and holds only while it stays red (rule 6.4)."""

from __future__ import annotations

import json

import pytest

from codeframe.core.workspace import find_workspace
from tests.cli.conftest import Cf
from tests.kit.claude_runs import ran, session, verdict, wrote
from tests.kit.scenario import FakeEngine, call

GATE = "for each in service calc; do test -e $each.ok || { echo FAILED; exit 1; }; done"
QUESTION = verdict("half", status="blocked", question="Go on?")


@pytest.fixture
def serviced(cf: Cf, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Cf:
    """A gate that is red in the same words while a service is down (no matter of the tree) and while calc is broken."""
    monkeypatch.setenv("PATH", engine.path())
    (cf.where / ".git" / "info").mkdir(exist_ok=True)
    (cf.where / ".git" / "info" / "exclude").write_text("service.ok\n")
    (cf.where / "calc.ok").touch()
    cf("config", "set", "engine", "claude-code")
    cf("config", "set", "gates", json.dumps([{"name": "check", "command": ["sh", "-c", GATE]}]))
    return cf


def asked_and_answered(cf: Cf) -> str:
    task = cf.add()
    cf("work", "start", task, "--execute", code=3)
    (blocker,) = find_workspace(cf.where).store.blockers.list(task_id=task)
    cf("blocker", "answer", blocker.id, "yes")
    return task


@pytest.mark.parametrize("work", ["true", "touch work.py"], ids=["nothing done", "some work"])
def test_what_a_service_that_was_down_made_red_is_new_once_it_is_up(
    serviced: Cf, engine: FakeEngine, work: str
) -> None:
    engine.calls(
        call(session(ran(work), QUESTION)), call(session(ran("touch x.py; rm calc.ok"), verdict("done")))
    )
    task = asked_and_answered(serviced)
    (serviced.where / "service.ok").touch()
    said = serviced("work", "resume", task, "--max-corrections", "0", code=1)
    assert "1 new failure" in said.stderr


def test_what_was_red_before_stays_old_while_it_stays_red(serviced: Cf, engine: FakeEngine) -> None:
    engine.calls(
        call(session(wrote("a.py", ""), QUESTION)), call(session(wrote("b.py", ""), verdict("done")))
    )
    said = serviced("work", "resume", asked_and_answered(serviced))
    assert "1 old failure left alone" in said.stderr


def test_a_file_of_the_state_folder_makes_no_failure_old(serviced: Cf, engine: FakeEngine) -> None:
    """No file but the database says what was red: an engine may take away or fill all others."""
    (serviced.where / "service.ok").touch()
    spoil = (
        "rm calc.ok; for f in $(find .git/codeframe -type f ! -name 'state.db*' ! -name workspace.json); do "
        "case $f in */runs/*) ;; *) echo '{}' > $f;; esac; done"
    )
    engine.calls(call(session(ran(spoil), QUESTION)), call(session(wrote("b.py", ""), verdict("done"))))
    said = serviced("work", "resume", asked_and_answered(serviced), "--max-corrections", "0", code=1)
    assert "1 new failure" in said.stderr
    assert "no baseline" not in said.stderr
