"""The configuration file of a workspace, `.codeframe/config.yaml` (or .json): read it, and set a key in it."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codeframe.core.environment_config import (
    ALIAS,
    ARGUMENTS_EXAMPLE,
    BUDGET_EXAMPLE,
    ENGINES_EXAMPLE,
    GATES_EXAMPLE,
    KEYS,
    EnvironmentConfig,
    nearest,
    to_bool,
)
from codeframe.core.errors import CodeFrameError, UsageError, how_to_write, not_written
from codeframe.core.folder_lock import folder_locked
from codeframe.core.safe_read import Unreadable, read_regular, read_text_inside
from codeframe.core.strict_parse import parse_json, parse_yaml
from codeframe.core.whole_file import write_named

CONFIG_DIR = ".codeframe"
_MAX_DOCUMENT_BYTES = 256 * 1024  # of a configuration file or a Markdown file with front matter


def load_environment_config(repo_path: Path) -> EnvironmentConfig:
    """The configuration of the workspace folder `repo_path`; the defaults when it has none.

    UsageError when it cannot be read, or says something that makes no sense.
    """
    path = _config_path(repo_path)
    config = EnvironmentConfig.from_dict(_read(path) if path else {})
    _refuse_invalid(config, path, f"Correct it in an editor: {_editing(path)}" if path else "")
    return config


def set_value(
    repo_path: Path,
    key: str,
    value_text: str,
    check: Callable[[EnvironmentConfig], object] = lambda config: None,
) -> EnvironmentConfig:
    """Set one key to what a person typed, and write the file; returns the new configuration, about which `check` may
    raise first.

    Comments stay where the key has a line of its own. UsageError when the key or the value, or
    anything else in the file, makes no sense: nothing is written then.
    """
    if key not in KEYS and key != ALIAS:
        raise UsageError(
            f"`{key}` is not a key of the configuration.{nearest(key)}", f"Keys: {', '.join(KEYS)}"
        )
    with folder_locked(repo_path):
        return _set(repo_path, key, value_text, check)


def _set(
    repo_path: Path, key: str, value_text: str, check: Callable[[EnvironmentConfig], object]
) -> EnvironmentConfig:
    path = _config_path(repo_path)
    data = _read(path) if path else {}
    # The name the file already uses wins; when it uses both, one is enough.
    if key in ("engine", ALIAS):
        key = ALIAS if set(data) & {"engine", ALIAS} == {ALIAS} else "engine"
        if key == "engine":
            data.pop(ALIAS, None)
    data[key] = _typed(key, value_text)
    config = EnvironmentConfig.from_dict(data)
    _refuse_invalid(config, path, _example(key))
    check(config)
    path = path or ensure_config_dir(repo_path) / "config.yaml"
    if path.suffix == ".json":
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    else:
        text = _edited(path, key, data)
    _write(path, text)
    return config


def front_matter(path: Path) -> dict[str, Any]:
    """The YAML between the leading `---` lines of a Markdown file; {} when there is none or it is broken."""
    real = Path(os.path.realpath(path))
    try:
        lines = read_text_inside(real.parent, real, _MAX_DOCUMENT_BYTES).splitlines()
    except Unreadable:
        return {}
    if not lines or lines[0].rstrip() != "---":
        return {}
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"]
    if not ends:
        return {}
    try:
        data = parse_yaml("\n".join(lines[1 : ends[0]]))
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def ensure_config_dir(root: Path) -> Path:
    """`.codeframe/` in the workspace folder `root`, made if need be; it hides itself from git."""
    folder = root / CONFIG_DIR
    if folder.is_symlink():  # a clone may bring one that leads anywhere
        raise CodeFrameError(
            f"{folder} is a symlink, and nothing is written through it.", f"Remove it: rm '{folder}'"
        )
    try:
        folder.mkdir(exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            _write(ignore, "*\n")
    except OSError as error:
        raise CodeFrameError(
            f"The folder {folder} cannot be written: {error.strerror}.", how_to_write(folder, error)
        ) from error
    return folder


def _config_path(repo_path: Path) -> Path | None:
    folder = repo_path / CONFIG_DIR
    found = [folder / name for name in ("config.yaml", "config.json") if os.path.lexists(folder / name)]
    if len(found) == 2:
        raise UsageError(
            f"Both {found[0]} and {found[1].name} are there, and only one can count.",
            f"Delete one of them: rm '{found[1]}'",
        )
    misnamed = folder / "config.yml"
    if misnamed.is_file():
        raise UsageError(
            f"{misnamed} is not read: its name has to be config.yaml.",
            f"Rename it: mv '{misnamed}' '{folder / 'config.yaml'}'",
        )
    return found[0] if found else None


def _text_of(path: Path) -> str:
    try:
        return read_regular(path, _MAX_DOCUMENT_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"it is not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from error


def _read(path: Path) -> dict[str, Any]:
    text = _text_of(path)
    try:
        data = parse_json(text) if path.suffix == ".json" else parse_yaml(text)
    except ValueError as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(data, dict | None):
        raise _unreadable(path, "it has to hold lines like `engine: NAME`")
    return data or {}


def _edited(path: Path, key: str, data: Mapping[str, Any]) -> str:
    """The file's text with `key` set: its line alone where that is enough, else written anew."""
    old = _text_of(path) if path.exists() else ""
    quoted = json.dumps(data[key], ensure_ascii=False)  # also valid YAML
    plain = data[key] if isinstance(data[key], str) else quoted
    line = re.compile(rf"^{key}[ \t]*:[^\n#]*?(?=[ \t]+#|[ \t]*$)", re.MULTILINE)
    edits = []
    for value in (plain, quoted):
        new_line = f"{key}: {value}"
        if line.search(old):
            edits.append(line.sub(lambda _, new=new_line: new, old, count=1))  # type: ignore[misc]
        else:
            edits.append(f"{old}{'' if not old or old.endswith(chr(10)) else chr(10)}{new_line}\n")
    import yaml

    edits += [yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=raw) for raw in (True, False)]
    return next(text for text in edits if _reads_as(text, data))


def _reads_as(text: str, data: Mapping[str, Any]) -> bool:
    try:
        return bool(parse_yaml(text) == data)
    except ValueError:
        return False


def _write(path: Path, text: str) -> None:
    """Replace `path` at once: after a kill it holds the old text or the new."""
    try:
        write_named(path, text.encode())
    except OSError as error:
        raise not_written(path, error) from error


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} cannot be read: {why}.", f"Correct it in an editor, or delete it: {_editing(path)}"
    )


def _editing(path: Path) -> str:
    return f"${{EDITOR:-vi}} {shlex.quote(str(path))}"


def _refuse_invalid(config: EnvironmentConfig, path: Path | None, hint: str) -> None:
    sentences = config.validate()
    if sentences:
        where = f"{path}: " if path else ""
        raise UsageError(where + " ".join(sentences), hint)


# What a person may type for a key. Each has one.
EXAMPLES: Mapping[str, str] = {
    "engine": "NAME (cf engines list names them)",
    "model": "NAME",
    "engines": f"'{ENGINES_EXAMPLE}'",
    "engine_args": f"'{ARGUMENTS_EXAMPLE}'",
    "gates": f"'{GATES_EXAMPLE}'",
    "require_gates": "true",
    "strict": "true",
    "integrity": "block",
    "timeout": "1h",
    "stall_timeout": "10m",
    "max_corrections": "3",
    "stall_action": "blocker",
    "autonomy": "workspace",
    "network": "on",
    "fallback": "one,another",
    "wait_for_quota": "5h",
    "budget": f"'{BUDGET_EXAMPLE}'",
    "tech_stack": "'Python 3.12, pytest'",
}


def _example(key: str) -> str:
    return f"Type: cf config set {key} {EXAMPLES['engine' if key == ALIAS else key]}"


def _typed(key: str, text: str) -> Any:
    """The value a person means by `text` on the command line."""
    text = text.encode("utf-8", "replace").decode()  # no lone surrogates
    if key in ("gates", "engines", "engine_args", "budget"):
        try:
            return parse_yaml(text)
        except ValueError as error:
            raise UsageError(f"The value of `{key}` is not YAML: {error}.", _example(key)) from error
    if key in ("require_gates", "strict"):
        return to_bool(text.strip())
    if key == "max_corrections" and re.fullmatch(r"[0-9]{1,9}", text.strip()):
        return int(text)
    return text.strip()
