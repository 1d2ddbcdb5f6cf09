"""What a person typed, checked: text and standard input, titles, numbers, states, names of engines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from codeframe.core.errors import UsageError

MAX_TEXT_BYTES = 2_000_000
MAX_TITLE = 500
_TOO_LONG = f"at most {MAX_TEXT_BYTES // 1_000_000} MB are taken"


def text(value: str, what: str) -> str:
    """`value`, or standard input when it is `-`. UsageError when it is too long or not UTF-8."""
    if value == "-":
        return _decoded(sys.stdin.buffer.read(MAX_TEXT_BYTES + 1), "Standard input")
    return utf8(value, what)


def utf8(value: str, what: str) -> str:
    """`value`. UsageError when it was not UTF-8 (Python hands on such bytes as surrogates)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"The {what} is not UTF-8 text.", "Type it in a terminal that is set to UTF-8."
        ) from None
    return value


def title(value: str, shorter: str = "Say it shorter, and the rest in the description.") -> str:
    """A title: `text` as one line, at most MAX_TITLE characters; `shorter` is the hint where it has more."""
    line = " ".join(text(value, "title").split())
    if len(line) > MAX_TITLE:
        raise UsageError(
            f"A title has at most {MAX_TITLE} characters; this one has {len(line)}.",
            shorter,
        )
    return line


def file_text(file: str) -> str:
    """The text of a file, or of standard input for `-`. UsageError when it cannot be read as such."""
    if file == "-":
        return text(file, "")
    path = Path(file)
    if not path.is_file():
        there = "is not a file" if path.exists() else "does not exist"
        raise UsageError(f"{file} {there}.", "Name a text file, or - for standard input.")
    from codeframe.core.safe_read import open_regular

    try:
        with open_regular(path) as stream:
            return _decoded(stream.read(MAX_TEXT_BYTES + 1), file)
    except OSError as e:
        raise UsageError(f"{file} cannot be read: {e.strerror}.", f"Look at it: ls -l {file}") from None


def whole_number(option: str, least: int, most: int | None = None) -> Callable[[str | int], int]:
    """A parser for an option that takes a whole number in a range."""

    def parse(value: str | int) -> int:
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number > 2**31 or number < least or (most is not None and number > most):
            numbers = f"from {least} to {most}" if most is not None else f"not below {least}"
            raise UsageError(
                f"{option} takes a whole number {numbers}, not “{value}”.", f"Type: {option} {max(least, 1)}"
            )
        return number

    return parse


def amount(option: str, value: str) -> float:
    """An amount of money above 0. UsageError for anything else."""
    try:
        number = float(value.removeprefix("$"))
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise UsageError(f"{option} takes an amount above 0, not “{value}”.", f"Type: {option} 2.50")
    return number


def since(option: str, value: str) -> datetime:
    """The moment (UTC) that lies a duration back (30d, 12h), or with which a day begins here (2026-11-30). UsageError
    for anything else."""
    from codeframe.core.durations import parse_duration
    from codeframe.core.models import utc_now

    text = value.strip().lower()
    try:
        if text.endswith("d") and text[:-1].isdecimal():
            return utc_now() - timedelta(days=int(text[:-1]))
        if "-" in text:
            return datetime.fromisoformat(text).astimezone(UTC)
        return utc_now() - timedelta(seconds=parse_duration(text))
    except (UsageError, ValueError, OverflowError):
        raise UsageError(
            f"{option} takes a time like 30d or 12h, or a day like 2026-11-30, not “{value}”.",
            f"Type: {option} 30d",
        ) from None


def names(option: str, value: str) -> list[str]:
    """Names parted by commas; none for "", which is how a configured list is switched off. UsageError where one is
    empty."""
    found = [name.strip() for name in value.split(",")] if value.strip() else []
    if not all(found):
        raise UsageError(
            f"{option} takes names parted by commas, not “{value}”.", f"Type: {option} one,another"
        )
    return found


def one_of(what: str, value: str | None, allowed: tuple[str, ...]) -> None:
    """UsageError when a value was given and is not one of `allowed`."""
    if value is not None and value not in allowed:
        words = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise UsageError(f"{what} is {words}, not “{value}”.", f"Type: {what} {allowed[0]}")


def engine_name(name: str) -> str:
    """The name of an engine that is there. UsageError with the nearest one when it is not."""
    from codeframe.cli.here import engines_here

    try:
        engines_here().adapter_class(name)
    except ValueError as e:
        raise UsageError(str(e), "Type: cf engines list") from None
    return name


def _decoded(data: bytes, what: str) -> str:
    if len(data) > MAX_TEXT_BYTES:
        raise UsageError(f"{what} is too long: {_TOO_LONG}.", "Give the essential part of it.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        raise UsageError(
            f"{what} is not UTF-8 text (byte {e.start}).", "Convert it first, for example with iconv."
        ) from None
