"""How to start an engine: what the `build` of an adapter returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from codeframe.core.process import OpenStdin


class Launch(NamedTuple):
    """One engine process to be.

    `stdin` is sent, then closed; one that stays open is written to by `parse`; None is /dev/null. `session_id`
    is the session as far as it is known before the start. `notices` are told to the person. `farewell` says into an
    open stdin that the engine has to stop, before a signal does.
    """

    argv: tuple[str, ...]
    stdin: bytes | OpenStdin | None = None
    env_add: Mapping[str, str] = {}
    env_drop: frozenset[str] = frozenset()
    session_id: str | None = None
    notices: tuple[str, ...] = ()
    farewell: Callable[[], None] | None = None
