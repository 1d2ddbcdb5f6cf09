"""What can be said of an engine here: without starting anything (`status_of`), and by asking it (`check`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from codeframe.core.agent_adapter import Capabilities, Unenforced
from codeframe.core.engine_registry import EngineRegistry
from codeframe.core.engine_versions import Versions, is_older, program_of

READY, NOT_INSTALLED, NOT_SET_UP = "ready", "not installed", "not set up"
_LOGIN = "logged in"


class EngineStatus(NamedTuple):
    """`program` is its binary on PATH, `version` that binary's ("": it does not say; None: there is none, or it was
    not asked), `missing` what it needs and lacks as far as that shows without a start."""

    name: str
    description: str
    origin: str
    capabilities: Capabilities | None
    program: Path | None
    version: str | None
    missing: tuple[str, ...]

    @property
    def state(self) -> str:
        """In a word or two; whether it is logged in only `check` knows."""
        if not self.missing:
            return READY
        absent = self.program is None and any(what.endswith(("on PATH", "there")) for what in self.missing)
        return NOT_INSTALLED if absent else NOT_SET_UP


class EngineCheck(NamedTuple):
    """`requirements` is what it needs -> is it there, login included; `trouble` what is wrong beside that, `mends`
    what to type, in order; empty when all is well. `warnings` are no failures. `tested` is the version the adapter
    was tried on, `unenforced` what of the options of a run it cannot enforce."""

    status: EngineStatus
    requirements: Mapping[str, bool]
    sandbox: str | None  # "works", what is wrong, None where it has none of its own or was not asked
    tested: str
    warnings: tuple[str, ...]
    mends: tuple[str, ...]
    unenforced: tuple[Unenforced, ...]

    @property
    def ready(self) -> bool:
        return not self.mends and all(self.requirements.values())


def status_of(known: type[EngineRegistry], name: str, versions: Versions) -> EngineStatus:
    """What shows without a start."""
    of = known.adapter_class(name)
    program = program_of(of)
    needs = known.check_requirements(name, quick=True)
    return EngineStatus(
        name=name,
        description=known.describe(name),
        origin=known.origin(name),
        capabilities=getattr(of, "capabilities", None),
        program=program,
        version=versions.of(program) if program else None,
        missing=tuple(what for what, there in needs.items() if not there),
    )


def check(
    known: type[EngineRegistry], name: str, versions: Versions, *, needs_sandbox: bool = True
) -> EngineCheck:
    """All that can be known without a task: its version is asked anew, its login and its sandbox are asked for.

    `needs_sandbox`: whether runs here work in that sandbox, so that without it the engine is not ready.
    """
    of = known.adapter_class(name)
    if program_of(of) is not None:
        versions.ask([of])
    status = status_of(known, name, versions)
    requirements = known.check_requirements(name)
    tested: str = getattr(of, "tested", "")
    install, login = getattr(of, "install_hint", ""), getattr(of, "login_hint", "")
    mends = []
    if any(not there for what, there in requirements.items() if what != _LOGIN):
        mends.append(install)
    if not requirements.get(_LOGIN, True):
        mends.append(login)
    sandbox = None
    asks = getattr(of, "sandbox_trouble", None)
    if asks is not None and not status.missing:
        trouble = asks()
        sandbox = trouble[0] if trouble else "works"
        mends += [trouble[1]] if trouble and needs_sandbox else []
    warnings = []
    if status.version and tested and is_older(status.version, tested):
        warnings.append(
            f"version {status.version} is older than {tested}, which it was tested with. {install}"
        )
    elif status.version == "":
        warnings.append("it does not say which version it is")
    return EngineCheck(
        status, requirements, sandbox, tested, tuple(warnings), tuple(filter(None, mends)),
        tuple(getattr(of, "unenforced", ())),
    )  # fmt: skip
