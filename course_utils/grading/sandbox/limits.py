"""What one submission may take. Generous for every honest answer; a bound for all others."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one sandbox.

    exercise_seconds: wall clock of one exercise's answer, all its cases.
    memory_bytes: all of the sandbox's processes and files together.
    processes: processes and threads at once.
    output_bytes: what may come out of one exercise.
    files_bytes: what may be written to each of /tmp and /dev/shm.
    cores: of all processes together, where it can be bounded: one, and what the driver needs beside it.
    start_seconds: wall clock until the driver is ready, which no student's code can delay.
    """

    exercise_seconds: float = 30.0
    memory_bytes: int = 2 * 1024**3
    processes: int = 64
    output_bytes: int = 64 * 10**6
    files_bytes: int = 64 * 10**6
    cores: float = 1.25
    start_seconds: float = 60.0

    def total_seconds(self, exercises: int) -> float:
        """After so long a sandbox is ended from outside, whatever it says."""
        return self.start_seconds + exercises * (self.exercise_seconds + 5.0)

    def as_json(self) -> dict:
        """As plain data, for the driver."""
        return asdict(self)
