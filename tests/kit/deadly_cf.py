"""A real `cf` that ends itself with SIGKILL at a chosen line of its own code.

    python -P deadly_cf.py PLAN ARGS...

PLAN is a JSON file: {"root": checkout, "phase": name or null, "line": n, "hit": file, "pid": file, "seen": file}.
At the n-th line that is executed in that phase, in any thread, the place is written to "hit" and the process is
gone. Without a phase, or when the phase is shorter, it ends by itself, and "seen" says how long each phase was.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
from collections import Counter
from typing import Any

# (file, function) -> the phase of a run it is, and all it calls. The innermost counts, but a gate is a gate.
PHASES = {
    ("admission.py", "admit"): "claim",
    ("snapshots.py", "take"): "snapshots",
    ("verification_wrapper.py", "_launch"): "launch",
    ("runtime.py", "launched"): "launch",
    ("process.py", "_wait"): "mid-turn",
    ("process.py", "end_family"): "sweep",
    ("suite.py", "baseline"): "gates",
    ("suite.py", "check"): "gates",
    ("runtime.py", "_conclude"): "verdict",
    ("recovery.py", "recover"): "recovery",
}
ELSEWHERE = "elsewhere"


class Tracer:
    """Counts the executed lines of our own code by phase, and kills at the planned one."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.ours = os.path.join(plan["root"], "codeframe") + os.sep
        self.phase, self.line, self.hit = plan["phase"], plan["line"], plan["hit"]
        self.seen: Counter[str] = Counter()
        self.stack = [ELSEWHERE]
        self.main = threading.get_ident()

    def call(self, frame: Any, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self.ours) or code.co_name == "<module>":
            return None
        begun = PHASES.get((os.path.basename(code.co_filename), code.co_name))
        if begun is None or threading.get_ident() != self.main or self.stack[-1] == "gates":
            return self.within
        self.stack.append(begun)
        return self.phase_itself

    def phase_itself(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "return":  # also when an exception leaves it
            self.stack.pop()
        else:
            self.within(frame, event, arg)
        return self.phase_itself

    def within(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            phase = self.stack[-1]
            self.seen[phase] += 1
            if phase == self.phase and self.seen[phase] == self.line:
                where = f"{frame.f_code.co_filename.removeprefix(self.ours)}:{frame.f_lineno}"
                with open(self.hit, "w") as file:
                    file.write(where)
                os.kill(os.getpid(), signal.SIGKILL)
        return self.within


def main() -> None:
    """Play the plan."""
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    with open(plan["pid"], "w") as file:
        file.write(str(os.getpid()))
    sys.argv[0:2] = ["cf"]
    sys.path.insert(0, plan["root"])
    tracer = Tracer(plan)
    threading.settrace(tracer.call)
    sys.settrace(tracer.call)
    try:
        runpy.run_module("codeframe", run_name="__main__", alter_sys=True)
    finally:
        sys.settrace(None)
        with open(plan["seen"], "w") as file:
            json.dump(tracer.seen, file)


if __name__ == "__main__":
    main()
