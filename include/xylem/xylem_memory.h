/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that the ranks of a communicator use in place of each other: where it comes from, and how it is registered.
 * Included by xylem.h. C11.
 */
#ifndef XYLEM_MEMORY_H
#define XYLEM_MEMORY_H

#include <stddef.h>

#include "xylem/xylem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which memory xylMemAlloc gives. */
typedef enum {
  xylMemAuto = 0,  /* device memory if the calling thread has a current CUDA device, else host memory */
  xylMemHost = 1,  /* memory of this process that other processes on the machine can be let into */
  xylMemDevice = 2 /* memory of the calling thread's current CUDA device */
} xylMemKind_t;

/* *ptr becomes the beginning of at least `size` bytes of memory that can be registered (xylCommRegister) so that peers
 * use it in place: aligned to a page at least; host memory is zero, and takes a file descriptor until it is freed.
 * Otherwise it is ordinary memory, for any purpose and any call. size 0: *ptr becomes NULL.
 * Errors (*ptr is then NULL): xylInvalidArgument (ptr NULL, unknown kind), xylInvalidUsage (xylMemDevice without a
 * device), xylSystemError, xylUnhandledCudaError (no memory). */
xylResult_t xylMemAlloc(void **ptr, size_t size, xylMemKind_t kind);

/* Gives back what xylMemAlloc gave, after everything that uses it has ended. Memory that is registered with a
 * communicator of this process is refused. Where a communicator was destroyed with it registered, device memory must
 * not be freed before every rank has destroyed its own. ptr NULL is accepted.
 * Errors: xylInvalidArgument (not the beginning of memory that xylMemAlloc gave), xylInvalidUsage (registered). */
xylResult_t xylMemFree(void *ptr);

/* Collective: every rank registers a buffer of its own, of the same size, and they become one window. *handle is for
 * xylCommDeregister, and set when the group ends if one is open. Afterwards ranks use each other's buffers in place,
 * without a copy, where that is faster:
 *   sendbuff            xylAllReduce, xylReduce, xylReduceScatter, xylAllGather, xylAlltoAll read that of every rank;
 *   recvbuff            xylAllReduce writes that of every rank if sendbuff is registered too; xylAllGather and
 *                       xylAlltoAll do if sendbuff is not; of an xylBroadcast the root's is read by the others.
 *   input               xylAllReduceRMSNorm reads that of every rank, or each rank its share of the rows.
 * Calls on other buffers, and other calls, are as before.
 *
 * Such a buffer that lies in a window wholly must lie there on all ranks, at the same distance from the beginning;
 * or the call is refused with xylInvalidUsage on all ranks, as calls that differ are. The in-place forms of
 * xylAllGather, xylAlltoAll and xylAllReduceRMSNorm (output or residual_out is input) are then used by all ranks or by
 * none, and of an xylAllGather in place it is recvbuff that counts. Buffers that are not wholly in a window are not
 * registered ones.
 *
 * Memory: what xylMemAlloc gave, any part of it; device memory of the communicator's device that cudaMalloc gave, or
 * parts of it. Other memory (malloc, pinned, managed, virtual memory management, processes that the system keeps apart)
 * is registered too, and nothing is gained: if any rank's cannot be reached by all, calls copy as they do without; the
 * log (INFO) and "registered" in xylCommDescribe say why. Ranks of one process reach each other's memory of any kind.
 * Windows of one communicator do not overlap. A buffer may be registered with several communicators.
 *
 * The buffer stays valid until it is deregistered or, where the communicator is destroyed first, until all ranks have
 * destroyed it. After an error that takes the communicator out of service (but not after calls that differ), ranks
 * that are late may still write to a recvbuff that was in use, until they have left or died.
 * It waits for the other ranks, may not be called while a stream of the thread is captured, and costs some system calls:
 * it is for start-up. Graphs that captured calls on registered buffers work in place as well, and need them registered
 * for as long as they run.
 * Errors (*handle is then NULL): xylInvalidArgument (NULL, size 0, bytes that are registered already, memory of another
 * device, not a communicator); xylInvalidUsage (sizes or kinds of memory differ, which leaves everything as it was; the
 * ranks' calls differ); xylSystemError; xylRemoteError (a rank could not, or died); xylTimeout. */
xylResult_t xylCommRegister(xylComm_t comm, void *buff, size_t size, void **handle);

/* Collective: ends what xylCommRegister began, on every rank for the same window. It waits until this rank's work on
 * streams is done where the window is device memory, and until all ranks have let go of the memory, which may then be
 * freed. Graphs that captured calls on it must not run any more. In a group it runs when the group ends. The window is
 * gone after an error as well, except after xylInvalidArgument.
 * Errors: xylInvalidArgument (not a handle of a window of comm, not a communicator), xylInvalidUsage (the ranks' calls
 * differ), xylRemoteError, xylTimeout, xylUnhandledCudaError. */
xylResult_t xylCommDeregister(xylComm_t comm, void *handle);

#ifdef __cplusplus
}
#endif
#endif
