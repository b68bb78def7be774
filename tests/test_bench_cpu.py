"""course.py bench cpu, at sizes that take no time."""

import json

from course_utils.bench import cpu
from course_utils.bench.rungs import dense


def test_a_run_gives_a_row_for_each_way_and_size(tmp_path):
    def recompute(q, k, v):
        return dense(q, k, v)

    out = tmp_path / "cpu.json"
    rungs = {"dense": dense, "blockwise": recompute}
    data = cpu.measure_cpu(
        out=out, lengths=(64, 128), rungs=rungs, seconds_each=0.01, say=lambda text: None
    )
    kept = json.loads(out.read_text("utf-8"))
    assert [(row["n"], row["rung"]) for row in kept["rows"]] == [
        (64, "dense"), (64, "blockwise"), (128, "dense"), (128, "blockwise")
    ]  # fmt: skip
    for row in kept["rows"]:
        assert row["ms_low"] <= row["ms"] <= row["ms_high"] and row["error"] < 1e-5
        assert row["peak_bytes"] >= 2 * 4 * 4 * row["n"] ** 2  # two squares of four heads
    assert kept["rows"][0]["time_ratio"] == kept["rows"][0]["peak_ratio"] == 1
    assert kept["machine"]["cpu"] and kept["ceilings"]["copy_bytes_per_second"] > 1e8
    table = cpu.cpu_report(data)
    assert "blockwise, torch" in table and kept["machine"]["cpu"] in table
