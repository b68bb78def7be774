"""How far a long run is: one line that is rewritten in a terminal, a line now and then in a log."""

import sys
import time
from typing import TextIO

WIDTH = 24
LINES_IN_A_LOG = 10


class ProgressBar:
    """`with ProgressBar(300, "grading") as bar: bar.step("alice")`. Writes to stderr."""

    def __init__(self, total: int, title: str, stream: TextIO | None = None):
        self.total, self.title = total, title
        self.stream = stream or sys.stderr
        self.done = self.reused = 0
        self.start = time.monotonic()
        self.is_terminal = self.stream.isatty()

    def __enter__(self) -> "ProgressBar":
        self.show("")
        return self

    def __exit__(self, *problem) -> None:
        if self.is_terminal:
            self.stream.write("\n")

    def step(self, name: str = "", reused: bool = False) -> None:
        """One more is done; `reused`: it was done before, and says nothing of the pace."""
        self.done += 1
        self.reused += reused
        every = max(1, self.total // LINES_IN_A_LOG)
        if self.is_terminal or self.done % every == 0 or self.done == self.total:
            self.show(name)

    def show(self, name: str) -> None:
        full = WIDTH * self.done // max(1, self.total)
        bar = "#" * full + "." * (WIDTH - full)
        printable = "".join(c if c.isprintable() else "?" for c in name)[:30]
        text = f"{self.title} [{bar}] {self.done}/{self.total}{self.time_left()} {printable:<30}"
        end = "" if self.is_terminal else "\n"
        start = "\r" if self.is_terminal else ""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(
            start
            + text.rstrip(" " if end else "").encode(encoding, "replace").decode(encoding)
            + end
        )
        self.stream.flush()

    def time_left(self) -> str:
        worked = self.done - self.reused
        if not worked or self.done == self.total:
            return ""
        seconds = (time.monotonic() - self.start) / worked * (self.total - self.done)
        return f", {seconds / 60:.0f} min left" if seconds > 90 else f", {seconds:.0f} s left"
