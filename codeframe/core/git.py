"""Every git call of our own: runs nothing of the repository, inherits nothing (rule 9.1)."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, cast

from codeframe.core.errors import CodeFrameError, RequirementsError, UsageError
from codeframe.core.git_watch import Call, git_folder_above, watch
from codeframe.core.safe_read import read_regular

MINIMUM_VERSION = (2, 38)  # `git merge-tree --write-tree`

# Configuration that beats whatever the repository says: programs it could name are off, output is plain.
_CONFIG = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.quotePath=false",
    "color.ui=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "submodule.recurse=false",
)
_FIXED_ARGS = tuple(arg for setting in _CONFIG for arg in ("-c", setting))

_FIXED_ENVIRONMENT = {
    "GIT_NO_REPLACE_OBJECTS": "1",  # what was stored is what counts, not what somebody put in its place
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": "true",
    "LC_ALL": "C",
    # In a partial clone git fetches what is missing by itself, with programs that the repository names.
    # The list of allowed protocols beats `protocol.*.allow` there; git knows the other from 2.45 on.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
}

# Of ours, for commits that no branch shows: of a repository's own identity nothing is needed then.
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "codeframe"), ("EMAIL", "codeframe@localhost"))
}

# Subcommands that would run a configured external diff or textconv program.
_DIFFING = frozenset({"diff", "diff-files", "diff-index", "diff-tree", "format-patch", "log", "show"})


_LAZY = re.compile(r"promisor remote|lazy fetching disabled")
_BROKEN = re.compile(
    r"bad object|not a valid object|unable to read|index file|bad signature|corrupt|missing (blob|tree|commit)"
    r"|invalid object"
)


class GitError(CodeFrameError):
    """A git command failed. `stderr` is what it said, `git_exit` its exit status."""

    def __init__(self, problem: str, hint: str = "", *, stderr: str = "", git_exit: int = -1) -> None:
        super().__init__(problem, hint)
        self.stderr = stderr
        self.git_exit = git_exit


class GitStuck(GitError):
    """git would never have come to an end, and was ended: trying again would not help."""


class Completed(NamedTuple):
    """What a finished git process left: raw stdout, decoded stderr, exit status."""

    stdout: bytes
    stderr: str
    exit_code: int


class Repo(NamedTuple):
    """A git working tree. All paths are absolute and resolved; `git_dir` is a linked worktree's own,
    `common_dir` is shared by all of them."""

    toplevel: Path
    git_dir: Path
    common_dir: Path


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a git process: ours without any GIT_*, no prompts, locks or transports, in English."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**env, **_FIXED_ENVIRONMENT, **(extra or {})}


def command(*args: str) -> list[str]:
    """The argument vector for `git <args>` with the hardening switched on."""
    name, *rest = args
    guards = ["--no-ext-diff", "--no-textconv"] if name in _DIFFING else []
    return ["git", *_FIXED_ARGS, name, *guards, *rest]


class Git(NamedTuple):
    """git in one directory (`tree`)."""

    tree: Path

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        pass_fds: Sequence[int] = (),
    ) -> Completed:
        """Run `git <args>` to its end. `env` is added to the cleaned environment.

        Raises GitError when `check` and the exit status is not 0, and when git cannot be started; GitStuck
        when it would never have come to an end (see `git_watch`).
        """
        try:
            with _whole(stdin) as source:
                process = _spawn(
                    command(*args),
                    self.tree,
                    environment(env),
                    stderr=subprocess.PIPE,
                    stdin=source,
                    pass_fds=pass_fds,
                )
        except FileNotFoundError as error:
            raise _not_started(self.tree) from error
        with process, watch(process, self.tree) as call:
            stdout, said = process.communicate(stdin if source == subprocess.PIPE else None)
        if call.trouble:
            raise GitStuck(*call.trouble)
        stderr = said.decode("utf-8", "replace")
        if check and process.returncode != 0:
            raise _failed(args, stderr, process.returncode)
        return Completed(stdout, stderr, process.returncode)

    def text(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> str:
        """stdout of `run` as text without the last newline; bytes that are not UTF-8 become surrogates."""
        return os.fsdecode(self.run(*args, stdin=stdin, env=env, check=check).stdout).removesuffix("\n")

    def unfiltered(self) -> dict[str, str]:
        """What to add to the environment of a command that writes an index, so that it runs no filter.

        git reads files again whose time says nothing, through the filters that the repository names.
        """
        pattern = r"^filter\..*\.(clean|process|required)$"
        said = self.run("config", "-z", "--name-only", "--get-regexp", pattern, check=False)
        keys = set(os.fsdecode(said.stdout).split("\0")[:-1])
        env = {"GIT_CONFIG_COUNT": str(len(keys))}
        for number, key in enumerate(sorted(keys)):
            value = "false" if key.endswith(".required") else ""
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return env

    @contextmanager
    def blobs(self) -> Iterator[BlobReader]:
        """One `cat-file --batch` process to read many objects from, exact bytes, whatever their size."""
        process = _spawn(command("cat-file", "--batch"), self.tree, environment(), stderr=subprocess.DEVNULL)
        with process, watch(process, self.tree) as call:
            call.waits_for_us = True
            yield BlobReader(cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout), call)


class BlobReader(NamedTuple):
    """The two ends of a `cat-file --batch` process (see `Git.blobs`)."""

    requests: IO[bytes]
    answers: IO[bytes]
    call: Call

    def copy(self, oid: str, to: BinaryIO) -> None:
        """Write the object's bytes to `to`, a mebibyte at a time. Raises GitError when it is missing."""
        self.call.waits_for_us = False
        self.requests.write(oid.encode() + b"\n")
        self.requests.flush()
        header = self.answers.readline().split()
        self.call.waits_for_us = True
        if self.call.trouble:
            raise GitStuck(*self.call.trouble)
        if len(header) != 3:
            raise GitError(
                f"The object {oid} is missing from the repository.",
                f"Type: git fsck, or in a partial clone fetch it: git cat-file -e {oid}",
            )
        left = int(header[2])
        while left:
            chunk = self.answers.read(min(left, 1 << 20))
            if not chunk:
                raise GitError(f"git stopped while it read the object {oid}.", "Type: git fsck")
            to.write(chunk)
            left -= len(chunk)
        self.answers.read(1)  # the newline after every object


def discover(path: Path) -> Repo:
    """The working tree that `path` (a directory) lies in, by one `git rev-parse`.

    Raises UsageError when it lies in none, RequirementsError when git is missing or too old,
    GitError when git refuses (say, a repository of another owner) or the repository is damaged.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory.", "Name one that exists: cf -C DIR status")
    questions = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    args = ("rev-parse", "--path-format=absolute", *questions)
    done = Git(path).run(*args, check=False)
    lines = os.fsdecode(done.stdout).split("\n")[:-1]
    if done.exit_code == 0 and len(lines) > 3:  # a newline in a path: there is no -z here
        lines = [Git(path).text("rev-parse", "--path-format=absolute", question) for question in questions]
    if done.exit_code == 0 and len(lines) == 3:
        repo = Repo(*(Path(line).resolve() for line in lines))
        if path.resolve().is_relative_to(repo.toplevel) and _leads_to(repo.toplevel / ".git", repo.git_dir):
            return repo
    require_version()
    if misled := _misled(path):
        raise misled
    if "dubious ownership" in done.stderr:
        raise _failed(args, done.stderr, done.exit_code)
    if done.exit_code == 0 or "must be run in a work tree" in done.stderr:
        raise UsageError(
            f"{path} has no git working tree (bare repository or .git folder).", "Type: git worktree list"
        )
    if (folder := git_folder_above(path) or _only_ours_above(path)) is not None:
        raise _damaged(folder, args, done)
    raise UsageError(f"{path} is not in a git repository.", "Type: cf init --git-init")


@cache
def version() -> tuple[int, int]:
    """Major and minor version of the installed git. Raises RequirementsError when there is none."""
    said = Git(Path("/")).text("version")
    found = re.search(r"(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def require_version() -> None:
    """Raise RequirementsError when git is missing or older than MINIMUM_VERSION."""
    if version() < MINIMUM_VERSION:
        wanted, found = (".".join(map(str, v)) for v in (MINIMUM_VERSION, version()))
        raise RequirementsError(f"git {found} is too old.", f"Install git {wanted} or newer")


@contextmanager
def _whole(stdin: bytes) -> Iterator[int]:
    """Where git reads its input from: a file where one write would not do for a pipe.

    Were we killed between two writes, git would take half of a list for all of it.
    """
    if len(stdin) <= select.PIPE_BUF:
        yield subprocess.PIPE
        return
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        yield file.fileno()


def _spawn(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    stderr: int,
    stdin: int = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start git deaf to what a terminal or a service manager sends to the whole process group.

    Such a signal is for us, and what we do about it needs git: a snapshot killed half-way saves nothing.
    The child inherits the mask, so there is no moment in which the signal could reach it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=pass_fds,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leads_to(place: Path, git_dir: Path) -> bool:
    """Whether a tree's `.git`, a folder or a file that names one, is `git_dir`."""
    with contextlib.suppress(OSError):
        if place.is_file():
            named = os.fsdecode(read_regular(place, 10_000)).removeprefix("gitdir:").strip()
            place = place.parent / named
        return place.resolve() == git_dir
    return False


def settings_of(config: Path) -> list[str]:
    """The beginning of a `git config` on the file `config`, to be typed anywhere: what it says may keep git from
    starting in its own tree."""
    return ["git", "-C", "/", "config", "--file", str(config)]


def _misled(path: Path) -> UsageError | None:
    """For a repository around `path` whose own settings say that its tree is elsewhere, or that it has none."""
    folder = git_folder_above(path)
    if folder is None or not folder.is_dir():
        return None
    asked = ("config", "--file", str(folder / "config"), "-z", "--get-regexp", r"^core\.(bare|worktree)$")
    said = os.fsdecode(Git(Path("/")).run(*asked, check=False).stdout)
    settings = dict(entry.partition("\n")[::2] for entry in said.split("\0")[:-1])
    typed = shlex.join(settings_of(folder / "config"))
    if "core.worktree" in settings:
        problem = f"says core.worktree = {settings['core.worktree']}, so git does not look at {folder.parent}"
        back = f"{typed} --unset-all core.worktree"
    elif settings.get("core.bare", "false") not in ("false", "no", "off", "0"):
        problem = f"says core.bare, so git does not take {folder.parent} for a working tree"
        back = f"{typed} --replace-all core.bare false"
    else:
        return None
    return UsageError(f"{folder / 'config'} {problem}.", f"If it is one, type: {back}")


def _only_ours_above(path: Path) -> Path | None:
    """A `.git` of which only what CodeFrame keeps in it is left: git passes by it."""
    path = path.resolve()
    return next((f / ".git" for f in (path, *path.parents) if (f / ".git" / "codeframe").is_dir()), None)


def _damaged(folder: Path, args: Sequence[str], done: Completed) -> GitError:
    """For a `.git` that is there and that git does not take for one. Never says to make a new one over it."""
    place = shlex.quote(str(folder))
    failed = _failed(args, done.stderr, done.exit_code)
    hint = f"See what it is: ls -la {place}"
    if folder.is_dir():
        missing = [part for part in ("objects", "refs", "HEAD") if not (folder / part).exists()]
        if not missing:
            hint = f"Mend what git names; then type: git -C {shlex.quote(str(folder.parent))} fsck"
        elif missing == ["refs"]:
            hint = f"Type: mkdir {place}/refs, then: git -C {shlex.quote(str(folder.parent))} fsck"
        elif missing == ["HEAD"]:
            hint = f"Name the branch it was on: echo ref: refs/heads/NAME > {place}/HEAD"
        else:
            hint = f"Bring back {' and '.join(missing)} in {place} from a copy"
            if len(missing) == 3:  # nothing that a new one could overwrite
                hint += f"; if there is none, begin anew: git init {shlex.quote(str(folder.parent))}"
    said = failed.problem.partition(" failed: ")[2].rstrip(".")
    return GitError(
        f"The git repository {folder} is damaged: {said}.", hint, stderr=done.stderr, git_exit=done.exit_code
    )


def _not_started(tree: Path) -> CodeFrameError:
    """Popen raises the same error for a missing program and for a missing working directory."""
    if not tree.is_dir():
        return UsageError(f"{tree} is not a directory.", "Name one that exists: cf -C DIR status")
    wanted = ".".join(map(str, MINIMUM_VERSION))
    return RequirementsError("git is not installed or not on PATH.", f"Install git {wanted} or newer")


def _failed(args: Sequence[str], stderr: str, exit_code: int) -> GitError:
    """One sentence from what git said; the first line that names the error, without its label."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = (
        [line for line in lines if line.startswith(("fatal:", "error:"))] or lines or ["it said nothing"]
    )
    said = telling[0].removeprefix("fatal: ").removeprefix("error: ").rstrip(".")
    hint = ""
    if owner := re.search(r"dubious ownership in repository at '(.*)'", stderr):
        said = f"{owner[1]} belongs to another user"
        hint = f"Type: git config --global --add safe.directory {owner[1]}"
    elif lock := re.search(r"Unable to create '(.*\.lock)': File exists", stderr):
        said = "another git process is at work in this repository, or one crashed"
        hint = f"Wait for it, or if none is running type: rm {lock[1]}"
    elif _LAZY.search(stderr):
        said = "an object is not in this partial clone, and CodeFrame fetches nothing by itself"
        oid = re.search(r"\b[0-9a-f]{40,64}\b", stderr)
        hint = f"Fetch it: git cat-file -e {oid[0]}" if oid else "Fetch what is missing: git fetch --refetch"
    elif _BROKEN.search(stderr):
        hint = "Type: git fsck"
    elif full := re.search(r"No space left on device|Disk quota exceeded", stderr):
        said = said if full[0] in said else f"{said}: {full[0]}"
        hint = "Make room on the disk of the repository, then try again: df -h ."
    elif "not a git repository" in stderr:
        hint = "It was taken away or damaged; type: cf doctor"
    return GitError(f"git {args[0]} failed: {said}.", hint, stderr=stderr, git_exit=exit_code)
