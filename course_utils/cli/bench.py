"""course.py bench gpu|cpu: measure attention on this machine, and keep the numbers in benchmarks/."""

import argparse
from pathlib import Path

from course_utils.bench.rungs import TITLES
from course_utils.cli import ROOT


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Measure, print a table; 1 if the GPU failed on the way."""
    options = parsed(arguments)
    out = options.out or root / "benchmarks" / default_name(options)
    if options.machine == "cpu":
        from course_utils.bench.cpu import cpu_report, measure_cpu

        print(cpu_report(measure_cpu(out=out)), f"\nwritten: {out}", flush=True)
        return 0
    from course_utils.bench.gpu import measure_gpu
    from course_utils.bench.report import gpu_report

    with_tests = not options.quick if options.tests is None else options.tests
    data = measure_gpu(quick=options.quick, out=out, with_tests=with_tests, without=options.without)
    print(gpu_report(data), f"\nwritten: {out}", flush=True)
    return 1 if "stopped" in data else 0


def default_name(options: argparse.Namespace) -> str:
    """A quick run does not replace the file that the lessons read."""
    return f"{options.machine}{'-quick' if options.quick else ''}.json"


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="course.py bench", description=__doc__)
    parser.add_argument("machine", choices=("gpu", "cpu"))
    parser.add_argument("--out", type=Path, help="where to write (benchmarks/gpu.json, cpu.json)")
    parser.add_argument(
        "--quick", action="store_true", help="gpu: fewer sizes, 90 s; written to gpu-quick.json"
    )
    parser.add_argument(
        "--tests",
        action=argparse.BooleanOptionalAction,
        help="gpu: run and record the tests marked gpu (as it is, unless --quick)",
    )
    parser.add_argument(
        "--without", action="append", default=[], choices=list(TITLES), help="gpu: leave a rung out"
    )
    options = parser.parse_args(arguments)
    if options.machine == "cpu" and (options.quick or options.tests or options.without):
        parser.error("--quick, --tests and --without are for gpu")
    return options
