"""ZIP files that want to be unpacked. Each has one bad member, and nothing else that counts."""

import io
import stat
import zipfile

from tests.grading_helpers import as_bytes, solved
from tests.zoo import beast

unreadable = beast(None, "unreadable", file_name="export.zip")


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


@unreadable
def zip_bomb() -> bytes:
    return zipped(("02_requires_grad.ipynb", bytes(300 * 10**6)))


@unreadable
def path_traversal() -> bytes:
    return zipped(("../../outside/02_requires_grad.ipynb", as_bytes(solved())))


@unreadable
def absolute_path() -> bytes:
    return zipped(("/tmp/outside/02_requires_grad.ipynb", as_bytes(solved())))


@unreadable
def symbolic_link() -> bytes:
    link = zipfile.ZipInfo("02_requires_grad.ipynb")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return zipped((link, b"/etc/passwd"))


@unreadable
def truncated_archive() -> bytes:
    return zipped(("02_requires_grad.ipynb", as_bytes(solved())))[:-30]


@unreadable
def nothing_in_it() -> bytes:
    return zipped(("notes.txt", b"see you"))
