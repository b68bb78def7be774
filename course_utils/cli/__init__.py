"""The commands behind course.py, one module each.

environment, installing    make .venv on the first call (standard library only)
__main__                   finds the command, and turns its errors into one line
lab  update  test  site  doctor   commands, for students and for whoever shows the lessons
grade  release  bench      commands, for instructors; the work is in course_utils.grading and .bench
build                      has no module here: it is course_utils.authoring
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the course's folder
