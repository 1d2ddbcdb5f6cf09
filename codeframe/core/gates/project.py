"""The project's own environment: which python, which PATH, which variables its gates run with (rule 6.2)."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from codeframe.core.lines import Line
from codeframe.core.process import EndedBy, Limits, run_process

PROBE_TIMEOUT_S = 60.0

# An outer git command or an outer pytest must not steer what runs inside a gate.
_DROPPED = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "PYTEST_CURRENT_TEST",
)
_DROPPED_PREFIX = "PYTEST_XDIST_"
ENVIRONMENTS = (".venv", "venv")

# Asks an interpreter what it is and where it would import modules from, importing none of them.
_PROBE = """
import sys
import importlib.util
first, paths, names = sys.argv[1], sys.argv[2].split("\\n"), sys.argv[3:]
sys.path[:] = [p for p in paths if p] + ([""] if first == "cwd" else []) + [p for p in sys.path if p]
print("\\ncf-probe\\t" + ".".join(map(str, sys.version_info[:3])) + "\\t" + sys.prefix)
for name in names:
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        spec = None
    where = (spec.origin or next(iter(spec.submodule_search_locations or []), "")) if spec else ""
    print("\\ncf-probe\\t" + name + "\\t" + where)
"""


@dataclass(frozen=True)
class Probe:
    """What an interpreter told: version, prefix, and module name -> file it comes from ("" = none)."""

    version: str
    prefix: Path
    modules: dict[str, str]


@dataclass(frozen=True)
class Project:
    """The project at `root` and how its tools are started.

    `python` is the argv prefix that starts its interpreter (empty: there is none), `via` says in
    words where it comes from, `env` is the whole environment of a gate.
    """

    root: Path
    python: tuple[str, ...]
    via: str
    env: dict[str, str] = field(repr=False)

    @classmethod
    def at(cls, root: Path) -> Project:
        """Finds the environment: .venv or venv, uv, poetry, PATH, in this order; in `root`, then in
        its parents up to the top of the repository. Never the one CodeFrame itself runs in."""
        env = _clean_environment(root)
        for folder in up_to_top(root):
            for name in ENVIRONMENTS:
                python = folder / name / "bin" / "python"
                if os.access(python, os.X_OK):
                    env["VIRTUAL_ENV"] = str(folder / name)
                    env["PATH"] = os.pathsep.join([str(python.parent), env["PATH"]])
                    return cls(root, (shown(python, root),), name, env)
        for lock, tool, words in (
            ("uv.lock", "uv", ("run", "--no-sync", "python")),
            ("poetry.lock", "poetry", ("run", "python")),
        ):
            program = shutil.which(tool, path=env["PATH"])
            if program and any((folder / lock).is_file() for folder in up_to_top(root)):
                return cls(root, (program, *words), tool, env)
        found = shutil.which("python3", path=env["PATH"]) or shutil.which("python", path=env["PATH"])
        return cls(root, (found,) if found else (), "PATH", env)

    def to_install(self, package: str) -> str:
        """What to type so that the project's python has `package`."""
        if self.via in ("uv", "poetry"):
            return f"uv add --dev {package}" if self.via == "uv" else f"poetry add --group dev {package}"
        if self.via == "PATH":  # the system's own python is often closed to pip
            return f"{shlex.join(self.python)} -m venv .venv && .venv/bin/python -m pip install {package}"
        return f"{shlex.join(self.python)} -m pip install {package}"

    def which(self, program: str) -> str | None:
        """The path of `program` on the project's PATH (relative to `root` where it lies inside), or None."""
        if "/" in program:
            found = program if os.access(self.root / program, os.X_OK) else None
            return found if found is None or os.path.isabs(found) else os.path.join(".", found)
        found = shutil.which(program, path=self.env["PATH"])
        return shown(Path(found), self.root) if found else None

    def probe(
        self,
        python: tuple[str, ...],
        modules: tuple[str, ...],
        *,
        cwd_first: bool = True,
        paths: tuple[str, ...] = (),
    ) -> Probe | None:
        """Asks the interpreter started by `python` where it imports `modules` from, with `cwd_first`
        and `paths` deciding what precedes its own search path. None when it does not start."""
        if not python:
            return None
        lines: list[list[str]] = []

        def on_lines(_stream: str, printed: list[Line]) -> None:
            lines.extend(line.text.split("\t") for line in printed if line.text.startswith("cf-probe\t"))

        argv = [*python, "-c", _PROBE, "cwd" if cwd_first else "", "\n".join(paths), *modules]
        ended = run_process(
            argv,
            cwd=self.root,
            env=self.env,
            marker=f"probe/{os.urandom(8).hex()}",
            on_lines=on_lines,
            limits=Limits(timeout_s=PROBE_TIMEOUT_S),
        )
        if ended.ended_by is not EndedBy.EXIT or ended.exit_code != 0 or len(lines) != 1 + len(modules):
            return None
        return Probe(lines[0][1], Path(lines[0][2]), {name: where for _, name, where in lines[1:]})


def own_tool(name: str) -> tuple[str, ...]:
    """The argv of a tool that ships with CodeFrame and needs no project environment."""
    beside = Path(sys.executable).parent / name
    return (str(beside),) if os.access(beside, os.X_OK) else (sys.executable, "-m", name)


def shown(path: Path, root: Path) -> str:
    """`path` relative to `root` where it lies inside ("./" in front of a bare name), else absolute."""
    if not path.is_relative_to(root):
        return str(path)
    inner = str(path.relative_to(root))
    return inner if "/" in inner else f"./{inner}"


def up_to_top(root: Path) -> Iterator[Path]:
    """`root` and its parents up to the one that holds `.git`; only `root` outside a repository."""
    chain: list[Path] = []
    for folder in (root, *root.parents):
        chain.append(folder)
        if (folder / ".git").exists():
            return iter(chain)
    return iter((root,))


def _clean_environment(root: Path) -> dict[str, str]:
    """Our environment without CodeFrame's own venv and without what an outer git or pytest set."""
    env = {k: v for k, v in os.environ.items() if k not in _DROPPED and not k.startswith(_DROPPED_PREFIX)}
    env["PATH"] = env.get("PATH") or os.defpath
    if sys.prefix != sys.base_prefix:  # in a venv; a system-wide python is everybody's
        own = os.path.realpath(sys.prefix)

        def ours(path: str) -> bool:
            real = os.path.realpath(path)
            return real == own or real.startswith(own + os.sep)

        for name in ("PATH", "PYTHONPATH"):
            kept = [p for p in env.get(name, "").split(os.pathsep) if p and not ours(p)]
            env[name] = os.pathsep.join(kept)
        for name in ("VIRTUAL_ENV", "PYTHONHOME"):
            if env.get(name) and ours(env[name]):
                del env[name]
        if not env["PYTHONPATH"]:
            del env["PYTHONPATH"]
    env.update(CI="1", NO_COLOR="1", PYTHONDONTWRITEBYTECODE="1", GIT_TERMINAL_PROMPT="0", PWD=str(root))
    return env
