"""The commands behind course.py, one module each.

environment, installing    make .venv on the first call (standard library only)
__main__                   finds the command, and turns its errors into one line
lab  update  test  site  doctor   the commands; `build` is course_utils.authoring
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the course's folder
