"""What is in a ZIP file that came from outside, without ever unpacking it to disk.

Names that climb out of a folder, links, bombs, damage and passwords cost the member that has them,
and say so; the others are read. Nothing is written, so there is nothing that a name could overwrite.
"""

import io
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from course_utils.grading.cells import MAX_FILE_BYTES

MAX_MEMBERS = 20_000
MAX_RATIO = 200  # a notebook shrinks to a tenth, a bomb to a thousandth
SMALL_BYTES = 10**6  # below, no ratio matters
UNSAFE = re.compile(r"(^|/)\.\.(/|$)|^/|^[A-Za-z]:|[\x00-\x1f]")


class BadArchive(Exception):
    """Not a ZIP file, or one that cannot be listed."""


@dataclass(frozen=True)
class Member:
    """A file in an archive. `problem`: why it must not be read ("" if it may)."""

    name: str  # its path, with /
    read: Callable[[], bytes]  # raises BadArchive, with the reason
    problem: str = ""


def members(source: Path | bytes) -> Iterator[Member]:
    """The files of a ZIP file, in its order; folders are left out. Raises BadArchive."""
    with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise BadArchive(f"not a ZIP file, or a damaged one ({error})") from None
        infos = archive.infolist()
        if len(infos) > MAX_MEMBERS:
            raise BadArchive(f"more than {MAX_MEMBERS:,} files in it")
        for info in infos:
            if info.is_dir() or is_noise(info.filename):
                continue
            yield Member(
                real_name(info).replace("\\", "/"),
                reader(archive, info),
                problem_of(info),
            )


def is_noise(name: str) -> bool:
    """What macOS and Jupyter leave behind."""
    parts = name.replace("\\", "/").split("/")
    hidden = any(part.startswith(".") and part.strip(".") for part in parts)
    return hidden or parts[0] == "__MACOSX"


def real_name(info: zipfile.ZipInfo) -> str:
    """Its name; where the archive does not say that it is UTF-8, it mostly is all the same."""
    if not info.flag_bits & 0x800:
        with suppress(UnicodeError):
            return info.filename.encode("cp437").decode("utf-8")
    return info.filename


def problem_of(info: zipfile.ZipInfo) -> str:
    if UNSAFE.search(info.filename.replace("\\", "/")):
        return "its path in the archive is not safe"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "a symbolic link in the archive"
    if info.flag_bits & 1:
        return "encrypted in the archive"
    if info.file_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES // 10**6} MB"
    if info.file_size > SMALL_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
        return "expands like a ZIP bomb"
    return ""


def reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], bytes]:
    """Reads this member, no more of it than a notebook may have, whatever its header says."""

    def read() -> bytes:
        try:
            with archive.open(info) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            OSError,
            EOFError,
            RuntimeError,
            ValueError,
        ) as error:
            raise BadArchive(f"damaged in the archive ({str(error)[:80]})") from None
        if len(content) > MAX_FILE_BYTES:
            raise BadArchive(f"larger than {MAX_FILE_BYTES // 10**6} MB")
        return content

    return read
