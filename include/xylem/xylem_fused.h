/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fused allreduce for transformer layers: sum over the ranks, + residual, RMSNorm, quantisation, in one call (on a
 * device: one kernel launch). Included by xylem.h. C11.
 *
 * Shapes are row-major: `tokens` rows of `hidden` elements. All pointers are to memory of one kind, as in
 * xylAllReduce (all host, or all reachable by the communicator's device), and every row buffer is 16-byte aligned.
 */
#ifndef XYLEM_FUSED_H
#define XYLEM_FUSED_H

#include <stddef.h>
#include <stdint.h>

#include "xylem/xylem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What comes after the sum. Patterns from 2 on do what pattern 1 does and then quantise the norm. */
typedef enum {
  xylFusedAllReduce = 0,       /* the sum alone, into `output` */
  xylFusedResidualRMSNorm = 1, /* norm into `output` */
  xylFusedFp8Static = 2,       /* FP8 e4m3 with the one scale that the caller gives */
  xylFusedFp8PerToken = 3,     /* FP8 e4m3 with a scale for each row */
  xylFusedFp8PerGroup128 = 4,  /* FP8 e4m3 with a scale for each 128 elements of a row; hidden: a multiple of 128 */
  xylFusedNvfp4Linear = 5,     /* NVFP4: e2m1 with an e4m3 scale for each 16 elements; hidden: a multiple of 16 */
  xylFusedNvfp4Swizzled128x4 = 6 /* the same, scales in the order that block-scaled matrix multiplication wants */
} xylFusedPattern_t;

/* Zero the whole structure, set size to sizeof it, then the fields that are wanted. Equal on all ranks but for the
 * pointers themselves (which outputs are NULL, and whether a residual is given, must be equal too). */
typedef struct {
  size_t size;               /* sizeof(xylAllReduceRMSNormArgs_t) as the caller's header has it */
  xylFusedPattern_t pattern; /* decides which of the fields below are used */
  xylDataType_t type;        /* of input, output and residuals: xylFloat16, xylBfloat16 or xylFloat32 */
  xylDataType_t weight_type; /* of weight: xylFloat32, or the same as type */
  float eps;                 /* added to the mean of squares; finite, not negative */
  size_t tokens;             /* rows; 0: nothing is done, but the ranks' calls are compared */
  size_t hidden;             /* elements of a row: a multiple of 8, 8 to 16384 */
  const void* input;         /* this rank's addend */
  const void* residual;      /* added to the sum; the same values on all ranks, but with residual_sharded; NULL:
                                nothing is */
  const void* weight;        /* hidden elements of weight_type */
  const float* scale;        /* one number, read when the work runs. FP8 static: a value of 1 in the quantised
                                output stands for *scale. NVFP4: the global scale G, usually 448 * 6 / (largest
                                magnitude in the tensor) */
  void* output;              /* sum (pattern 0) or norm; may be NULL in patterns that quantise */
  void* residual_out;        /* sum + residual, rounded once to type; may be NULL. Not in pattern 0 */
  void* quantised;           /* FP8: tokens x hidden bytes. NVFP4: tokens x hidden / 2 bytes, the element with the
                                even index in the low half of its byte */
  void* scales;              /* FP8 per token: tokens floats. FP8 per group: tokens x (hidden / 128) floats. NVFP4:
                                tokens x (hidden / 16) bytes of e4m3; swizzled: see below. FP8 static: not used */
  int gemma_style;           /* not 0: the weight is 1 + weight */
  int residual_sharded; /* not 0: residual and residual_out are read and written in this rank's rows only. Row t
                           belongs to rank t / ceil(tokens / ranks) */
} xylAllReduceRMSNormArgs_t;

/* s = sum over ranks of input (fp32, rank order, starting from rank 0's value)
 * r = s + residual, one fp32 addition, rounded to nearest even to `type`: residual_out. Everything below uses the
 *     rounded r, so that all algorithms and all ranks give the same bits.
 * n = r * (1 / sqrt(mean(r * r) + eps)) * w, w = weight or 1 + weight; fp32, multiplied from left to right; rounded
 *     to `type`: the norm. Quantisation uses the rounded n, so that it equals a separate quantisation of `output`.
 * q: FP8 static: e4m3(n * (1 / *scale)). Per token, per group: scale = largest |n| / 448, at least 2^-126;
 *     e4m3(n * (1 / scale)). e4m3 rounds to nearest even and saturates at 448.
 *    NVFP4, of 16 neighbours: a = largest |n|; block scale b = e4m3(G * (a * (1.0f / 6))); e2m1(n * (G / b)), or
 *    of n * 0 where b is 0. q stands for q * b / G. e2m1 rounds to nearest even and saturates at 6; a NaN
 * becomes 6.
 *
 * The mean of squares is taken in fp32 by a fixed tree (halves of halves of 16384 elements, then 8 in a row), so
 * host, device, grid and algorithm give the same bits. (A NaN may have another sign or payload.)
 *
 * Swizzled scales: the byte of row t and block k = column / 16 lies at
 *
 *     ((t / 128) * ceil(hidden / 64) + k / 4) * 512 + (t % 32) * 16 + (t / 32 % 4) * 4 + k % 4;
 *     the buffer holds ceil(tokens / 128) * ceil(hidden / 64) * 512 bytes. Padding is not written.
 *
 * Aliasing: output and residual_out may each equal input or residual exactly; no other buffers may overlap.
 * Stream: as xylAllReduce; device work is one launch (long calls: a few, one behind the other) and can be captured.
 * Group: recorded between xylGroupStart and xylGroupEnd like the other calls that communicate. The structures are read
 * and checked when the call is made; scale, rows and weights, like every buffer, when the group runs.
 * Errors: xylInvalidArgument, with a sentence (NULL where something is needed, structure too small, unknown
 * pattern, type other than fp16, bf16, fp32; weight_type neither fp32 nor type; NVFP4 of fp32; hidden not a
 * multiple of what the pattern needs or above 16384; tokens * hidden too large; eps negative or not finite; wrong
 * alignment; buffers that overlap; host and device memory mixed; outputs given that the pattern does not have);
 *   xylInvalidUsage (the ranks' calls differ); xylRemoteError; xylTimeout; xylUnhandledCudaError. */
xylResult_t xylAllReduceRMSNorm(const xylAllReduceRMSNormArgs_t* args, xylComm_t comm, xylStream_t stream);

/* How a rank's addend is made from the outputs of its experts. */
typedef struct {
  size_t size;               /* sizeof(xylMoeReduceArgs_t) as the caller's header has it */
  size_t experts_per_token;  /* K, 1 to 64: how many expert rows at most add up to a token */
  size_t expert_rows;        /* rows of expert_output, below 2^31 */
  const void* expert_output; /* expert_rows x hidden elements of args->type, 16-byte aligned */
  const int32_t* rows;       /* tokens x K: which row of expert_output is the k-th of a token; a number outside
                                0 .. expert_rows - 1 stands for an expert of another rank and adds nothing. NULL: row
                                k * tokens + t, and expert_rows is K * tokens */
  const float* weights;      /* tokens x K: the router's weights */
} xylMoeReduceArgs_t;

/* xylAllReduceRMSNorm of the addend
 *   args->input (the shared expert's output; NULL: 0) + sum over k of weights[t][k] * expert_output[rows[t][k]],
 * by fused multiply-add in fp32 from k = 0 on, rounded to args->type: that is what is sent. args->input may be NULL
 * here. output and residual_out must not overlap expert_output.
 * Errors: as xylAllReduceRMSNorm. */
xylResult_t xylMoeAllReduceRMSNorm(const xylMoeReduceArgs_t* moe, const xylAllReduceRMSNormArgs_t* args,
                                   xylComm_t comm, xylStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
