"""Read JSON of which nothing is known: each function gives its type, empty where the value is of another."""

from __future__ import annotations

import json
from typing import Any

from jiter import from_json

_TOO_LARGE = 2**53


def object_in(text: str) -> dict[str, Any] | None:
    """The object in one line of JSON; None for anything else, however nested or malformed.

    Read by jiter (the parser of the anthropic and pydantic packages), in half the time of `json`; what it
    refuses and `json` takes, lone surrogates and deep nesting, is for the latter.
    """
    if text[:1] != "{" and text[:1].strip():  # all there is to know of nearly every other line
        return None
    try:
        obj = from_json(text.encode())
    except ValueError:
        try:
            obj = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return obj if isinstance(obj, dict) else None


def text_of(value: object) -> str:
    """A string that UTF-8 can hold; "" for anything else. (JSON escapes can make lone surrogates.)"""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def number_of(value: object) -> float:
    """A finite number, not negative and small enough to be counted with; 0 for anything else."""
    if type(value) is int or type(value) is float:  # no bool, which is an int too
        return value if 0 <= value < _TOO_LARGE else 0  # NaN and the infinities are not in between
    return 0


def dict_of(value: object) -> dict[str, Any]:
    """An object; {} for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """A list; [] for anything else."""
    return value if isinstance(value, list) else []


def dicts_in(value: object) -> list[dict[str, Any]]:
    """The objects in a list; [] for anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
