"""What a correction costs in tokens: resumed in the engine's own session against a cold start.

Run: .venv/bin/python -m bench.corrections

The tokens are those of the scripted model, measured from the bytes really sent, with a prompt cache that
works as the API's does: good for ratios, not for money.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.measure import Row, finish
from codeframe.demo.deeds import report, write
from codeframe.demo.model_server import Request, ScriptedModel
from tests.kit.engines import clean_env, run_cf
from tests.kit.repos import make_repo

GATE = '[{"name": "check", "command": ["sh", "-c", "grep right made.txt"]}]'


def measure(repeat: int = 1) -> list[Row]:
    """Input tokens that no cache held: of the first request of a cold start, and of a resumed correction."""
    turns = (
        [[write("made.txt", "wrong\n"), report("made it")]],
        [[write("made.txt", "right\n"), report("fixed it")]],
    )
    with (
        tempfile.TemporaryDirectory() as scratch,
        ScriptedModel({"s": {"prompts": list(turns)}}) as server,
    ):
        repo = make_repo(Path(scratch) / "repo", {"README.md": "# A project\n" * 200})
        env = clean_env(Path(scratch)) | {"ANTHROPIC_BASE_URL": server.url("s"), "ANTHROPIC_API_KEY": "x"}
        for args in (("init",), ("config", "set", "gates", GATE)):
            run_cf(*args, cwd=repo, env=env)
        task = run_cf("tasks", "add", "Make the file", cwd=repo, env=env).stdout.strip()
        run_cf("work", "start", task, "--execute", "--engine", "built-in", cwd=repo, env=env)
        cold, *rest = [request for request in server.requests("s") if request.usage]
        resumed = next(request for request in rest if len(request.prompts) == 2)
    first, second = _fresh(cold), _fresh(resumed)
    cached = (resumed.usage or {}).get("cache_read_input_tokens", 0)
    note = f"{second} tokens, {cached} more from the cache; a cold start takes {first}"
    return [Row("a correction's uncached input", 0, 0, 0, "a cold start", second / first, None, 1, note)]


def _fresh(request: Request) -> int:
    usage = request.usage or {}
    return usage["input_tokens"] + usage["cache_creation_input_tokens"]


if __name__ == "__main__":
    finish(measure())
