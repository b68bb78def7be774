"""Sandboxes: what bounds them, what is in them, which one is chosen, and that they leave nothing."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_utils.checks import LESSONS, find_exercise
from course_utils.errors import CourseError
from course_utils.grading.judging import judge_runs
from course_utils.grading.records import Answer, Ending, Job, Run
from course_utils.grading.sandbox import cgroups, choose, containers
from course_utils.grading.sandbox.bubblewrap import Bubblewrap, environment, scope_prefix
from course_utils.grading.sandbox.cgroups import Group, Groups, find_groups
from course_utils.grading.sandbox.choose import choose_sandbox
from course_utils.grading.sandbox.containers import Container
from course_utils.grading.sandbox.inside import Inside
from course_utils.grading.sandbox.limits import Limits
from course_utils.grading.sandbox.run import SandboxFailure, run_job
from course_utils.grading.sandboxed_course import course_for

LIMITS = Limits(exercise_seconds=5, memory_bytes=300 * 10**6, processes=40, files_bytes=10**7)
RIGHT = (
    "def matmul_backward(x, w, output):\n"
    "    x.grad += output.grad @ w.value.T\n"
    "    w.grad += x.value.T @ output.grad\n"
)


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    return folder


def job_of(source: str) -> Job:
    answer = Answer("2.1", "matmul_backward", source, "name")
    return Job("test", (answer,), {"2.1": find_exercise("2.1").cases(4)})


def run_one(sandbox, source: str, limits: Limits = LIMITS) -> tuple[Run, float]:
    job = job_of(source)
    (run,) = run_job(job, limits, sandbox)
    return run, judge_runs(job, [run])["2.1"].points


# --- what is in the course that a sandbox sees ----------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_sandboxs_course_holds_no_judge_and_no_oracle(course, lesson):
    course = course_for(course, lesson)
    text = {path: path.read_text("utf-8") for path in course.rglob("*.py")}
    names = {path.relative_to(course / "course_utils").as_posix() for path in text}
    assert not any(name.startswith(("cli/", "authoring/", "bench/")) for name in names)
    assert "grading/judging.py" not in names and "grading/release.py" not in names
    checks = "\n".join(body for path, body in text.items() if "checks/" in path.as_posix())
    for given_away in (
        "def _judge(case",
        "def _gradients(",
        "def _chain_gradients(",
        "def _likely_cause",
        *("def judge(", "def _judge", "def _wanted", "def _mistakes", "def forward_wanted"),
        *("def _softmax(", "def _product("),
    ):
        assert given_away not in checks
    for name in ("attention/traffic", "remat/exhaustive", "remat/milp", "remat/planners"):
        assert "HeldBack" in (course / f"course_utils/{name}.py").read_text("utf-8")
    dense = (course / "course_utils/attention/dense.py").read_text("utf-8")
    assert "def dense_attention_backward" not in dense
    assert ("def dense_attention(" in dense) is (lesson == "7")  # 7.5 is given what it computes
    planners = (course / "course_utils/remat/planners.py").read_text("utf-8")
    assert "def persistent_optimum" not in planners
    compile(checks, "all of them", "exec")


# --- bubblewrap on this machine -------------------------------------------------------------------

needs_bubblewrap = pytest.mark.skipif(
    not any(
        os.access(f"{folder}/bwrap", os.X_OK) for folder in os.environ["PATH"].split(os.pathsep)
    ),
    reason="no bubblewrap here",
)


@needs_bubblewrap
def test_without_control_groups_each_process_is_bounded(course):
    """A laptop without root: weaker, and it says so; a memory bomb ends all the same."""
    sandbox = Bubblewrap(course)
    assert sandbox.weaker and sandbox.bounds_each_process
    assert run_one(sandbox, RIGHT)[1] == 2.0
    bomb = "def matmul_backward(*args):\n    hoard = [np.ones(10**7) for _ in range(10**4)]\n"
    run, points = run_one(sandbox, "import numpy as np\n" + bomb)
    assert points == 0 and run.observations[0].error.kind in ("MemoryError", "_ArrayMemoryError")


@needs_bubblewrap
def test_what_the_kernel_counts_is_told(course):
    if (groups := find_groups()) is None:
        pytest.skip("no control groups can be made here")
    sandbox = Bubblewrap(course, groups)
    hungry = "import numpy as np\n" + RIGHT + "    np.ones(10**7)\n"
    run, points = run_one(sandbox, hungry)
    assert points == 2.0 and 75 * 10**6 < run.peak_bytes < 160 * 10**6
    bomb = "def matmul_backward(*args):\n    hoard = [bytearray(10**7) for _ in range(10**4)]\n"
    run, points = run_one(sandbox, bomb)
    assert (run.ending, points) == (Ending.OUT_OF_MEMORY, 0)


@needs_bubblewrap
def test_many_runs_leave_nothing_and_do_not_grow(course):
    sandbox = Bubblewrap(course, find_groups())
    run_one(sandbox, RIGHT)
    before = handles(), children(), groups_of_this_process(sandbox), resident_bytes()
    for _ in range(15):
        assert run_one(sandbox, RIGHT)[1] == 2.0
    after = handles(), children(), groups_of_this_process(sandbox), resident_bytes()
    assert after[:3] == before[:3] and after[3] - before[3] < 4 * 10**6


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def groups_of_this_process(sandbox) -> list[Path]:
    found = sandbox.groups
    return [] if found is None else [*found.memory.glob(f"course-grading-{os.getpid()}-*")]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@needs_bubblewrap
def test_an_interrupted_grader_takes_its_sandbox_with_it(course):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from course_utils.grading.sandbox.bubblewrap import Bubblewrap\n"
        "from tests.test_grading_sandbox import run_one\n"
        f"run_one(Bubblewrap(Path({str(course)!r})), 'import time\\ntime.sleep(543)')\n"
    )
    grader = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[1])
    try:
        assert until(lambda: sandboxes_of(grader.pid)), "it did not start"
        inside = sandboxes_of(grader.pid)
        grader.kill()
        grader.wait()
        assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside))
    finally:
        grader.kill()
        grader.wait()


def until(condition, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


def sandboxes_of(pid: int) -> list[int]:
    """bubblewrap's processes below this one, and theirs."""
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, own) for each in (child, *sandboxes_of(child))]


def test_a_sandbox_that_does_not_start_is_our_failure(course):
    broken = Bubblewrap(course, program="/bin/false")
    with pytest.raises(SandboxFailure, match="did not start"):
        run_job(job_of(RIGHT), LIMITS, broken)


def test_a_sandbox_that_says_nonsense_is_bounded(course, tmp_path):
    """What stands in for a driver floods, lies and stays: it ends, and nothing is believed."""
    says = tmp_path / "says"
    script = "#!/bin/sh\nprintf '%s\\n' '{\"ready\": true}' '[]' '{\"begins\": true}' '{\"observation\": true}' {}\n"
    floods = (
        script
        + "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done\n"
    )
    small = replace(LIMITS, output_bytes=1000)
    done_at_once = "#!/bin/sh\nprintf '%s\\n' '{\"ready\": true}' '{\"done\": true}'\n"
    for text, ending in (
        (done_at_once, Ending.BROKEN),
        (floods, Ending.TOO_MUCH_OUTPUT),
        (script + "sleep 100\n", Ending.TOO_SLOW),
        (script, Ending.BROKEN),
        (
            script + 'echo \'{"ending": ["complete"], "seconds": "x", "flags": {"a": 1}}\'\n',
            Ending.BROKEN,
        ),
    ):
        says.write_text(text)
        says.chmod(0o755)
        limits = (
            replace(small, exercise_seconds=-4.5, start_seconds=1) if "sleep" in text else small
        )
        run, points = run_one(Bubblewrap(course, program=str(says)), RIGHT, limits)
        assert (run.ending, points) == (ending, 0.0)


# --- other sandboxes ------------------------------------------------------------------------------


def test_inside_a_container_the_same_driver_runs(course, monkeypatch):
    if os.geteuid() == 0 and not readable_for_all(environment()):
        monkeypatch.setattr(os, "geteuid", lambda: 1)  # as the user who owns this environment
    sandbox = Inside(course)
    assert sandbox.weaker
    fork = "    import os, time\n    if os.fork() == 0: time.sleep(321)\n"
    assert run_one(sandbox, RIGHT)[1] == 2.0
    run, points = run_one(sandbox, RIGHT + fork)
    assert points == 2.0 and "left" in run.flags[0]
    loop = "def matmul_backward(*args):\n    while True: pass\n"
    assert (
        run_one(sandbox, loop, replace(LIMITS, exercise_seconds=0.5))[0].ending is Ending.TOO_SLOW
    )


def readable_for_all(found) -> bool:
    return all(
        parent.stat().st_mode & 0o005 == 0o005 for path in found[1] for parent in Path(path).parents
    )


def test_a_container_is_closed_and_bounded(course, tmp_path):
    """An engine that notes what it is asked for, and runs the driver here."""
    engine = tmp_path / "podman"
    python, _, packages = environment()
    path = os.pathsep.join([str(course / "2"), *packages])
    engine.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$1" = run ] || exit 0\n'
        f'while [ "$1" != -c ]; do shift; done\n'
        f'exec env -i PYTHONPATH="{path}" OMP_NUM_THREADS=1 {python} -s -S -B "$@"\n'
    )
    engine.chmod(0o755)
    sandbox = Container(course, str(engine))
    assert run_one(sandbox, RIGHT)[1] == 2.0
    asked = (tmp_path / "asked").read_text()
    for option in (
        *("--network none", "--read-only", "--cap-drop ALL", "--pids-limit 40", "--user 65534"),
        *(
            "--memory 300000000 --memory-swap 300000000",
            f"{course}/2:/course:ro",
            "no-new-privileges",
        ),
    ):
        assert option in asked
    assert str(Path(__file__).parents[1]) not in asked


def test_an_engine_that_hangs_leaves_no_pipe_open(course, tmp_path, monkeypatch):
    engine = tmp_path / "podman"
    engine.write_text("#!/bin/sh\necho '{\"ready\": true}'; sleep 0.2; exit 3\n")
    engine.chmod(0o755)

    def hangs(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(containers.subprocess, "run", hangs)
    before = handles()
    run, points = run_one(Container(course, str(engine)), RIGHT)
    assert (run.ending, points, handles()) == (Ending.CRASHED, 0, before)


def test_each_container_is_ended_by_its_own_name(tmp_path, monkeypatch):
    """Two jobs at once in one process: a cluster's worker with threads."""
    ended, sandbox = [], Container(tmp_path, "podman")
    commands = [sandbox.command(tmp_path, LIMITS) for _ in range(2)]
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ended.append(command[-1]))
    for command in commands:
        sandbox.end(SimpleNamespace(args=command, returncode=-9))
    assert ended == [command[command.index("--name") + 1] for command in commands]
    assert len(set(ended)) == 2
    sandbox.end(SimpleNamespace(args=commands[0], returncode=0))
    assert len(ended) == 2


def test_no_sandbox_no_grading(monkeypatch):
    monkeypatch.setattr(choose.shutil, "which", lambda name: None)
    with pytest.raises(CourseError, match="no sandbox, no grading.*bubblewrap.*--inside-container"):
        choose_sandbox()


def test_a_course_folder_lives_as_long_as_its_sandbox():
    sandbox = choose_sandbox()
    folder = sandbox.course
    assert (folder / "0/course_utils/ag.py").exists()  # of the answer that it was tried with
    del sandbox
    assert not folder.exists()
    folder = choose_sandbox().course
    assert not folder.exists()


def test_the_scope_of_systemd_carries_the_bounds(course):
    assert "MemoryMax=300000000" in scope_prefix(LIMITS)
    command = Bubblewrap(course, scope=("systemd-run",)).command(course, LIMITS)
    assert command[0] == "systemd-run" and "bwrap" in command


# --- control groups -------------------------------------------------------------------------------


def fake_v2(root: Path, own: str, *, enabled: str) -> Path:
    """A tree as version 2 shows it, of plain files. Returns what stands for /proc/self/cgroup."""
    folder = root
    for part in ("", *own.split("/")):
        folder = folder / part
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(enabled)
    listing = root.parent / "cgroup"
    listing.write_text(f"0::/{own}\n")
    return listing


def test_version_2_is_bounded_in_one_folder(tmp_path, monkeypatch):
    root = tmp_path / "fs"
    listing = fake_v2(root, "user.slice/session-3.scope", enabled="memory pids")
    made = []

    def mkdir(self, *args, **options):
        original(self, *args, **options)
        if self.name.startswith("course-grading"):
            made.append(self)
            (self / "cgroup.procs").write_text("")
            (self / "memory.swap.max").write_text("max")
            (self / "cpu.max").write_text("max 100000")
            (self / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
            (self / "memory.peak").write_text("12345\n")

    def rmdir(self):
        for file in self.iterdir():
            file.unlink()
        removed(self)

    original, removed = Path.mkdir, Path.rmdir
    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)
    monkeypatch.setattr(cgroups, "_works", lambda groups: groups.memory.name == "user.slice")
    groups = find_groups(root, listing)
    assert groups == Groups(root / "user.slice", root / "user.slice")
    with groups.group(LIMITS) as group:
        assert not group.is_v1 and group.folders == (group.memory,)
        assert (group.memory / "memory.max").read_text() == "300000000"
        assert (group.memory / "memory.swap.max").read_text() == "0"
        assert (group.memory / "pids.max").read_text() == "40"
        assert group.kills() == 2 and group.peak_bytes() == 12345 and group.processes() == []
    assert made and not made[0].exists()


def test_where_no_group_works_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(Group, "bound", lambda group, limits: os.stat("/no such folder"))
    monkeypatch.setattr(Group, "remove", lambda group: [each.rmdir() for each in group.folders])
    listing = fake_v2(tmp_path / "fs", "a", enabled="")
    assert find_groups(tmp_path / "fs", listing) is None
    assert find_groups(tmp_path, tmp_path / "no such file") is None


def test_version_1_has_a_tree_for_each_bound(tmp_path, monkeypatch):
    listing = tmp_path / "cgroup"
    listing.write_text("8:pids:/\n4:memory:/mine\n1:cpu,cpuacct:/\n0::/\n")
    tried = []
    monkeypatch.setattr(cgroups, "_works", lambda groups: tried.append(groups))
    assert find_groups(tmp_path, listing) is None
    two = tmp_path / "memory/mine", tmp_path / "pids"
    assert tried[:2] == [Groups(*two, tmp_path / "cpu"), Groups(*two)]  # without it, if need be
    group = Group(tmp_path / "memory/mine/x", tmp_path / "pids/x", tmp_path / "cpu/x")
    for folder in group.folders:
        folder.mkdir(parents=True)
    group.bound(LIMITS)
    assert (group.memory / "memory.limit_in_bytes").read_text() == "300000000"
    assert (group.pids / "pids.max").read_text() == "40"
    assert (group.cpu / "cpu.cfs_quota_us").read_text() == "125000"
    (group.memory / "memory.oom_control").write_text(
        "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"
    )
    assert group.kills() == 7 and group.is_v1


def test_a_groups_processes_end_with_it():
    if (groups := find_groups()) is None:
        pytest.skip("no control groups can be made here")
    with groups.group(LIMITS) as group:
        joins = " ".join(f"echo $$ > {folder}/cgroup.procs;" for folder in group.folders)
        sleeper = subprocess.Popen(["/bin/sh", "-c", f"{joins} exec sleep 1000"])
        assert until(lambda: group.processes() == [sleeper.pid])
        folders = group.folders
        reaper = subprocess.Popen(["sleep", "0"])
        reaper.wait()
    assert sleeper.wait() == -signal.SIGKILL
    assert not any(folder.exists() for folder in folders)


def test_groups_of_dead_graders_are_swept():
    if (groups := find_groups()) is None:
        pytest.skip("no control groups can be made here")
    gone = subprocess.Popen(["true"])
    gone.wait()
    stale = groups.memory / f"course-grading-{gone.pid}-0"
    stale.mkdir()
    assert groups.sweep() >= 1 and not stale.exists()
