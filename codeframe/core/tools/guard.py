"""Which shell commands are refused (rule 9.3): a guard against accidents, not a sandbox.

A shell can always be tricked, so nothing here makes it safe to run what is malicious. What is caught is what
a model types in good faith and a person would regret. Refused are:

- `sudo`, `doas`, `su`, `pkexec`; shutting down the machine; `pkill`, `killall`, `kill` of pid -1;
- `mkfs` and other tools that write file systems, `dd` to a device, redirection to a device, fork bombs;
- `rm -r`, `find -delete`, `shred`, `mv`, recursive `chmod` and `chown` on the workspace itself, on anything
  it lies in (`/`), on the home folder, and anything like it below `.git`, writing over git's files there included;
- git: `push`; `reset --hard`; `clean -f`; `checkout`, `restore` and `rm` of everything, `checkout -f` and `-B`,
  `switch -f` and `-C`; `stash` except to look; `branch -D` and `-f`, `update-ref`, `reflog expire`,
  `filter-branch`, `worktree remove`, `gc --prune`, `prune`: people's uncommitted work may be in the
  tree, and the only copy of a run's in a ref.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

_OPERATORS = "();<>|&\n`"
_HEREDOC = re.compile(
    r"(?<!<)<<(?!<)-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1[^\n]{0,500}\n(?P<body>.*?)(?:^[ \t]*\2[ \t]*$|\Z)",
    re.S | re.M,
)
_FORK_BOMB = re.compile(r"(?<![\w:])(\w{1,40}|:)\s*\(\)\s*\{[^}]*\1\s*\|\s*\1\s*&")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_DEVICE = re.compile(r"/dev/(?!(null|zero|full|u?random|tty|stdin|stdout|stderr)$|(fd|shm)(/|$))")
_MOVED = {"$HOME": "~", "${HOME}": "~", "$PWD": ".", "${PWD}": "."}

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_ELEVATED = frozenset({"sudo", "doas", "su", "pkexec"})
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_BROAD = frozenset({"pkill", "killall"})
_FORMATTING = frozenset({"fdisk", "sfdisk", "parted", "wipefs", "mkswap", "diskutil"})
# Programs that start another one, and the letters of their options that take the next word.
_STARTERS: Mapping[str, str] = {
    "env": "uC", "command": "", "exec": "a", "builtin": "", "nohup": "", "time": "fo", "nice": "n",
    "ionice": "cnp", "setsid": "", "stdbuf": "ioe", "xargs": "adEILnPs", "timeout": "ks",
    "if": "", "while": "", "until": "", "then": "", "do": "", "else": "", "!": "", "{": "",
}  # fmt: skip
_OWN_WORDS = {"timeout": 1}  # before the command, options apart
_WRITTEN_BY_PEOPLE = ("hooks", "info")  # below .git
_MAX_DEPTH = 4


def refusal(command: str, workspace: str, home: str | None = None) -> str | None:
    """Why the shell command is refused, as a sentence for the model; None when it may run.

    `workspace` is absolute and where the command starts; `home` is the person's, by default this process's.
    """
    if _FORK_BOMB.search(command):
        return "That is a fork bomb."
    # A `cd` may fail, or be in a subshell: what comes after it may run there or where it was before.
    places = [_Places(os.path.realpath(workspace), os.path.realpath(home or os.path.expanduser("~")))]
    before: list[str] = []
    for argv in _simple_commands(command):
        for place in places:
            if why := _judge(argv, place) or _fed(before, argv, place):
                return why
        if argv[0] in ("cd", "pushd"):
            places.append(places[-1].after_cd(argv[1:]))
        before = argv
    return None


def _fed(before: Sequence[str], argv: Sequence[str], places: _Places) -> str | None:
    """The same for `rm` by xargs, of what the command `before` lists."""
    if argv[0] != "xargs" or argv[1:2] != ["rm"] or not before:
        return None
    name, words = PurePosixPath(before[0]).name, list(before[1:])
    if name == "find":
        return _find([*words, "-delete"], places)
    everything = name == "git" and _after_git_options(words) == ["ls-files"]
    if everything or (name == "ls" and any(map(places.precious, _operands(words) or ["."]))):
        return f"xargs rm would remove all that {name} lists."
    return None


def _judge(argv: Sequence[str], places: _Places) -> str | None:
    name, words = PurePosixPath(argv[0]).name, list(argv[1:])
    if name in _ELEVATED:
        return f"{name}: commands run with the rights they have, no others."
    if name in _POWER or (name == "systemctl" and _POWER.intersection(words)):
        return f"{name} would stop the machine."
    if name in _BROAD or (name == "kill" and "-1" in words[1:]):
        return f"{name} ends processes of other people too; end what you started by its own id (kill $!)."
    if name.startswith("mkfs") or name in _FORMATTING:
        return f"{name} writes to file systems."
    if name == "dd" and any(
        _DEVICE.match(word.removeprefix("of=")) for word in words if word.startswith("of=")
    ):
        return "dd would write to a device."
    if name == ">" and words and _DEVICE.match(words[0]):
        return f"That would write to the device {words[0]}."
    if name in _WRITES and any(places.is_gits(path) for path in _WRITES[name](words)):
        return f"{name} would write over git's own files."
    judge = _BY_NAME.get(name)
    return judge(words, places) if judge else None


class _Places:
    """What must not be taken away as a whole."""

    def __init__(self, workspace: str, home: str, here: str | None = None) -> None:
        self.workspace = workspace
        self._home = home
        self._here = here or workspace

    def after_cd(self, words: Sequence[str]) -> _Places:
        """The same, typed after a `cd`."""
        path = self._path((_operands(words) or ["~"])[0])
        return self if "$" in path else _Places(self.workspace, self._home, path)

    def is_gits(self, word: str) -> bool:
        """Whether `word` is a file of git's that people do not write."""
        _, git, below = self._path(word).partition("/.git/")
        return bool(git) and below.split("/")[0] not in _WRITTEN_BY_PEOPLE

    def _path(self, word: str) -> str:
        for written, meant in _MOVED.items():
            word = word.replace(written, meant)
        if word == "~" or word.startswith("~/"):
            word = self._home + word[1:]
        return os.path.normpath(os.path.join(self._here, word))

    def precious(self, word: str) -> str | None:
        """What `word`, a path as typed in a command that starts in the workspace, would hit; None: nothing."""
        # A trailing `*` takes all there is in the folder.
        while (short := re.sub(r"(^|/)(\.?\*+|\.\[!?.*\]\*|\{[^}]*\})$", r"\1", word)) != word:
            word = short
        path = self._path(word)
        if ".git" in path.lower().split("/"):
            return "git's own files"
        if path == self.workspace:
            return "the workspace itself"
        if self._holds(path, self._home):
            return "the home folder"
        if self._holds(path, self.workspace):
            return "the folder the workspace lies in"
        return None

    @staticmethod
    def _holds(path: str, other: str) -> bool:
        return (other + "/").startswith(path.rstrip("/") + "/")


def _rm(words: list[str], places: _Places) -> str | None:
    paths = _operands(words)
    recursive = _has(words, "rR", "--recursive")
    for path in paths:
        what = places.precious(path)
        if what and (recursive or what == "git's own files"):
            return f"rm {path} would remove {what}."
    return None


def _recursive_change(words: list[str], places: _Places) -> str | None:
    if _has(words, "R", "--recursive"):
        for path in _operands(words)[1:]:
            if (what := places.precious(path)) and what != "the workspace itself":
                return f"That would change {what}, all of it."
    return None


def _mv(words: list[str], places: _Places) -> str | None:
    for path in _operands(words)[:-1]:
        if what := places.precious(path):
            return f"mv {path} would take away {what}."
    return None


def _shred(words: list[str], places: _Places) -> str | None:
    for path in _operands(words):
        if _DEVICE.match(path) or places.precious(path):
            return f"shred {path} would destroy what cannot be had again."
    return None


def _find(words: list[str], places: _Places) -> str | None:
    removes = "-delete" in words or any(
        PurePosixPath(after).name == "rm"
        for before, after in itertools.pairwise(words)
        if before in ("-exec", "-execdir", "-ok")
    )
    named = itertools.pairwise(words)
    if not removes or any(
        re.match(r"-i?(name|path|wholename|regex)$", test) and value not in ("*", ".*")
        for test, value in named
    ):
        return None
    tests = next((n for n, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
    for path in words[:tests] or ["."]:
        if what := places.precious(path):
            return f"find would remove {what}."
    return None


def _git(words: list[str], places: _Places) -> str | None:
    words = _after_git_options(words)
    if not words:
        return None
    name, rest = words[0], words[1:]
    paths = _operands(rest)
    if name == "push":
        return "git push: publishing is done after the checks, not by you."
    throwing = {"reset": ("--hard", "--merge"), "read-tree": ("--reset",)}.get(name, ())
    if option := next((each for each in throwing if _has(rest, "", each)), None):
        return f"git {name} {option} throws away uncommitted work, people's too; edit the files back instead."
    if name == "clean" and _has(rest, "f", "--force") and not _has(rest, "n", "--dry-run"):
        return "git clean -f removes files nobody can bring back; remove single files with rm."
    if (name == "checkout" and _has(rest, "B", "")) or (
        name == "switch" and _has(rest, "C", "--force-create")
    ):
        return f"git {name} of a branch that is there moves it and may lose commits; take a new name."
    if name in ("checkout", "switch") and (_has(rest, "f", "--force") or _has(rest, "", "--discard-changes")):
        return f"git {name} -f throws away uncommitted work, people's too."
    only_index = name == "restore" and "--staged" in rest and "--worktree" not in rest
    if name in ("checkout", "restore") and not only_index and any(_everything(p, places) for p in paths):
        return f"git {name} of everything throws away uncommitted work, people's too; name single files."
    if name == "rm" and not _has(rest, "", "--cached") and any(_everything(p, places) for p in paths):
        return "git rm of everything takes away people's files; name single files."
    if name == "stash" and (rest[:1] or ["push"])[0] not in ("list", "show", "create", "apply"):
        return "git stash takes away uncommitted work, people's too."
    if name == "branch" and (_has(rest, "DfM", "--delete") or _has(rest, "", "--force")):
        return "git branch -D and -f may lose commits."
    if name in ("update-ref", "filter-branch", "filter-repo", "prune"):
        return f"git {name} may lose commits."
    if (name == "reflog" and rest[:1] in (["expire"], ["delete"])) or (
        name == "gc" and any(word.startswith("--prune") for word in rest)
    ):
        return f"git {name} would lose what only the log of refs still holds."
    if name == "worktree" and rest[:1] in (["remove"], ["prune"]):
        return "git worktree remove takes away a working tree with what is in it."
    return None


def _everything(path: str, places: _Places) -> bool:
    within = re.sub(r"^:(/|\([^)]*\))?", "", path)
    return within in ("", "*") or places.precious(within) is not None


def _after_git_options(words: list[str]) -> list[str]:
    """The words from the subcommand on."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    return words[at:]


_BY_NAME: Mapping[str, Callable[[list[str], _Places], str | None]] = {
    "rm": _rm,
    "rmdir": _rm,
    "unlink": _rm,
    "mv": _mv,
    "shred": _shred,
    "chmod": _recursive_change,
    "chown": _recursive_change,
    "chgrp": _recursive_change,
    "find": _find,
    "git": _git,
}


def _has(words: Sequence[str], letters: str, long: str) -> bool:
    """Whether an option is among the words: one of `letters` in a short cluster, or `long`."""
    return any(
        (len(word) > 3 and long.startswith(word))
        or (re.fullmatch(r"-[A-Za-z]+", word) and set(letters) & set(word[1:]))
        for word in words
    )


def _operands(words: Sequence[str]) -> list[str]:
    return [word for word in words if word == "-" or not word.startswith("-")]


# Where a program writes to: what it would write over.
_WRITES: Mapping[str, Callable[[list[str]], list[str]]] = {
    ">": _operands,
    "tee": _operands,
    "truncate": _operands,
    "cp": lambda words: _operands(words)[1:][-1:],
    "ln": lambda words: _operands(words)[1:][-1:],
    "dd": lambda words: [word[3:] for word in words if word.startswith("of=")],
}


# -- taking a command line apart --------------------------------------------------------------------


def _simple_commands(command: str, depth: int = 0) -> Iterator[list[str]]:
    """Every simple command in a command line, those inside `sh -c`, `$(...)` and here-documents for a shell
    too; a redirection appears as [">", target]."""
    for match in _HEREDOC.finditer(command):
        # Its text is data, unless it is a shell that reads it.
        starter = command[: match.start()].rsplit("\n", 1)[-1].split()
        if starter and PurePosixPath(starter[0]).name in _SHELLS and depth < _MAX_DEPTH:
            yield from _simple_commands(match["body"], depth + 1)
    command = _HEREDOC.sub("\n", command).replace("\\\n", " ")
    argv: list[str] = []
    redirection = ""
    for token in _tokens(command):
        if token and not token.strip(_OPERATORS):
            redirection = token if token[-1] in "<>" or token in (">&", ">|", "<&") else ""
            if not redirection and argv:
                yield from _unwrapped(argv, depth)
                argv = []
        elif redirection:
            if ">" in redirection:
                yield [">", token]
            redirection = ""
        else:
            argv.append(token)
    if argv:
        yield from _unwrapped(argv, depth)


def _tokens(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        return list(lexer)
    except ValueError:  # an open quote: the words as they stand
        return re.findall(r"[();<>|&\n`]+|[^\s();<>|&`]+", command.replace("'", " ").replace('"', " "))


def _unwrapped(argv: list[str], depth: int) -> Iterator[list[str]]:
    """The command itself, without variables set for it and programs that only start it."""
    argv = argv[:]
    while argv:
        if _ASSIGNMENT.match(argv[0]):
            argv.pop(0)
            continue
        name = PurePosixPath(argv[0]).name
        if name not in _STARTERS:
            break
        argv.pop(0)
        while argv and argv[0].startswith("-"):
            option = argv.pop(0)
            if len(option) == 2 and option[1] in _STARTERS[name] and argv:
                argv.pop(0)
        del argv[: _OWN_WORDS.get(name, 0)]
        if name == "xargs" and argv:
            yield ["xargs", PurePosixPath(argv[0]).name, *argv[1:]]
    if not argv:
        return
    yield argv
    if depth >= _MAX_DEPTH:
        return
    name = PurePosixPath(argv[0]).name
    if name == "eval":
        yield from _simple_commands(" ".join(argv[1:]), depth + 1)
    elif name in _SHELLS:
        at = next((n for n, word in enumerate(argv) if re.fullmatch(r"-[a-z]*c", word)), None)
        if at is not None and at + 1 < len(argv):
            yield from _simple_commands(argv[at + 1], depth + 1)
    for word in argv[1:]:
        if "$(" in word or "`" in word:  # inside double quotes, where the lexer leaves it whole
            for inner in re.findall(r"\$\(([^()]*)\)|`([^`]*)`", word):
                yield from _simple_commands("".join(inner), depth + 1)
