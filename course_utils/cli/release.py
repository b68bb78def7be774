"""course.py release --out ZIP [--lessons 00-03]: the students' copy, without answers."""

import argparse
from pathlib import Path

from course_utils.authoring.files import ROOT
from course_utils.grading.release import FOLDER, release


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the ZIP and say what is in it. Raises CourseError for lessons that are not there."""
    parser = argparse.ArgumentParser("course.py release", description=__doc__)
    parser.add_argument("--out", required=True, metavar="ZIP", type=Path, help="the file to write")
    parser.add_argument("--lessons", metavar="00-03", help="a span, or several: 00-03,05")
    options = parser.parse_args(arguments)
    words = options.lessons.split(",") if options.lessons is not None else None
    lessons = release(options.out, words, root)
    print(f"{options.out}: {', '.join(lessons)}. It unpacks to {FOLDER}/.")
    return 0
