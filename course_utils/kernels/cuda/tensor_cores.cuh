// Instructions that CUDA C++ has no words for, each behind a function: what tensor cores multiply,
// how their operands come out of shared memory, and how tiles get there. They need sm_80.
//
// A tensor core multiplies for a whole warp, and no lane has a matrix to itself. Of an accumulator
// of 16 x 8 floats lane l has four: columns 2 * (l % 4) and the next one, of row l / 4 (floats 0
// and 1) and of row l / 4 + 8 (floats 2 and 3).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

// Two neighbours in a row, as an operand has them in a register: the first in the lower half.
template <typename Element>
__device__ unsigned pack(float first, float second) {
    if constexpr (std::is_same_v<Element, __half>) {
        const __half2 pair = __floats2half2_rn(first, second);
        return reinterpret_cast<const unsigned&>(pair);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
        return reinterpret_cast<const unsigned&>(pair);
    }
}

// sum += left * right: (16, 8) += (16, 16) (16, 8). Products are exact, sums are float32.
template <typename Element>
__device__ void mma(float (&sum)[4], const unsigned (&left)[4], unsigned right0, unsigned right1) {
    if constexpr (std::is_same_v<Element, __half>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// ldmatrix: four matrices of 8 x 8 elements. Lane l says where row l % 8 of matrix l / 8 begins,
// and gets, of each matrix, elements 2 * (l % 4) and the next one of row l / 4: what mma wants of
// it.
__device__ inline void load_matrices(unsigned (&matrices)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same of the transposes: elements 2 * (l % 4) and the next one of *column* l / 4.
__device__ inline void load_matrices_transposed(unsigned (&matrices)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// cp.async: 16 bytes from HBM to shared memory, through no register, while the thread goes on. What
// is not there becomes zeros, and is not read.
__device__ inline void start_copy(void* to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

// Until the copies that this thread has started are done. For the others', __syncthreads() after
// it.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// 2^x in one instruction. exp2f spends three more on results below 2^-126, which become 0 here.
__device__ inline float fast_exp2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
