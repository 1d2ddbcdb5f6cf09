"""What a project is built with, read from its manifest files: one short line for each language."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codeframe.core.safe_read import Unreadable, read_text_inside

MAX_MANIFEST_BYTES = 1024 * 1024


def detect_tech_stack(root: Path) -> str:
    """The tech stack of the project in folder `root`, one line a language; "" when nothing is known of it.

    Looks at files of `root` itself, reads its manifest and lock files, runs nothing, and takes a broken or missing
    file for an empty one. Nothing a manifest says is repeated except version numbers.
    """
    root = root.resolve()
    found = [describe(root) for describe in DETECTORS]
    return "\n".join(line for line in found if line)


def _python(root: Path) -> str:
    project = _toml(root, "pyproject.toml")
    setup = _ini(root, "setup.cfg")
    manifest = _has_any(root, "pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "Pipfile")
    if not manifest and not _holds(root, "*.py"):
        return ""
    tools = _table(project, "tool")
    words = _names(project) | _names(_toml(root, "Pipfile"))
    for name in ("setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt"):
        words |= _leading_words(_text(root, name))
    version = _version(
        _table(project, "project").get("requires-python")
        or setup.get("options", {}).get("python_requires")
        or _table(tools, "poetry", "dependencies").get("python")
    )
    manager = _by_lock(
        root,
        {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm", "Pipfile.lock": "pipenv"},
    )
    manager = manager or next((name for name in ("uv", "poetry", "pdm", "hatch") if name in tools), "")
    manager = manager or ("pip" if manifest else "")
    runner = "pytest" if "pytest" in words or _has_any(root, "pytest.ini", "conftest.py") else ""
    linters: list[str] = [
        name for name in ("ruff", "flake8", "pylint", "black", "mypy", "pyright") if name in words
    ]
    linters += [name for name in ("ruff", "mypy") if _has_any(root, f"{name}.toml", f"{name}.ini")]
    return _line("Python", version, manager, runner, linters)


def _javascript(root: Path) -> str:
    package = _json(root, "package.json")
    if not _has_any(root, "package.json"):
        return ""
    names = {*_table(package, "dependencies"), *_table(package, "devDependencies")}
    typescript = "typescript" in names or _has_any(root, "tsconfig.json")
    manager = _by_lock(
        root,
        {
            "pnpm-lock.yaml": "pnpm",
            "yarn.lock": "yarn",
            "bun.lock": "bun",
            "bun.lockb": "bun",
            "package-lock.json": "npm",
            "npm-shrinkwrap.json": "npm",
        },
    )
    script = str(_table(package, "scripts").get("test", ""))
    runners = ("vitest", "jest", "mocha", "ava", "jasmine", "playwright", "cypress")
    runner = next((name for name in runners if name in names or name in script), "")
    runner = runner or ("node --test" if "node --test" in script else "")
    linters: list[str] = [name for name in ("eslint", "prettier", "oxlint") if name in names]
    linters += ["biome"] if "@biomejs/biome" in names or _has_any(root, "biome.json") else []
    version = _version(_table(package, "engines").get("node"))
    return _line(
        "TypeScript" if typescript else "JavaScript",
        version and f"Node {version}",
        manager or "npm",
        runner,
        linters,
    )


def _rust(root: Path) -> str:
    if not _has_any(root, "Cargo.toml"):
        return ""
    manifest = _toml(root, "Cargo.toml")
    version = _version(_table(manifest, "package").get("rust-version"))
    return _line("Rust", version, "cargo", "cargo test", ["clippy"] if _has_any(root, "clippy.toml") else [])


def _go(root: Path) -> str:
    if not _has_any(root, "go.mod"):
        return ""
    version = re.search(r"^go (\d[\d.]*)\s*$", _text(root, "go.mod"), re.MULTILINE)
    linters = ["golangci-lint"] if _has_any(root, ".golangci.yml", ".golangci.yaml", ".golangci.toml") else []
    return _line("Go", version[1] if version else "", "go modules", "go test", linters)


def _jvm(root: Path) -> str:
    gradle = _has_any(root, "build.gradle", "build.gradle.kts")
    if not gradle and not _has_any(root, "pom.xml"):
        return ""
    text = "".join(_text(root, name) for name in ("pom.xml", "build.gradle", "build.gradle.kts"))
    runner = next((name for name in ("junit", "testng", "kotest") if name in text.lower()), "")
    linters = [name for name in ("checkstyle", "spotless", "ktlint", "detekt") if name in text.lower()]
    return _line(
        "Kotlin" if "kotlin" in text.lower() else "Java", "", "gradle" if gradle else "maven", runner, linters
    )


def _ruby(root: Path) -> str:
    if not _has_any(root, "Gemfile"):
        return ""
    words = set(re.findall(r"""^\s*gem ["']([\w-]+)""", _text(root, "Gemfile"), re.MULTILINE))
    runner = next((name for name in ("rspec", "minitest") if name in words), "")
    return _line("Ruby", "", "bundler", runner, ["rubocop"] if "rubocop" in words else [])


def _php(root: Path) -> str:
    if not _has_any(root, "composer.json"):
        return ""
    manifest = _json(root, "composer.json")
    names = {*_table(manifest, "require"), *_table(manifest, "require-dev")}
    runner = next((n for n in ("pestphp/pest", "phpunit/phpunit") if n in names), "").rpartition("/")[2]
    linters = ["phpstan"] if "phpstan/phpstan" in names else []
    return _line("PHP", _version(_table(manifest, "require").get("php")), "composer", runner, linters)


DETECTORS: tuple[Callable[[Path], str], ...] = (_python, _javascript, _rust, _go, _jvm, _ruby, _php)


def _line(language: str, version: str, manager: str, runner: str, linters: list[str]) -> str:
    """`Python >=3.11: packages by uv, tests by pytest, checked by ruff and mypy`."""
    facts = [f"packages by {manager}"] if manager else []
    facts += [f"tests by {runner}"] if runner else []
    facts += [f"checked by {' and '.join(dict.fromkeys(linters))}"] if linters else []
    return f"{language} {version}".strip() + (": " if facts else "") + ", ".join(facts)


def _version(value: object) -> str:
    """A version constraint as written; "" when it holds more than that: a manifest cannot say a sentence."""
    text = str(value).strip() if isinstance(value, str) else ""
    return text if re.fullmatch(r"[\dx.,*<>=!~^| +-]{1,40}", text) and re.search(r"\d", text) else ""


def _by_lock(root: Path, locks: Mapping[str, str]) -> str:
    return next((manager for name, manager in locks.items() if _has_any(root, name)), "")


def _has_any(root: Path, *names: str) -> bool:
    return any((root / name).is_file() for name in names)


def _holds(root: Path, pattern: str) -> bool:
    try:
        return any(path.is_file() for path in root.glob(pattern))
    except OSError:
        return False


def _text(root: Path, name: str) -> str:
    try:
        return read_text_inside(root, root / name, MAX_MANIFEST_BYTES)
    except Unreadable:
        return ""


def _names(value: object) -> set[str]:
    """Keys of all tables and first words of all listed strings: tools configured, packages required."""
    if isinstance(value, dict):
        return {str(key).lower() for key in value}.union(*map(_names, value.values()))
    if isinstance(value, list):
        return set().union(*(_leading_words(v) if isinstance(v, str) else _names(v) for v in value))
    return set()


def _leading_words(text: str) -> set[str]:
    """The first word of each line: `pytest` of `pytest>=8`, `[pytest]` and `[tool:pytest]`."""
    return {word.lower() for word in re.findall(r"^\s*\[?(?:tool:)?([A-Za-z][\w-]*)", text, re.MULTILINE)}


def _toml(root: Path, name: str) -> dict[str, Any]:
    text = _text(root, name)
    if not text:
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(root: Path, name: str) -> dict[str, Any]:
    try:
        value = json.loads(_text(root, name))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _ini(root: Path, name: str) -> Mapping[str, Mapping[str, str]]:
    text = _text(root, name)
    if not text:
        return {}
    from configparser import ConfigParser, Error

    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except Error:
        return {}
    return {section: dict(parser[section]) for section in parser.sections()}


def _table(value: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The table under `keys`, or an empty one where the file holds something else there."""
    for key in keys:
        inner = value.get(key)
        value = inner if isinstance(inner, dict) else {}
    return dict(value)
