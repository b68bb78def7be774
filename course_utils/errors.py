"""What went wrong, for the person at the keyboard.

Bad input is not a bug: whoever raises this has found it, knows what to do about it, and says both
in one line. No traceback helps there.
"""


class CourseError(Exception):
    """One clear line for the user; the door prints it and exits with status 2."""
