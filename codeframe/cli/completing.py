"""What could stand in place of a word of a `cf` command that is being typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

from codeframe.cli.output import clean

Found = Iterable[tuple[str, str]]  # (value, what it is)
FILES = [(":files", "")]
_MOST = 200
_TITLE = 60


def candidates(words: Sequence[str]) -> list[tuple[str, str]]:
    """(value, what it is or "") of all that could be meant by the last of `words`, which follow `cf`; `FILES` for any
    file. Raises what the commands raise, where there is no workspace, say."""
    from codeframe.cli.app import app

    *before, last = words
    command = typer.main.get_command(app)
    context = command.context_class(command, info_name="cf", resilient_parsing=True)
    waiting: Any = None  # an option that has no value yet
    given: list[str] = []  # the command's arguments so far
    only_arguments = False
    for word in before:
        if waiting is not None:
            if word == "=":  # bash takes --engine=NAME apart
                continue
            if waiting.name == "directories":
                os.chdir(os.path.expanduser(word))
            waiting = None
        elif only_arguments or not word.startswith("-"):
            if hasattr(command, "list_commands"):
                command = command.get_command(context, word)
                if command is None:
                    return []
                context = command.context_class(
                    command, info_name=word, parent=context, resilient_parsing=True
                )
            else:
                given.append(word)
        elif word == "--":
            only_arguments = True
        else:
            waiting = _option(command, word)
    prefix = ""
    if waiting is not None:
        found, last = _values(waiting.name, waiting.metavar, given), last.removeprefix("=")
    elif last.startswith("-") and not only_arguments:
        name, is_value, value = last.partition("=")
        if is_value and (option := _option(command, name)):
            prefix, last, found = f"{name}=", value, _values(option.name, option.metavar, given)
        else:
            found = _options(command, context)
    elif hasattr(command, "list_commands"):
        found = _commands(command, context)
    else:
        found = _argument(command, given)
    if found is FILES:
        return FILES
    fitting = [(f"{prefix}{value}", clean(says)) for value, says in found if value.startswith(last)]
    return fitting[:_MOST]


def _option(command: Any, word: str) -> Any:
    """The option `word` of `command` where a value follows it, else None."""
    options = (p for p in command.params if p.param_type_name == "option" and not p.is_flag)
    return next((option for option in options if word in option.opts), None)


def _options(command: Any, context: Any) -> Found:
    for param in command.get_params(context):
        if param.param_type_name == "option" and not getattr(param, "hidden", False):
            for name in (*param.opts, *param.secondary_opts):
                yield name, getattr(param, "help", None) or ""


def _commands(group: Any, context: Any) -> Found:
    """Their help only where that does not import every other command."""
    inner = context.parent is not None
    for name in group.list_commands(context):
        yield name, group.get_command(context, name).get_short_help_str() if inner else ""


def _argument(command: Any, given: list[str]) -> Found:
    """What could be the next argument after `given`."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    at = len(given)
    if arguments and at >= len(arguments) and arguments[-1].nargs == -1:
        at = len(arguments) - 1
    return _values(arguments[at].name, arguments[at].metavar, given) if at < len(arguments) else ()


def _values(name: str, metavar: str | None, given: list[str]) -> Found:
    """By what the parameter is called: `task_id` is one everywhere."""
    if metavar and any(word in metavar for word in ("FILE", "DIR", "PATHS")):
        return FILES
    if metavar == "NAME":
        return _engines()
    if name == "words":  # of `tasks set`
        fields = ("title", "description", "status", "priority", "engine")
        after: dict[str, Callable[[], Found]] = {"status": _states, "engine": _engines}
        return _tasks() if not given else _plain(fields) if len(given) == 1 else after.get(given[1], tuple)()
    return _BY_NAME.get(name, tuple)()


def _plain(words: Iterable[str]) -> Found:
    return [(word, "") for word in words]


def _tasks() -> Found:
    from codeframe.cli.here import workspace_here

    tasks = workspace_here().store.tasks.list(limit=_MOST)
    return [(task.id[:8], f"{task.status.value} {task.title[:_TITLE]}") for task in tasks]


def _blockers() -> Found:
    from codeframe.cli.here import workspace_here

    return [(b.id[:8], b.question[:_TITLE]) for b in workspace_here().store.blockers.list()]


def _engines() -> Found:
    from codeframe.cli.here import engines_here

    return _plain(engines_here().available())


def _states() -> Found:
    from codeframe.core.models import TaskStatus

    return _plain(status.value for status in TaskStatus)


def _keys() -> Found:
    from codeframe.core.environment_config import KEYS

    return _plain(KEYS)


_BY_NAME: dict[str, Callable[[], Found]] = {
    "task_id": _tasks,
    "depends_on": _tasks,
    "others": _tasks,
    "blocker_id": _blockers,
    "key": _keys,
    "status": _states,
    "from_status": _states,
    "stall_action": lambda: _plain(("blocker", "retry", "fail")),
    "autonomy": lambda: _plain(("workspace", "full")),
    "network": lambda: _plain(("on", "off")),
    "shell": lambda: _plain(("bash", "zsh", "fish")),
}
