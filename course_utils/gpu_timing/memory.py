"""How many bytes a program takes on the GPU besides its result, at worst.

torch hands out GPU memory itself and keeps count, so this is exact, and no sampling is involved. What a
library takes without asking torch is not seen.
"""

from collections.abc import Callable

import torch


def extra_peak_bytes(function: Callable, *inputs: object) -> tuple[int, object]:
    """The most bytes alive at once during function(*inputs), of those it made, less its result's.

    The result is a tensor or a sequence of tensors, or None; it is returned too. What was alive before
    does not count. Bytes as they were asked for: torch's rounding up to 512 is left out.
    """
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats().get("requested_bytes.all.current", 0)
    result = function(*inputs)
    torch.cuda.synchronize()
    peak = torch.cuda.memory_stats().get("requested_bytes.all.peak", 0)
    return peak - before - storage_bytes(result), result


def storage_bytes(result: object) -> int:
    """Bytes of the buffers behind a tensor or a sequence of them, each buffer once."""
    tensors = [result] if isinstance(result, torch.Tensor) else list(result or ())
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}
    return sum(storage.nbytes() for storage in storages.values())
