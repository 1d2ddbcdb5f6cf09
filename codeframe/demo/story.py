"""The demo's plot: a small project, three tasks, and what the scripted model does about each."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.demo.deeds import Block, read, report, write

ANSWER = "Half a cent goes up, as on paper."


class Task(NamedTuple):
    """A task to be worked on: `key` names it in the plot; `depends_on` are keys."""

    key: str
    title: str
    description: str
    depends_on: tuple[str, ...] = ()


TASKS = (
    Task("total", "Basket.total()", "The exact sum of price times count, as a Decimal with cents."),
    Task(
        "discount",
        "A tenth off from ten pieces on",
        "Only for the line that has ten or more; the total follows.",
        ("total",),
    ),
    Task(
        "receipt",
        "Print a slip for the customer",
        "till/receipt.py: receipt(basket) gives the slip as text, 30 characters wide.",
        ("discount",),
    ),
)


def scenario() -> dict[str, Any]:
    """What the model answers, task by task, in the terms of `model_script`."""
    plots: dict[str, list[list[Any]]] = {
        "total": [
            [read("till/basket.py"), [*_files("total-1"), report("Added Basket.total() with tests.")]],
            [[*_files("total-2"), report("Sums Decimals, counts each piece; the unused import is gone.")]],
        ],
        "discount": [
            [
                read("till/basket.py"),
                report(
                    "The PRD does not say how to round.",
                    "blocked",
                    question="A tenth less can end in half a cent (0.585). Does that go up, or to the even cent?",
                ),
            ],
            [[*_files("discount"), report("A tenth off from ten on, half a cent up, with tests.")]],
        ],
        "receipt": [[read("till/basket.py"), [*_files("receipt"), report("receipt() with a test.")]]],
    }
    # The latest first: a task's prompt also names the ones it depends on.
    match = [{"text": task.title, "prompts": plots[task.key]} for task in reversed(TASKS)]
    nothing = [[report("This model only knows the tasks of the demo.", "failed")]]
    return {"match": match, "prompts": nothing, "aux": "demo"}


def lay_out(folder: Path) -> None:
    """Write the sample project into `folder`, which must be there and empty."""
    for path, content in _contents("project"):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    (folder / ".gitignore").write_text(".venv/\n__pycache__/\n.pytest_cache/\n.ruff_cache/\n")


def _files(answer: str) -> list[Block]:
    return [write(path, content) for path, content in _contents(f"answers/{answer}")]


def _contents(name: str) -> list[tuple[str, str]]:
    """Every file below a folder of this package: its path inside, and its text."""
    top = Path(str(files("codeframe.demo") / name))
    found = sorted(p for p in top.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return [(path.relative_to(top).as_posix(), path.read_text(encoding="utf-8")) for path in found]
