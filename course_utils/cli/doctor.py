"""course.py doctor: what this machine has, and what each absence means for the course."""

import argparse

from course_utils import hardware


def main(arguments: list[str]) -> int:
    """Print the report; 0 unless something that the course needs is missing."""
    argparse.ArgumentParser(prog="course.py doctor", description=__doc__).parse_args(arguments)
    report = hardware.doctor()
    print(report)
    return 0 if report.is_fit else 1
