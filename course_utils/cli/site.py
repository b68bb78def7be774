"""course.py site --out DIR: the course as pages that need no kernel and no other host."""

import argparse
import time
from pathlib import Path

from course_utils.cli import ROOT
from course_utils.site.build import build


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Make the site, and say where it is. Raises CourseError for what the user can put right."""
    parser = argparse.ArgumentParser("course.py site", description=__doc__)
    parser.add_argument("--out", required=True, metavar="DIR", type=Path, help="the site's folder")
    parser.add_argument(
        "--fresh", action="store_true", help="run every notebook again, changed or not"
    )
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    files = build(options.out.resolve(), root, fresh=options.fresh)
    seconds = time.perf_counter() - start
    size = f"{len(files)} files, {sum(map(len, files.values())) / 1e6:.1f} MB"
    print(f"{options.out / 'index.html'}: {size}, in {seconds:.1f} s")
    return 0
