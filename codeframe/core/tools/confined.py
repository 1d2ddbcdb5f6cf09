"""Files inside the workspace, and only those (rule 9.3): no path leads out, not even one that changes meanwhile.

A path is resolved first, symlinks and `..` as the system would, and must end inside. What is opened then is
the resolved path, folder by folder from the workspace's own descriptor, following no link: if somebody puts
one there after the look, opening fails. Regular files only; a FIFO or a device is never opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from codeframe.core.secret_files import looks_secret
from codeframe.core.tools.model import ToolError

MAX_FILE_BYTES = 16 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Confined:
    """Reads and writes below `root`. Every method raises ToolError for what is refused or fails."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)

    def resolve(self, path: str) -> str:
        """`path` (relative to the workspace, or absolute inside it) resolved and relative; "." is the root."""
        if not path or "\0" in path:
            raise ToolError("The path is empty or holds a NUL.")
        try:
            real = os.path.realpath(os.path.join(self._root, path))
            os.fsencode(real)
        except (OSError, ValueError):
            raise ToolError(f"{path!r} is no path.") from None
        if real != self._root and not real.startswith(self._root.rstrip("/") + "/"):
            raise ToolError(f"{path} leads out of the workspace; only what is inside it can be used.")
        relative = os.path.relpath(real, self._root)
        # In any case: there are filesystems that ignore it.
        if any(part.lower() == ".git" for part in (*relative.split("/"), *path.split("/"))):
            raise ToolError(f"{path} is git's own; files below .git cannot be used.")
        return relative

    def read(self, path: str) -> bytes:
        """The content of a regular file that is not too large and does not look secret."""
        relative = self.resolve(path)
        if looks_secret(relative) or looks_secret(path):
            raise ToolError(f"{path} looks like a file that holds secrets; it is not shown.")
        with self._parent(relative) as (folder, name):
            self._status(folder, name, path)
            with _told(path):
                descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
            with open(descriptor, "rb") as file, _told(path):
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ToolError(f"{path} is not a regular file.")
                data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ToolError(
                f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB; look at parts of it with run_command."
            )
        return data

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        return os.path.lexists(os.path.join(self._root, self.resolve(path)))

    def write(self, path: str, data: bytes, *, replace: bool) -> str:
        """Write the file at once or not at all, making folders; its permissions stay. Its relative path.

        Without `replace` nothing may be there. A file that looks secret may be made but not replaced: no
        snapshot has what was in it.
        """
        relative = self.resolve(path)
        with self._parent(relative, make=True) as (folder, name):
            there = self._status(folder, name, path, must_exist=replace)
            if there is not None and not replace:
                raise ToolError(f"{path} exists already.")
            if there is not None and looks_secret(relative):
                raise ToolError(f"{path} looks like a file that holds secrets; it is not replaced.")
            temporary = f".{name[:100]}.{os.urandom(4).hex()}.new"
            with _told(path):
                _write_new(folder, temporary, data, None if there is None else stat.S_IMODE(there.st_mode))
                try:
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    os.unlink(temporary, dir_fd=folder)
                    raise
        return relative

    def _status(self, folder: int, name: str, path: str, *, must_exist: bool = True) -> os.stat_result | None:
        """What is there; None where nothing is and nothing must be."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            if must_exist:
                raise ToolError(f"{path} is not there.") from None
            return None
        except (OSError, ValueError) as error:
            raise ToolError(f"{path}: {error}.") from None
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"{path} is a folder; list_files shows what is in it.")
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{path} is not a regular file.")
        return found

    @contextlib.contextmanager
    def _parent(self, relative: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder, last name) of a resolved path; with `make`, missing folders are made."""
        if relative == ".":
            raise ToolError("That is the workspace itself, not a file.")
        *folders, name = relative.split("/")
        with _told(relative):
            here = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                with _told(relative):
                    if make:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(folder, dir_fd=here)
                    below = os.open(folder, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here, name
        finally:
            os.close(here)


def _write_new(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """A new file that holds `data`; the default permissions where `mode` is None."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(data)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """The system's errors as words for the model."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"{path} is not there.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolError(f"{path} goes through something that is no folder.") from None
        raise ToolError(f"{path}: {getattr(error, 'strerror', None) or error}.") from None
