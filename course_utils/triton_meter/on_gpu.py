"""A launch on this machine's GPU: values only, in a process of its own, since a wrong address there ends it.

The worker has loaded torch but not touched the GPU: only a child does, so that each begins anew.
"""

import torch

from course_utils.triton_meter.kernel_file import KernelFile, meter_request
from course_utils.triton_meter.launches import Launch, Metered, Tensor


def work(message: bytes, folder: str) -> bytes:
    """A request in, values (or an error) out. Runs in a process of its own."""
    return meter_request(message, folder, launch_on_gpu)


def launch_on_gpu(file: KernelFile, launch: Launch, metered: Metered) -> None:
    arguments = [
        on_device(value) if isinstance(value, Tensor) else value
        for value in launch.arguments.values()
    ]
    file.kernel[launch.grid](*arguments, **launch.constexprs, **launch.options)
    torch.cuda.synchronize()
    metered.device = torch.cuda.get_device_name()
    for (name, given), tensor in zip(launch.arguments.items(), arguments):
        if isinstance(given, Tensor) and given.writable:
            kept = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
            metered.values[name] = kept.cpu().numpy()


def on_device(given: Tensor) -> torch.Tensor:
    """A copy on the GPU, with the rows as far apart as they should be."""
    values = torch.from_numpy(given.values).to("cuda", getattr(torch, given.type_name))
    if not given.row_stride:
        return values
    apart = torch.zeros(values.shape[0], given.row_stride, dtype=values.dtype, device="cuda")
    apart[:, : values.shape[1]] = values
    return apart[:, : values.shape[1]]
