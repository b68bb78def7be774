"""Locks that end with the process that holds them, however it ends.

Two notebooks write one record, two calls of a command make one `.venv` or write one folder of grades.
course.py needs this before anything is installed: standard library only.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_PAUSE_SECONDS = 0.02


def lock(file: IO) -> bool:
    """False if another process holds the lock; where a file system has no locks, nobody does."""
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(2**20)  # beyond the end: locked there, the file can still be read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError | PermissionError)
    return True


class LockFile:
    """A file beside what it locks. It is there as long as the lock is held, or its process was killed."""

    def __init__(self, path: Path):
        self.path = path
        self.file: IO | None = None

    def take(self, wait_seconds: float = 0.0) -> bool:
        """False if another holds it for as long as this. Raises OSError where no file can be made."""
        end = time.monotonic() + wait_seconds
        while (file := self._try()) is None:
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE_SECONDS)
        self.file = file
        return True

    def _try(self) -> IO | None:
        file = open(self.path, "ab")  # noqa: SIM115
        # whoever held it may have removed the file between opening and locking
        if lock(file) and self._is_there(file):
            return file
        file.close()
        return None

    def _is_there(self, file: IO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self.path))
        except OSError:
            return False

    def release(self) -> None:
        file, self.file = self.file, None
        if file is None:
            return
        if os.name != "nt":  # removed while it is still held: nobody else's is
            self.path.unlink(missing_ok=True)
        file.close()
        if os.name == "nt":  # a file that is open cannot be removed, so whoever comes next has it
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def held(path: Path, wait_seconds: float) -> Iterator[bool]:
    """The lock while the block runs; False, and no lock, where it could not be had."""
    own = LockFile(path)
    try:
        has_it = own.take(wait_seconds)
    except OSError:
        has_it = False
    try:
        yield has_it
    finally:
        with contextlib.suppress(OSError):
            own.release()
