"""How a person's OpenCode, or a program made from it, is set up: its model, its data, our overlay. Starts nothing.

Facts observed on opencode 1.18.33; see docs/engines/opencode.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from codeframe.core.adapters.json_values import dict_of, dicts_in, list_of, text_of
from codeframe.core.safe_read import open_regular

EVENTS_PLUGIN = Path(__file__).with_name("opencode_events.js")
_MAX_CONFIG_BYTES = 4 * 1024 * 1024
# A string (kept), a comment, or a comma before a closing bracket: what JSONC has over JSON.
_JSONC = r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])'
_COMMENTS = r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/'


class Product(NamedTuple):
    """What differs between the programs of this family.

    `prefix` begins the names of its variables, `folder` is its own below the XDG folders, `configs` are names
    of configuration files without `.json` and `.jsonc`, `project_folders` those a project may have, `agent`
    is the one that works unless another is chosen, `hosted` its maker's own provider of models.
    """

    title: str
    commands: tuple[str, ...]
    prefix: str
    folder: str
    configs: tuple[str, ...]
    project_folders: tuple[str, ...]
    agent: str
    hosted: str
    example: str = "anthropic/claude-sonnet-4-5"

    def home(self, variable: str, default: str, environ: Mapping[str, str]) -> Path:
        """Its folder below one of the XDG folders, as `home("XDG_DATA_HOME", ".local/share", ...)`."""
        home = environ.get("HOME") or os.path.expanduser("~")
        return Path(environ.get(variable) or os.path.join(home, default)) / self.folder


def configured_model(product: Product, workspace: Path, environ: Mapping[str, str]) -> str | None:
    """The model (as "provider/model") a person has chosen for this workspace; None where they chose none.

    From the files the program itself reads, in its order, then the one last picked in its interface.
    """
    found: dict[str, Any] = {}
    for config in _configs(product, workspace, environ):
        found = merged(found, config)
    agent = text_of(found.get("default_agent")) or product.agent
    chosen = text_of(dict_of(dict_of(found.get("agent")).get(agent)).get("model")) or text_of(
        found.get("model")
    )
    chosen = re.sub(r"\{env:(\w+)\}", lambda match: environ.get(match[1], ""), chosen)
    if chosen:
        return chosen
    state = _read(product.home("XDG_STATE_HOME", ".local/state", environ) / "model.json")
    for each in dicts_in(state.get("recent")):
        if (provider := text_of(each.get("providerID"))) and (model := text_of(each.get("modelID"))):
            return f"{provider}/{model}"
    return None


def overlay(product: Product, environ: Mapping[str, str], *, full: bool, network: bool) -> str:
    """What is laid over the person's configuration, by environment: JSON, over what they put there themselves."""
    permission = {} if full else {"external_directory": "deny"}
    if not network:
        permission |= {"webfetch": "deny", "websearch": "deny"}
    ours = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,  # it would keep its own refs in the repository
        "permission": permission,
    }
    theirs = parse_jsonc(environ.get(f"{product.prefix}_CONFIG_CONTENT", ""))
    plugins = [*list_of(theirs.get("plugin")), EVENTS_PLUGIN.as_uri()]
    return json.dumps({**merged(theirs, ours), "plugin": plugins})


def needs_warm_up(product: Product, binary: Path, environ: Mapping[str, str]) -> bool:
    """Whether its database is not there yet, or older than the program, which may then have to change it."""
    databases = list(product.home("XDG_DATA_HOME", ".local/share", environ).glob("*.db"))
    with contextlib.suppress(OSError):
        return max((each.stat().st_mtime for each in databases), default=0.0) < binary.stat().st_mtime
    return False


@contextlib.contextmanager
def alone(product: Product, environ: Mapping[str, str], cancel: threading.Event) -> Iterator[bool]:
    """Hold the lock of the data folder, which is made if need be; False where `cancel` came first."""
    folder = product.home("XDG_DATA_HOME", ".local/share", environ)
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while not cancel.is_set():
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            cancel.wait(0.1)
        yield not cancel.is_set()
    finally:
        os.close(fd)


@contextlib.contextmanager
def temporary_folder(workspace: Path) -> Iterator[str]:
    """A private folder for what each start leaves behind, gone with the run.

    The same path for each call in a workspace: the program tells it to the model, near the beginning, so that
    another one each time would cost the prompt cache.
    """
    import hashlib

    top = Path(tempfile.gettempdir()) / f"codeframe-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        top.mkdir(mode=0o700)
    found = top.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        with tempfile.TemporaryDirectory(prefix="codeframe-", ignore_cleanup_errors=True) as other:
            yield other  # somebody else was there first
        return
    folder = top / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]
    folder.mkdir(exist_ok=True)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both objects, `over` counting where they differ, objects inside merged alike."""
    both = dict(under)
    for key, value in over.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both


def parse_jsonc(text: str) -> dict[str, Any]:
    """The object in JSON with comments and trailing commas; {} for anything else."""
    for pattern in (_COMMENTS, _JSONC):  # a comma may be followed by a comment
        text = re.sub(pattern, lambda match: match[1] or "", text, flags=re.DOTALL)
    try:
        return dict_of(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _configs(product: Product, workspace: Path, environ: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What it reads, the stronger later."""
    names = [f"{name}.{ending}" for name in product.configs for ending in ("json", "jsonc")]
    own_home = Path(environ.get("HOME") or os.path.expanduser("~"))
    above = [*reversed(_up_to_the_top(workspace))]
    if environ.get(f"{product.prefix}_DISABLE_PROJECT_CONFIG", "").lower() in ("1", "true"):
        above = []
    places = [product.home("XDG_CONFIG_HOME", ".config", environ) / name for name in ("config.json", *names)]
    if named := environ.get(f"{product.prefix}_CONFIG"):
        places.append(Path(named))
    places += [folder / name for folder in above for name in names]
    folders = [where / inner for where in (own_home, *above) for inner in product.project_folders]
    if named := environ.get(f"{product.prefix}_CONFIG_DIR"):
        folders.append(Path(named))
    places += [folder / name for folder in folders for name in names]
    for place in places:
        yield _read(place)
    yield parse_jsonc(environ.get(f"{product.prefix}_CONFIG_CONTENT", ""))


def _up_to_the_top(workspace: Path) -> list[Path]:
    """The workspace and the folders above it, up to the one that holds `.git`."""
    folders = [workspace, *workspace.parents]
    top = next((n for n, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    return folders[: top + 1]


def _read(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            return parse_jsonc(file.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace"))
    except OSError:
        return {}
