"""From a lesson's source to its two notebooks, and from an old copy to a new one.

A lesson has one source, so that the student's notebook and the solution cannot drift apart. The
map, in the order in which a source travels:

    source       solutions/NN_topic.py -> cells that know their line (jupytext reads)
    syntax       questions about a cell's code, answered by its syntax tree
    outline      which cell is an answer, a check, a prediction; what the exercise headings say
    rules        what a source must obey, each breach with file and line
    ids          ids that stay with a cell when the lesson around it changes
    student      cells -> the student's and the solution's notebook
    fingerprint  the files of course_utils that a lesson's outputs depend on
    execute      runs a solution notebook (nbclient), refuses errors and leaks
    pictures     the figures that the README shows
    drift        how a stored notebook differs from what its source gives
    files        names, reading, writing all or nothing
    build        the command: python course.py build [--check]
    carry        a student's work from an old copy into a new one, for python course.py update
"""


def main(argv: list[str]) -> int:
    """Run `python course.py build`; its exit status."""
    from course_utils.authoring.build import main as build

    return build(argv)
