"""Configuration that decides what gates do, and what in it changed: compared by value, not by text (rule 6.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from codeframe.core.gates.integrity.finding import SETTING, Finding, Pair, short, text_of
from codeframe.core.strict_parse import parse_yaml

_PYTHON_TOOLS = (
    "pytest",
    "ruff",
    "mypy",
    "coverage",
    "pylint",
    "flake8",
    "pyright",
    "basedpyright",
    "bandit",
    "ty",
)
_INI = r"(?:tool:)?pytest|flake8.*|mypy.*|coverage:.*|pylint.*|ruff.*|bandit"
_PACKAGE = ("eslintConfig", "jest", "vitest", "mocha", "c8", "nyc")
_SCRIPTS = r"|scripts\.(?:pre|post)?(?:test|lint|check)(?::.*)?"
_OURS = ("gates", "strict", "require_gates", "integrity")
_MAX_PER_FILE = 20

# Lists that hold what is not checked, and lists and numbers that hold what is: less of the first kind and
# more of the second is stricter, and nothing to tell of.
_EXCEPTIONS = re.compile(r"(?:^|\.|-|_)(?:ignore|exclude|omit|deselect|disable|per-file-ignores)")
_DEMANDS = re.compile(r"(?:^|\.|-|_)(?:select|testpaths|fail_under|fail-under|enable|enable_error_code)$")

_HARMLESS = re.compile(r"(?:^|\.)(?:markers|minversion)$")


class _Kind(NamedTuple):
    """Files by name, how they are read, and which of their keys count (all where None)."""

    names: str
    read: Callable[[str], Any]
    keys: str | None = None


def looks_at(path: str) -> bool:
    """Whether the file can decide what a gate does."""
    return _kind(path) is not None


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """A finding for each key that changed, or one where a section or file is new or gone."""
    found: list[Finding] = []
    for pair in pairs:
        words = list(_words(pair))
        more = [f"and {len(words) - _MAX_PER_FILE} more changes"] if len(words) > _MAX_PER_FILE else []
        found += (Finding(SETTING, pair.path, 0, each) for each in words[:_MAX_PER_FILE] + more)
    return found


def _words(pair: Pair) -> Iterator[str]:
    kind = _kind(pair.path)
    if kind is None:
        return
    try:
        before, after = (kind.read(text_of(data)) for data in (pair.before, pair.after))
    except (ValueError, RecursionError):
        before, after = (_text(text_of(data)) for data in (pair.before, pair.after))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if before != after:
            yield "added" if pair.before is None else "removed" if pair.after is None else "changed"
        return
    was, now = (_flat(_kept(each, kind.keys)) for each in (before, after))
    for section in sorted({_section(key, kind) for key in was.keys() | now.keys()}):
        mine, its = ({k: v for k, v in flat.items() if _section(k, kind) == section} for flat in (was, now))
        if not mine or not its:
            held = ", ".join(f"{_inner(k, section)} = {_shown(v)}" for k, v in (mine or its).items())
            yield f"[{section}] {'removed' if mine else 'added'}: {short(held, 160)}"
            continue
        for key in sorted(mine.keys() | its.keys()):
            if key not in mine or key not in its or mine[key] != its[key]:
                old, new = mine.get(key, _NOTHING), its.get(key, _NOTHING)
                if not (_HARMLESS.search(key) or _stricter(key, old, new)):
                    yield f"{key}: {_difference(old, new)}"


_NOTHING = object()


def _stricter(key: str, old: object, new: object) -> bool:
    lowered = key.lower()
    if _EXCEPTIONS.search(lowered) and new is _NOTHING:
        return True
    if isinstance(old, list) and isinstance(new, list):
        if _EXCEPTIONS.search(lowered):
            return all(each in old for each in new)
        return bool(_DEMANDS.search(lowered)) and all(each in new for each in old)
    if _DEMANDS.search(lowered):
        try:
            return float(str(new)) >= (0.0 if old is _NOTHING else float(str(old)))
        except ValueError:
            return False
    return False


def _difference(old: object, new: object) -> str:
    if isinstance(old, list) and isinstance(new, list):
        added = [each for each in new if each not in old]
        removed = [each for each in old if each not in new]
        parts = [f"added {_shown(added)}" if added else "", f"removed {_shown(removed)}" if removed else ""]
        return ", ".join(filter(None, parts)) or "order changed"
    return f"{_shown(old)} -> {_shown(new)}"


def _shown(value: object) -> str:
    if value is _NOTHING:
        return "not set"
    if isinstance(value, str):
        return short(value) or '""'
    if isinstance(value, list):
        return short(
            ", ".join(each if isinstance(each, str) else json.dumps(each, default=str) for each in value)
        )
    return short(json.dumps(value, default=str))


def _section(key: str, kind: _Kind) -> str:
    """The tool a key belongs to, or the table it is in."""
    parts = key.split(".")
    if kind.keys is None or kind.read is _front_matter:
        return parts[0]
    return ".".join(parts[:2]) if parts[0] in ("tool", "scripts") else parts[0]


def _inner(key: str, section: str) -> str:
    return key.removeprefix(f"{section}.")


def _kept(data: Mapping[str, Any], keys: str | None) -> dict[str, Any]:
    """The sections that count; `tool.x` is one of TOML, `scripts.x` one of package.json."""
    sections: dict[str, Any] = {}
    for key, value in data.items():
        if key in ("tool", "scripts") and keys is not None and isinstance(value, dict):
            sections |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            sections[str(key)] = value
    return {k: v for k, v in sections.items() if keys is None or re.fullmatch(keys, k)}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> scalar or list."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat


# -- reading: text -> dict; ValueError where it is not what it should be -------------------------------


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)


def _ini(text: str) -> Any:
    import configparser

    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return {
        name: {key: _ini_value(value) for key, value in parser[name].items()} for name in parser.sections()
    }


def _ini_value(value: str | None) -> object:
    """Several lines, or words between commas, are a list."""
    lines = [line.strip() for line in (value or "").splitlines() if line.strip()]
    items = [item.strip() for line in lines for item in line.split(",") if item.strip()]
    return items if len(items) > 1 else " ".join((value or "").split())


def _json(text: str) -> Any:
    """JSON, also with the comments and last commas that tsconfig.json may have."""
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        string = r'"(?:\\.|[^"\\])*"'
        text = re.sub(rf"({string})|//[^\n]*|/\*.*?\*/", lambda m: m[1] or "", text, flags=re.DOTALL)
        return json.loads(re.sub(rf"({string})|,(?=\s*[}}\]])", lambda m: m[1] or "", text))


def _yaml(text: str) -> Any:
    return parse_yaml(text) or {}


def _front_matter(text: str) -> Any:
    match = re.match(r"---[ \t]*\n(.*?)^---[ \t]*$", text, re.DOTALL | re.MULTILINE)
    return _yaml(match[1]) if match else {}


def _text(text: str) -> Any:
    """A program that configures a tool: all that can be said is that it is another one."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


_TOOLS = "|".join(_PYTHON_TOOLS)
_JS_TOOLS = "eslint|jest|vitest|playwright|cypress|ava"
_KINDS = (
    _Kind(r"pyproject\.toml", _toml, rf"tool\.(?:{_TOOLS})"),
    _Kind(r"\.?(?:ruff|pytest)\.toml|\.coveragerc\.toml|\.?clippy\.toml", _toml),
    _Kind(r"Cargo\.toml", _toml, r"lints"),
    _Kind(r"setup\.cfg|tox\.ini", _ini, _INI),
    _Kind(r"\.?(?:pytest|mypy)\.ini|\.coveragerc|\.flake8|\.?pylintrc|\.bandit", _ini),
    _Kind(r"package\.json", _json, "|".join(_PACKAGE) + _SCRIPTS),
    _Kind(r"tsconfig.*\.json|pyrightconfig\.json|\.eslintrc(?:\.json)?", _json),
    _Kind(r"biome\.jsonc?|(?:jest\.config|\.mocharc)\.jsonc?|\.nycrc(?:\.json)?", _json),
    _Kind(r"\.eslintrc\.ya?ml|\.golangci\.ya?ml|\.rubocop\.yml", _yaml),
    _Kind(rf"(?:\.eslintrc|\.mocharc|karma\.conf|(?:{_JS_TOOLS})\.config)\.[cm]?[jt]s|\.eslintignore", _text),
    _Kind(r"(?:CODEFRAME|AGENTS)\.md", _front_matter, "|".join(_OURS)),
)  # fmt: skip
_OWN_YAML, _OWN_JSON = _Kind("", _yaml, "|".join(_OURS)), _Kind("", _json, "|".join(_OURS))


def _kind(path: str) -> _Kind | None:
    where = PurePosixPath(path)
    if where.parent.name == ".codeframe":
        return {"config.yaml": _OWN_YAML, "config.json": _OWN_JSON}.get(where.name)
    return next((kind for kind in _KINDS if re.fullmatch(kind.names, where.name)), None)
