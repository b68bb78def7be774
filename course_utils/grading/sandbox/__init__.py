"""Where a student's code runs: sandboxes, and what they bound. One fresh sandbox a submission.

choose      which sandbox this machine has; none: no grading
run         a job run in it: `run_job`
limits      what one submission may take
bubblewrap  Linux: namespaces, an empty file system, no network
cgroups     memory and processes of a whole sandbox, counted by the kernel
containers  Docker or Podman, with the same driver
inside      no sandbox of ours: this machine is one already, and somebody said so
"""
