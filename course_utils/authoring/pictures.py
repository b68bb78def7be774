"""Figures of the lessons that the README shows.

A cell of a source that is marked `# %% picture="attention_memory"` makes docs/attention_memory.png
whenever its lesson is executed, so the README never shows an older measurement than the lesson.
"""

import base64
import re
from pathlib import Path

from course_utils.errors import CourseError

PNG_IN_HTML = re.compile(r"data:image/png;base64,([^\"]+)")


def pictures(executed: dict, root: Path) -> dict[Path, bytes]:
    """{docs/NAME.png: content} of an executed notebook. Raises CourseError for a cell without one."""
    found = {}
    for cell in executed["cells"]:
        name = cell["metadata"].get("picture")
        if name is None:
            continue
        html = " ".join(o.get("data", {}).get("text/html", "") for o in cell.get("outputs", ()))
        image = PNG_IN_HTML.search(html)
        if image is None:
            raise CourseError(f"the cell marked picture={name!r} shows no figure")
        found[root / "docs" / f"{name}.png"] = base64.b64decode(image[1])
    return found
