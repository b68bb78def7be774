"""The doctor: right about this machine, calm about what is absent, and light to import."""

import html.parser
import os
import shutil
import subprocess
import sys
from importlib import metadata

import pytest

from course_utils import hardware, machine
from course_utils.cli import doctor as command
from course_utils.hardware import FINE, MISSING, OK, Finding, Report


@pytest.fixture(scope="module")
def report() -> Report:
    return hardware.doctor()


def finding(report: Report, what: str) -> Finding:
    (found,) = [finding for finding in report.findings if finding.what == what]
    return found


def test_the_import_is_light() -> None:
    code = "import sys, course_utils.hardware; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "course_utils.machine" in loaded.stdout.split()
    assert not {"numpy", "torch", "triton", "matplotlib"} & set(loaded.stdout.split())


def test_this_machine_is_fit(report) -> None:
    assert report.is_fit and "fit for the course" in str(report)
    for name in ("numpy", "torch", "matplotlib", "jupyterlab"):
        assert finding(report, name).found == metadata.version(name)


def test_every_absence_says_what_it_means(monkeypatch) -> None:
    def not_found(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(hardware.metadata, "version", not_found)
    monkeypatch.setattr(hardware.Path, "exists", lambda path: False)
    monkeypatch.setitem(sys.modules, "torch", None)
    bare = hardware.doctor()
    absent = [finding for finding in bare.findings if finding.status != OK]
    assert all(finding.meaning for finding in absent)
    assert {finding.what for finding in absent if finding.status == MISSING} == {
        "numpy",
        "torch",
        "matplotlib",
        "jupyterlab",
    }
    assert {finding.what for finding in absent if finding.status == FINE} == {
        "CUDA GPU",
        "triton",
        "nvcc",
        "browser for tests",
        "sandbox",
    }
    assert not bare.is_fit and "numpy, torch, matplotlib, jupyterlab" in bare.summary


def test_a_package_that_does_not_load_is_missing(monkeypatch) -> None:
    def broken(name):
        raise OSError("libsomething.so: cannot open shared object file")

    monkeypatch.setattr(hardware.importlib, "import_module", broken)
    found = hardware.needed_package("torch")
    assert found.status == MISSING and "libsomething.so" in found.meaning


@pytest.mark.parametrize(
    ("capability", "status"), [((9, 0), OK), ((8, 0), OK), ((7, 5), FINE), ((10, 0), OK)]
)
def test_gpus(monkeypatch, capability, status) -> None:
    torch = pytest.importorskip("torch")

    class Device:
        name, total_memory = "NVIDIA T4", 16 * machine.GIB
        major, minor = capability

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Device)
    found = hardware.gpu()
    assert found.status == status
    assert found.found == f"NVIDIA T4, 16 GiB, sm_{capability[0]}{capability[1]}"


def test_a_driver_without_a_cuda_build_is_told(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    assert "driver" in hardware.gpu().found
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert hardware.gpu().found == "absent"


class Table(html.parser.HTMLParser):
    """Collects a table's cells by tag."""

    def __init__(self, text: str):
        super().__init__()
        self.cells: list[tuple[str, dict, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.cells.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        tag, attrs, text = self.cells[-1]
        self.cells[-1] = (tag, attrs, text + data)


def test_the_table_can_be_read_aloud(report) -> None:
    cells = Table(report._repr_html_()).cells
    headers = [text for tag, attrs, text in cells if tag == "th" and attrs["scope"] == "row"]
    assert headers == [finding.what for finding in report.findings]
    assert [text for tag, _, text in cells if tag == "caption"] == [report.summary]


def test_markup_in_a_finding_stays_text() -> None:
    report = Report((Finding("a<b>", OK, "<script>", "x & y"),))
    assert "<script>" not in report._repr_html_() and "x &amp; y" in report._repr_html_()


def test_the_text_is_aligned() -> None:
    report = Report((Finding("a", OK, "1", "good"), Finding("longer", FINE, "none", "well")))
    first, second, summary = str(report).splitlines()
    assert first.index("good") == second.index("well")
    assert summary == report.summary


def test_the_command_fails_only_when_something_needed_is_missing(monkeypatch, capsys) -> None:
    for status, expected in ((OK, 0), (FINE, 0), (MISSING, 1)):
        report = Report((Finding("thing", status, "x", "y"),))
        monkeypatch.setattr(hardware, "doctor", lambda report=report: report)
        assert command.main([]) == expected
        assert capsys.readouterr().out.strip() == str(report)


def test_no_report_names_a_place(report) -> None:
    """It is stored in an executed notebook."""
    assert sys.prefix not in str(report) and os.path.expanduser("~") + os.sep not in str(report)


def test_machine_name() -> None:
    name = machine.machine_name()
    processor, cores, memory = name.rsplit(", ", 2)
    assert processor and "\n" not in name and len(name) < 80
    assert int(cores.split()[0]) == machine.core_count() >= 1
    assert memory.endswith("GiB") or memory == "unknown memory"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "Intel Core i7-8650U"),
        ("AMD EPYC 7B13 64-Core Processor", "AMD EPYC 7B13"),
        ("Apple M2 Pro", "Apple M2 Pro"),
        ("", "x86_64"),
    ],
)
def test_processor_names_lose_their_decoration(monkeypatch, model, name) -> None:
    monkeypatch.setattr(machine, "field", lambda *args: model)
    monkeypatch.setattr(machine, "output_of", lambda *args: model)
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    assert machine.processor_name() == name


def test_memory_is_what_the_container_allows(monkeypatch) -> None:
    monkeypatch.setattr(machine, "installed_bytes", lambda: 64 * machine.GIB)
    limits = {"memory.max": "", "memory.limit_in_bytes": str(2 * machine.GIB)}
    monkeypatch.setattr(machine, "field", lambda path, pattern: limits[path.name])
    assert machine.memory_bytes() == 2 * machine.GIB
    limits["memory.limit_in_bytes"] = str(2**63 - 4096)  # how version 1 says "no limit"
    assert machine.memory_bytes() == 64 * machine.GIB
    monkeypatch.setattr(machine, "installed_bytes", lambda: None)
    limits["memory.limit_in_bytes"] = ""
    assert machine.memory_bytes() is None


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's /proc")
def test_installed_memory_agrees_with_the_kernel() -> None:
    kib = int(machine.field(machine.Path("/proc/meminfo"), r"^MemTotal: +(\d+) kB$"))
    assert machine.installed_bytes() == kib * 1024
