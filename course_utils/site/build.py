"""The whole site, into a folder: whole or not at all.

The pages are made beside the folder's place and moved there in one step. A folder that holds something
else is never replaced; what lies beside an older site's pages (.git, CNAME, a page of one's own) stays there.
"""

import html
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from course_utils.authoring.files import lesson_stems
from course_utils.errors import CourseError
from course_utils.site.mathematics import math_font
from course_utils.site.outline import lesson, promises
from course_utils.site.pages import contents_page, lesson_page
from course_utils.site.running import run_all
from course_utils.widgets.base import script, style

ASSETS = Path(__file__).with_name("assets")
MARK = 'content="course.py site"'  # in every page's head
FOLDERS, FILES = (
    ("images", "notebooks", "widgets"),
    ("math.woff", "site.css", "site.js", "widgets.css"),
)
EXPORT = "export default { render };"  # a widget's script ends so, and imports nothing


def build(
    out: Path, root: Path, *, fresh: bool = False, say: Callable[[str], object] = print
) -> dict[str, bytes]:
    """Write the site of the course in `root` into the folder `out`; returns its files.

    Raises CourseError where there are no notebooks, one fails, or `out` holds something else.
    """
    refuse_foreign(out)
    stems = lesson_stems(root / "notebooks", ".ipynb")
    if not stems:
        raise CourseError(f"there are no notebooks in {root / 'notebooks'}")
    paths = [root / "notebooks" / f"{stem}.ipynb" for stem in stems]
    files = site_files(paths, run_all(paths, root, fresh=fresh, say=say), readme(root))
    write(out, files)
    return files


def site_files(paths: list[Path], notebooks: list[dict], readme_text: str) -> dict[str, bytes]:
    """Every file of the site by its relative name; the same notebooks give the same bytes."""
    promised = promises(readme_text)
    lessons = [lesson(path.stem, nb, promised) for path, nb in zip(paths, notebooks)]
    files, widgets = {}, set()
    for place, (path, notebook) in enumerate(zip(paths, notebooks)):
        before = lessons[place - 1] if place else None
        after = lessons[place + 1] if place + 1 < len(lessons) else None
        text, page = lesson_page(lessons[place], notebook, before, after)
        files[f"{path.stem}.html"] = text.encode()
        files[f"notebooks/{path.name}"] = path.read_bytes()
        files |= page.files
        widgets |= set(page.widgets)
    files["index.html"] = contents_page(lessons, opening(readme_text)).encode()
    files |= {f"widgets/{name}.js": plain_script(name).encode() for name in sorted(widgets)}
    files["widgets.css"] = style().encode()
    files |= {name: (ASSETS / name).read_bytes() for name in ("site.css", "site.js")}
    files["math.woff"] = math_font(characters(files))
    return files


def plain_script(name: str) -> str:
    """A widget's module as a script: browsers load no modules from a disk."""
    text = script(name)
    body = text.replace(EXPORT, f'(window.courseWidgets ??= {{}})["{name}"] = render;')
    if text.count(EXPORT) != 1 or re.search("^(import|export) ", body, re.M):
        raise CourseError(f"{name}.js: a widget's script ends with {EXPORT} and imports nothing")
    return f'"use strict";\n(() => {{\n{body}\n}})();\n'


def characters(files: dict[str, bytes]) -> set[str]:
    """All that the pages' formulas show."""
    pages = (content.decode() for name, content in files.items() if name.endswith(".html"))
    formulas = [found for page in pages for found in re.findall(r"<math\b.*?</math>", page, re.S)]
    return set(html.unescape(re.sub(r"<[^>]+>", "", "".join(formulas))))


def readme(root: Path) -> str:
    try:
        return (root / "README.md").read_text("utf-8")
    except OSError:
        return ""


def opening(readme_text: str) -> str:
    """The README's text from its title to its first picture."""
    paragraphs = re.split(r"\n\s*\n", readme_text)[1:]
    ends = (n for n, text in enumerate(paragraphs) if text.startswith(("![", "#", "|")))
    return "\n\n".join(paragraphs[: next(ends, 0)])


def refuse_foreign(out: Path) -> None:
    """Raises CourseError unless `out` can become the site: new, empty, or an older site of ours."""
    if not out.exists():
        return
    if not out.is_dir():
        raise CourseError(f"{out} is a file: name a folder")
    if any(out.iterdir()) and not is_ours(out / "index.html"):
        raise CourseError(f"{out} holds something else: name a new folder, or an empty one")


def is_ours(path: Path) -> bool:
    """Whether an older site has written this file or folder of its top level."""
    if path.suffix == ".html":
        return path.is_file() and MARK in path.read_text("utf-8", errors="replace")[:1000]
    return path.name in (FOLDERS if path.is_dir() else FILES)


def write(out: Path, files: dict[str, bytes]) -> None:
    """Put the files into `out`, in place of an older site's. Raises CourseError when it cannot."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            for name, content in files.items():
                place = new / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            if out.exists():
                out.rename(old)
            try:
                new.rename(out)
            except OSError:
                if old.exists():
                    old.rename(out)
                raise
            for path in list(old.iterdir()) if old.exists() else ():
                if not is_ours(path) and not (out / path.name).exists():
                    path.rename(out / path.name)
    except OSError as error:
        raise CourseError(f"cannot write {out}: {error.strerror}") from None
