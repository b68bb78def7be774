"""What the two-level memory refuses, and why: three errors, so that a check can tell them apart.

A chip has no way to say "that is not how memory works": a program that breaks its rules is simply not
expressible. NumPy can express everything, so the simulation has to refuse.
"""


class SRAMOverflow(MemoryError):
    """A value does not fit into what is free on chip. Says what needed how much, and what is there.

    what: the operation, or "loading K[0:64, 0:32]". shape, nbytes: of the value that did not fit.
    """

    def __init__(self, message: str, what: str = "", shape: tuple[int, ...] = (), nbytes: int = 0):
        super().__init__(message)
        self.what, self.shape, self.nbytes = what, tuple(shape), nbytes


class WrongMemory(TypeError):
    """A value was used where it does not lie: computed with off chip, or taken across uncounted."""


class Released(RuntimeError):
    """An on-chip value was used after its SRAM was closed."""
