#!/usr/bin/env python3
"""The course's one door: python course.py COMMAND.

Whoever has this folder and a Python has the course. The first command makes `.venv` (see
course_utils/cli/environment.py); that environment's own Python then runs the command
(course_utils/cli/__main__.py).

Before anything is installed there is only the standard library. The syntax here is an old one on
purpose, so that an old Python can still read this file, and say that it is too old.
"""

import sys

if sys.version_info[:2] < (3, 11):
    sys.stderr.write(
        "course.py: this course needs Python 3.11 or newer, and this is Python %d.%d: install one "
        "from https://www.python.org/downloads and call it by its name: python3.11 course.py\n"
        % tuple(sys.version_info[:2])
    )
    sys.exit(2)

import os
import subprocess

ROOT = os.path.dirname(os.path.abspath(__file__))
# -m alone would take the course of the folder where it is called, if there is one
START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module('course_utils.cli', run_name='__main__', alter_sys=True)"
)
COMMANDS = ("lab", "update", "test", "build", "grade", "release", "bench", "site", "doctor")
USAGE = """\
Memory and IO in Deep Learning

python course.py lab [NOTEBOOK]     open the lessons in JupyterLab (NOTEBOOK: 01, for example)
python course.py update             bring newer lessons into work/; your answers come along
python course.py test               test everything: style, units, every notebook, the build
python course.py build [--check]    make the notebooks from solutions/*.py (for authors)
python course.py site --out DIR     the lessons as pages for any web server, widgets included
python course.py grade SUBMISSIONS --out DIR    grade what students handed in (for instructors)
python course.py release --out ZIP [--lessons 00-03]    the students' copy (for instructors)
python course.py bench cpu|gpu      measure attention on this machine, into benchmarks/
python course.py doctor             what this machine has, and what that means for the course

The first command installs what the course needs into .venv: about a minute and 1.5 GB. On Linux pip
takes PyTorch with CUDA, several GB more. pip's own settings are honoured: without an NVIDIA GPU you
can spare those by pointing pip at PyTorch's CPU builds, as pytorch.org describes.

A Python that has everything already (conda, Binder, a JupyterHub) is used as it is, without .venv.
COURSE_PYTHON=/path/to/python names another one that has the course installed.
"""


def main(arguments):
    """Run one command; its exit status. What the user can put right is one line, and status 2."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if arguments[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        return stop("there is no command %r; there are: %s" % (arguments[0], known))

    sys.path.insert(0, ROOT)
    from course_utils.cli import environment
    from course_utils.errors import CourseError

    try:
        python = environment.choose_python(ROOT)
    except CourseError as error:
        return stop(error)
    except KeyboardInterrupt:
        stop("interrupted. " + environment.AGAIN)
        return 130
    return run([str(python), "-P", "-c", START, ROOT] + arguments)


def stop(reason):
    sys.stderr.write("course.py: %s\n" % reason)
    return 2


def run(command):
    """Become the command, so that signals and its exit status need no passing on."""
    sys.stdout.flush()
    if os.name != "nt":
        os.execv(command[0], command)
    child = subprocess.Popen(command)  # Windows can't replace a process
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:  # the child got it too, and decides
            pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
