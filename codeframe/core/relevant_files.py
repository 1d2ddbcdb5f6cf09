"""Which files of a repository a task is likely about: a plain keyword ranking, no index, no model."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from codeframe.core.git import Git
from codeframe.core.safe_read import Refusal, Unreadable, read_text_inside
from codeframe.core.secret_files import looks_secret

MAX_FILE_BYTES = 256 * 1024
# What bounds the time on a big repository: names are looked at for all files, contents for these many.
MAX_FILES_READ = 2000
MAX_BYTES_READ = 16 * 1024 * 1024
MAX_KEYWORDS = 40
MAX_TASK_CHARS = 20_000  # a task says early what it is about
FINALISTS = 100  # files whose words and definitions are looked at one by one

# Made by tools, and full of everybody's words.
GENERATED = r"(^|/)(package-lock\.json|[\w.-]+\.lock|[\w.-]+-lock\.yaml|go\.sum)$|\.(min\.\w+|map|svg)$"
_STOP_WORDS = """\
about above add after all also and any are because been before being below both but can cannot
change could create did does done down each else every fix for from get give has have
here how implement into its just like make may might more most must need new not now
off only onto other our out over own please should some such support sure than that the
their them then there these they this those through under until update use used using
via want was well were what when where whether which while who why will with without
work would yet you your"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
DEFINITION = (
    r"(?m)^[ \t]*(?:(?:export|default|pub|public|private|protected|static|abstract|final|async|unsafe) +)*"
    r"(?:def|class|function|func|fn|struct|interface|trait|enum|type|module|const|let|var)[ \t]+"
    r"(?:\([^)\n]*\)[ \t]*)?([A-Za-z_$][\w$]*)"
)
TEST_STEM = r"^(?:test_(.+)|(.+?)(?:_test|_spec|\.test|\.spec|Tests?|Spec))$"


class RelevantFile(NamedTuple):
    """A file by its path relative to the workspace; `text` is None when it is binary or too long."""

    path: str
    text: str | None


class Ranking(NamedTuple):
    """Relevant files, best first; and paths left out because they look secret, or hold a secret."""

    files: tuple[RelevantFile, ...] = ()
    secret: tuple[str, ...] = ()


def rank_files(
    repository: Path,
    root: Path,
    title: str,
    description: str,
    *,
    holds_secret: Callable[[str], bool],
    exclude: Collection[str] = (),
    limit: int = 20,
) -> Ranking:
    """Rank the files under `root` (a folder of `repository`), at most `limit`, for a task's words.

    Candidates are what git tracks there and what it does not ignore. A path named in the task wins;
    else words count in the path, in the text and most in the names a file defines, rare words more than
    common ones (BM25). The tests of a source file come right behind it. Symlinks are left out, secret
    files are not read.
    """
    paths = [path for path in list_files(root) if path not in exclude]
    return _Ranker(repository, root, title, description).rank(paths, limit, holds_secret)


def list_files(root: Path) -> list[str]:
    """Paths below `root`, relative to it: tracked files and untracked ones that are not ignored."""
    listed = Git(root).text("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    return [
        path for path in listed.split("\0") if path and path.isprintable() and not re.search(GENERATED, path)
    ]


def words(text: str) -> list[str]:
    """The words of prose, paths and code: `userLogins`, `user_login`, `User login` give user, login."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    found = (word.lower() for word in re.findall(r"[^\W\d_]{3,}", split))
    stems = (word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word for word in found)
    return [word for word in stems if word not in STOP_WORDS]


class _Ranker:
    """The ranking of the files below `root` for the words of one task."""

    def __init__(self, repository: Path, root: Path, title: str, description: str) -> None:
        self.repository, self.root = repository, root
        description = description[:MAX_TASK_CHARS]
        task = f"{title}\n{description}"
        counted = Counter(words(title) * 3 + words(description))
        self.keywords = [word for word, _ in counted.most_common(MAX_KEYWORDS)]
        self.identifiers = {
            name for name in re.findall(r"[A-Za-z_]\w+", task) if re.search(r"_|[a-z][A-Z]", name)
        }
        quoted = re.findall(r"[`'\"]([^`'\"\n]+)[`'\"]", task)
        tokens = {t.removeprefix("./").rstrip(".-/") for t in [*re.findall(r"[\w./@+-]+", task), *quoted]}
        # A bare word such as `run` may be a file's name by accident; one with a dot, slash or capital is not.
        self.named = {token for token in tokens if re.search(r"[./]|^[A-Z]", token)}
        self.named_files = {token.rpartition("/")[2] for token in self.named}

    def rank(self, paths: Sequence[str], limit: int, holds_secret: Callable[[str], bool]) -> Ranking:
        by_name = self._by_name(paths)
        ordered = sorted(paths, key=lambda path: (-self._named(path), -by_name[path], path))
        secret = [path for path in ordered if looks_secret(path)]
        hidden = set(secret)
        readable = [path for path in ordered if path not in hidden]
        scores, files = self._by_content(readable, by_name), list[RelevantFile]()
        enough = max(scores.values(), default=0) / 10  # less is a word in passing
        best = [path for path, score in scores.items() if self._named(path) or score > enough]
        best.sort(key=self._named, reverse=True)
        for path in _with_tests(best, readable):
            if len(files) == limit:
                break
            try:
                text = self._read(path)
            except Unreadable:
                continue
            if text is not None and holds_secret(text):
                secret.append(path)
            else:
                files.append(RelevantFile(path, text))
        return Ranking(tuple(files), tuple(secret))

    def _named(self, path: str) -> int:
        """2 for a path the task names outright, 1 for one it names without the folder, else 0."""
        return 2 if path in self.named else 1 if path.rpartition("/")[2] in self.named_files else 0

    def _by_name(self, paths: Sequence[str]) -> dict[str, float]:
        """Scores by the words in each path, three times what a word in a text counts."""
        found = {path: set(words(path)).intersection(self.keywords) for path in paths}
        rarity = _rarity(found.values(), self.keywords)
        return {path: 3 * sum(rarity[word] for word in found[path]) for path in paths}

    def _by_content(self, paths: Sequence[str], by_name: Mapping[str, float]) -> dict[str, float]:
        """Scores by name and content of the likeliest files, best first. `paths` are read in their order."""
        present: dict[str, set[str]] = {}
        budget = MAX_BYTES_READ
        for path in paths[:MAX_FILES_READ]:
            try:
                text = (self._read(path) or "").lower()
            except Unreadable:
                continue
            present[path] = {word for word in self.keywords if word in text}
            budget -= len(text)
            if budget < 0:
                break
        rarity = _rarity(present.values(), self.keywords)
        rough = {path: by_name[path] + sum(rarity[w] for w in found) for path, found in present.items()}
        finalists = sorted(rough, key=lambda path: (-self._named(path), -rough[path], path))[:FINALISTS]

        texts = {path: self._read(path) or "" for path in finalists}
        usual_length = sum(map(len, texts.values())) / (len(texts) or 1)
        scores = {
            path: by_name[path] + self._by_words(text, rarity, len(text) / (usual_length or 1))
            for path, text in texts.items()
        }
        return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))

    def _by_words(self, text: str, rarity: Mapping[str, float], relative_length: float) -> float:
        """BM25 (k1 = 1.2, b = 0.75) over the words of a file, and twice over those of what it defines."""
        counts = Counter(words(text))
        damping = 1.2 * (0.25 + 0.75 * relative_length)
        score = sum(rarity[w] * 2.2 * counts[w] / (counts[w] + damping) for w in self.keywords)
        defined = set(re.findall(DEFINITION, text))
        score += 2 * sum(rarity[w] for w in set(words(" ".join(defined))).intersection(self.keywords))
        return score + 20 * len(defined & self.identifiers)

    def _read(self, path: str) -> str | None:
        """The text of a file; None when it is binary or too long; raises Unreadable for anything else."""
        full = f"{self.root}/{path}"  # no Path: this runs for thousands of files
        if os.path.islink(full):
            raise Unreadable(Refusal.IRREGULAR)  # what it points to inside is a candidate itself
        try:
            return read_text_inside(self.repository, full, MAX_FILE_BYTES)
        except Unreadable as error:
            if error.refusal in (Refusal.BINARY, Refusal.TOO_LONG):
                return None
            raise


def _rarity(found: Collection[Collection[str]], keywords: Iterable[str]) -> dict[str, float]:
    """How much a word tells: the fewer of the files it is found in, the more (inverse document frequency)."""
    frequency = Counter(word for words_ in found for word in words_)
    return {w: math.log(1 + (len(found) - frequency[w] + 0.5) / (frequency[w] + 0.5)) for w in keywords}


def _with_tests(best: Iterable[str], paths: Iterable[str]) -> Iterator[str]:
    """The best files in order, each followed by its tests: `src/cart.py` by `tests/test_cart.py`."""
    tests: dict[str, list[str]] = {}
    for path in paths:
        if match := re.match(TEST_STEM, PurePosixPath(path).stem):
            tests.setdefault((match[1] or match[2]).lower(), []).append(path)
    seen = set()
    for path in best:
        for each in (path, *tests.get(PurePosixPath(path).stem.lower(), ())[:2]):
            if each not in seen:
                seen.add(each)
                yield each
