"""Grading: from a folder of submissions to grades, feedback and a report.

A submission is read, its answers run in a sandbox, and what was observed there is judged here, where no
student's code runs. Rows are written as they come; pages and tables are made from the rows.

collect   submissions (folders, ZIPs), layout (whose a folder is), times (handed_in.csv),
          platforms (their names for files), archives (a ZIP, never unpacked)
read      reading (finds the answers), cells, magics, statements, support (what an answer needs), lessons
run       jobs (answers and hidden cases), sandbox/ (bubblewrap, containers); inside it driver, answering, cells_run,
          apart (kernels), outside and alive (memory), tampering; sandboxed_course and shaking (the course as it is
          in there), codec and decoding
judge     judging (by each exercise's own judge), disagreement (of meters), hints and around (what an answer's text
          says; standing: what its names stand for, ways: round the memory), newer_python
          (than the grader's), version (of the checks, and of all this)
batch     batch, grade_one, ledger (grades.jsonl), progress_bar
tables    publishing (all of them), rows (grades.csv), attempts (which counts), roster, policy, finals, figures and
          compare (what changed), exports (for learning platforms)
pages     feedback (masking: what it may tell), report, telling, dependence (on earlier
          answers), similar and similar_page (near-identical answers), written and written_page
          (answers in words), wording (Markdown on a page), pages (what they share)
release   release, pruned and leaks: the students' copy of the course
records   the plain data that these hand to each other
"""
