"""The cost model of lesson 04, stated once. Everything that prices, plans or runs goes by these rules.

1. A computation is a graph of values. A value takes `nbytes`; to make it takes `time`, and reads the
   values in `reads`; while it is being made, `workspace_bytes` more are alive.
2. The graph's `inputs` are there before it begins and stay. They cost nothing: a training step cannot
   choose to be without its data and its weights.
3. A schedule is a list of steps. `("compute", name)` makes a value, which must not be alive, from values
   that must be; from then on it is alive. `("drop", name)` frees it.
4. While a value is made, what was alive, the value itself, and its workspace are alive together. The
   largest such sum is the schedule's peak.
5. The time of a schedule is that of all its `compute` steps. Making a value a second time costs the same
   again, and is what we call recomputed.
6. A value marked `once` is never made twice: a step of the backward pass also adds to the gradients of
   weights, and must not add twice.
7. At the end every value in `results` is alive.

Times and bytes may be in any unit; programs of this course use seconds or counts, and bytes. The model is
that of Griewank and Walther 2000 for chains, and of Jain et al. 2020 for graphs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Step = tuple[str, str]  # ("compute", "z3") or ("drop", "z3")
Schedule = Sequence[Step]


@dataclass(frozen=True)
class Value:
    """A value of the computation: what it takes to hold it and to make it."""

    time: float
    nbytes: int
    reads: tuple[str, ...] = ()
    workspace_bytes: int = 0
    once: bool = False


@dataclass(frozen=True)
class Graph:
    """Values by name, each after those that it reads. Raises ValueError where one reads what is not there."""

    values: Mapping[str, Value]
    results: tuple[str, ...]
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = set(self.inputs)
        for name, value in self.values.items():
            if missing := [read for read in value.reads if read not in known]:
                raise ValueError(f"{name} reads {missing[0]}, which no value before it is")
            if name in known:
                raise ValueError(f"there are two values called {name}")
            if value.time < 0 or value.nbytes < 0 or value.workspace_bytes < 0:
                raise ValueError(f"{name} has a negative time or size")
            known.add(name)
        if missing := [name for name in self.results if name not in self.values]:
            raise ValueError(f"the result {missing[0]} is not among the values")

    @property
    def least_time(self) -> float:
        """The time when nothing is made twice."""
        return sum(value.time for value in self.values.values())


@dataclass(frozen=True)
class Chain:
    """A chain of T stages, z_t = stage_t(z_(t-1)), a loss of z_T, and the way back from g_T to g_0.

    Stage t backwards reads its input z_(t-1) and the gradient g_t, and makes g_(t-1). The loss reads z_T
    and makes g_T.

    forward_times: T numbers.
    activation_bytes: T + 1 numbers, of z_0 (the input, which costs nothing itself) to z_T.
    backward_times: T numbers; twice the forward ones, if not given, as for a product of matrices.
    gradient_bytes: T + 1 numbers, of g_0 to g_T; like the activations, if not given.
    workspace_bytes: T numbers: what stage t backwards holds while it runs, beside g_(t-1); 0 if not given.
    """

    forward_times: Sequence[float]
    activation_bytes: Sequence[int]
    backward_times: Sequence[float] = ()
    gradient_bytes: Sequence[int] = ()
    workspace_bytes: Sequence[int] = ()

    def __post_init__(self) -> None:
        stages = len(self.forward_times)
        put = object.__setattr__  # frozen for everyone else
        put(self, "forward_times", tuple(self.forward_times))
        put(self, "activation_bytes", tuple(self.activation_bytes))
        twice = [2 * f for f in self.forward_times]
        put(
            self,
            "backward_times",
            tuple(self.backward_times if len(self.backward_times) else twice),
        )
        given = self.gradient_bytes if len(self.gradient_bytes) else self.activation_bytes
        put(self, "gradient_bytes", tuple(given))
        given = self.workspace_bytes if len(self.workspace_bytes) else (0,) * stages
        put(self, "workspace_bytes", tuple(given))
        lengths = {
            "activation_bytes": stages + 1,
            "backward_times": stages,
            "gradient_bytes": stages + 1,
            "workspace_bytes": stages,
        }
        for name, length in lengths.items():
            if len(getattr(self, name)) != length:
                got = len(getattr(self, name))
                raise ValueError(f"{stages} stages need {length} {name}, got {got}")

    @classmethod
    def uniform(
        cls, stages: int, time: float = 1, nbytes: int = 1, gradients: bool = True
    ) -> "Chain":
        """A chain of equal stages. Without `gradients` only activations count, as in figure AD1-23."""
        sizes = (nbytes,) * (stages + 1)
        return cls(
            (time,) * stages, sizes, gradient_bytes=sizes if gradients else (0,) * (stages + 1)
        )

    @property
    def stages(self) -> int:
        """How many stages there are: T."""
        return len(self.forward_times)

    def graph(self) -> Graph:
        """The chain as a graph: z1 to zT, then gT (the loss and its gradient) down to g0, the result."""
        last, values = self.stages, {}
        for t in range(1, last + 1):
            values[f"z{t}"] = Value(
                self.forward_times[t - 1], self.activation_bytes[t], reads=(f"z{t - 1}",)
            )
        values[f"g{last}"] = Value(0, self.gradient_bytes[last], reads=(f"z{last}",), once=True)
        for t in range(last, 0, -1):
            values[f"g{t - 1}"] = Value(
                self.backward_times[t - 1],
                self.gradient_bytes[t - 1],
                reads=(f"z{t - 1}", f"g{t}"),
                workspace_bytes=self.workspace_bytes[t - 1],
                once=True,
            )
        return Graph(values, results=("g0",), inputs=("z0",))
