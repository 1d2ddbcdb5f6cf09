"""Reads pytest's JUnit XML (xunit1) as a stream, in bounded memory, from a file that may be hostile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from codeframe.core.gates.model import Failure
from codeframe.core.gates.text import DETAIL_BYTES, clean, clip, normalise, one_line
from codeframe.core.safe_read import open_regular

# All details of one report together; the rest keep their title and a line. Bounds the cache as well.
TOTAL_DETAIL_BYTES = 8 * 1024 * 1024
_EDGE = 64 * 1024  # characters kept from each end of one text while it streams in
_CHUNK = 64 * 1024
_PLACE = re.compile(r"^([^\s:][^\n:]*):(\d+): ", re.MULTILINE)
_VERDICTS = frozenset({"failure", "error", "skipped"})


class ReportError(Exception):
    """The report is not one: missing, cut short, not XML, or with declarations pytest never writes."""


@dataclass
class TestReport:
    """What the tests of one run did, by test id as pytest prints it."""

    __test__ = False  # not a test class, whatever its name looks like

    passed: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    failures: tuple[Failure, ...] = ()


@dataclass
class _Verdict:
    """One <failure>, <error> or <skipped>: only the ends of its text are kept."""

    tag: str
    message: str
    head: list[str] = field(default_factory=list)
    size: int = 0
    tail: str = ""

    def add(self, data: str) -> None:
        room = _EDGE - self.size
        self.size += len(data)
        if room > 0:
            self.head.append(data[:room])
            data = data[room:]
        if data:
            self.tail = (self.tail + data)[-_EDGE:]

    @property
    def text(self) -> str:
        left_out = self.size - sum(map(len, self.head)) - len(self.tail)
        gap = f"\n[... {left_out} characters left out ...]\n" if left_out else ""
        return "".join(self.head) + gap + self.tail


@dataclass
class _Case:
    classname: str
    name: str
    file: str
    line: str
    verdicts: list[_Verdict] = field(default_factory=list)


def read_report(path: Path, is_file: Callable[[str], bool]) -> TestReport:
    """The report at `path`. `is_file` tells whether a path relative to pytest's rootdir is a file: a
    test inherited from a class in another file needs it. Raises ReportError."""
    passed: set[str] = set()
    skipped: set[str] = set()
    failures: list[Failure] = []
    budget = TOTAL_DETAIL_BYTES
    for case in _cases(path):
        test = node_id(case.classname, case.name, case.file, is_file)
        bad = [v for v in case.verdicts if v.tag != "skipped"]
        for verdict in bad:
            failure = _failure(test, case, verdict, DETAIL_BYTES if budget > 0 else 300)
            budget -= len(failure.detail)
            failures.append(failure)
        if not bad:
            (skipped if case.verdicts else passed).add(test)
    red = {failure.title for failure in failures}
    # One test may be reported twice (failed, then an error at teardown): the worst counts.
    return TestReport(frozenset(passed - red - skipped), frozenset(skipped - red), tuple(failures))


def node_id(classname: str, name: str, file: str, is_file: Callable[[str], bool]) -> str:
    """The id pytest prints, from the attributes it was mangled into.

    pytest joins file (without .py) and classes with dots into `classname`; `file` is where the
    function is *defined*, which for an inherited test is not the file it belongs to. Source:
    `mangle_test_address` in pytest's junitxml module.
    """
    if not classname:  # a collector: `name` is the mangled path, `file` the path
        return file or name
    dotted = file.removesuffix(".py").replace("/", ".")
    if file and (classname + ".").startswith(dotted + "."):
        return "::".join([file, *filter(None, classname[len(dotted) + 1 :].split(".")), name])
    parts = classname.split(".")
    for n in range(len(parts), 0, -1):
        candidate = "/".join(parts[:n]) + ".py"
        if is_file(candidate):
            return "::".join([candidate, *parts[n:], name])
    return "::".join([classname.replace(".", "/") + ".py", name])


def _failure(test: str, case: _Case, verdict: _Verdict, limit: int) -> Failure:
    text = clean(verdict.text).strip() or clean(verdict.message)
    key = test
    if verdict.message.startswith("collection failure"):
        # A whole file hides behind a collection error: another reason is another failure. A test,
        # in contrast, that was red at base is old however it fails now (rule 6.4).
        said = [line for line in text.splitlines() if line.startswith("E ")]
        key = f"{test} not collected: {normalise(' '.join(said) or text)[-500:]}"
    # Relative paths are the project's own; the last one is where it failed.
    places = [p for p in _PLACE.findall(text) if not p[0].startswith(("/", "<"))]
    if places:
        location = f"{places[-1][0]}:{places[-1][1]}"
    elif case.file and case.line.isdigit():
        location = f"{case.file}:{int(case.line) + 1}"  # xunit1 counts from 0
    else:
        location = case.file
    return Failure(key, test, clip(text, limit), one_line(location))


def _cases(path: Path) -> Iterable[_Case]:
    done: list[_Case] = []
    open_case: list[_Case] = []
    open_verdict: list[_Verdict] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        def get(name: str) -> str:
            return clean(attributes.get(name, "")[:_EDGE])

        if tag == "testcase":
            open_case.append(_Case(get("classname"), get("name"), get("file"), get("line")))
        elif tag in _VERDICTS and open_case and not open_verdict:
            open_verdict.append(_Verdict(tag, attributes.get("message", "")[:_EDGE]))

    def end(tag: str) -> None:
        if tag == "testcase" and open_case:
            done.append(open_case.pop())
        elif open_verdict and tag == open_verdict[-1].tag:
            open_case[-1].verdicts.append(open_verdict.pop())

    def data(text: str) -> None:
        if open_verdict:
            open_verdict[-1].add(text)

    def refuse(*_: object) -> None:
        raise ReportError("its report declares a document type, which pytest never writes")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = data
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        with open_regular(path) as stream:
            size = _CHUNK
            while chunk := stream.read(size):
                at = parser.CurrentByteIndex
                parser.Parse(chunk, False)
                # Some versions of expat scan an unfinished tag again for each chunk: a message (an
                # attribute) of 100 MB took minutes. With chunks that double it is scanned a few times.
                size = 2 * size if parser.CurrentByteIndex == at else _CHUNK
                yield from done
                done.clear()
        parser.Parse(b"", True)
    except OSError as error:
        raise ReportError("it wrote no report") from error
    except (expat.ExpatError, ValueError) as error:
        raise ReportError(f"its report cannot be read: {error}") from error
    yield from done
