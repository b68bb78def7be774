"""FlashAttention on a GPU: lesson 07's programs as kernels, each of them small enough to be read.

api              flash_attention: the contract, autograd, the choice of a backend
validation       what it refuses, and in which words
blockwise        the same in plain torch, block by block: any device, any dtype

triton_forward   O and logsumexp: queries stay, keys come by
triton_queries   backward, first half: row_dot and dQ
triton_keys      backward, second half: dK and dV
tiles            tiles of a matrix: where they lie, how they are loaded and stored
schedule         which program takes which block of which head
blocks           how large a block is, on which device
launch           from tensors to kernels: strides, constants, a grid

cuda_cpp         the forward pass in CUDA C++, plain and with tensor cores: to be compared with

Importing this package loads torch, and neither Triton nor a compiler.
"""

from course_utils.kernels.api import flash_attention

__all__ = ["flash_attention"]
