"""Why user namespaces, which sandboxes on Linux stand on, are not to be had here, and what to type."""

from __future__ import annotations

from pathlib import Path

# Settings of the kernel or of a distribution's patch to it -> the value that switches them off, one that allows them.
_SETTINGS = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)


def allow_user_namespaces(settings: Path = Path("/proc/sys")) -> str:
    """The command that allows them; "" where no setting forbids them, such as in a container that does."""
    for name, forbids, allows in _SETTINGS:
        try:
            value = settings.joinpath(*name.split(".")).read_text().strip()
        except OSError:  # this system has no such setting
            continue
        if value == forbids:
            return f"sudo sysctl -w {name}={allows}"
    return ""
