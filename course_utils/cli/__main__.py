"""python -m course_utils.cli COMMAND ...: finds the command, and turns its errors into one line.

course.py comes here with the environment's own Python, and passes the exit status on.
"""

import importlib
import sys

from course_utils.errors import CourseError

COMMANDS = {
    "lab": "course_utils.cli.lab",
    "update": "course_utils.cli.update",
    "test": "course_utils.cli.test",
    "build": "course_utils.authoring",
    "site": "course_utils.cli.site",
    "grade": "course_utils.cli.grade",
    "release": "course_utils.cli.release",
    "bench": "course_utils.cli.bench",
    "doctor": "course_utils.cli.doctor",
}


def main(arguments: list[str]) -> int:
    """Run one command; its exit status."""
    name, *rest = arguments or [""]
    try:
        if name not in COMMANDS:
            raise CourseError(f"there is no command {name!r}; there are: {', '.join(COMMANDS)}")
        return find(name)(rest)
    except CourseError as error:
        print(f"course.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"course.py: {name} was interrupted", file=sys.stderr)
        return 130


def find(name: str):
    """The command's main(arguments) -> exit status."""
    module = COMMANDS[name]
    try:
        return importlib.import_module(module).main
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise CourseError(f"this copy of the course comes without {name!r}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
