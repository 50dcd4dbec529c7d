// SPDX-License-Identifier: BSD-3-Clause
//
// XYL_FN marks a function that runs on the host and, where the compiler is nvcc, on the device as well. It is what
// lets one text of a protocol serve both.
#pragma once

#ifdef __CUDACC__
#define XYL_FN __host__ __device__ __forceinline__
#else
#define XYL_FN inline
#endif
