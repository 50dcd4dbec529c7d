/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Xylem: collective communication between the GPUs, or the processes, of one machine.
 *
 * This header is C11 and includes neither CUDA nor MPI. Names, values and meanings follow NCCL where NCCL has
 * them, so that porting is a rename. Every function returns one of xylResult_t; after anything but xylSuccess,
 * xylGetLastError() says in one sentence what happened, to whom, and what to do. A process that was forked after a
 * communicator was made may not use it: what is given that communicator returns xylInvalidUsage there.
 */
#ifndef XYLEM_H
#define XYLEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XYL_MAJOR 0
#define XYL_MINOR 1
#define XYL_PATCH 0
/* 10000 major + 100 minor + patch */
#define XYL_VERSION_CODE (XYL_MAJOR * 10000 + XYL_MINOR * 100 + XYL_PATCH)

/* A CUDA stream (cudaStream_t and CUstream are this same type). Ignored for buffers in host memory. */
typedef struct CUstream_st *xylStream_t;

/* One rank's handle on a group of ranks. */
typedef struct xylComm *xylComm_t;

/* Values 0 to 8 equal NCCL's. */
typedef enum {
  xylSuccess = 0,
  xylUnhandledCudaError = 1, /* a CUDA call failed; the text names it */
  xylSystemError = 2,        /* the operating system refused something (memory, descriptors, sockets) */
  xylInternalError = 3,      /* a defect in Xylem */
  xylInvalidArgument = 4,    /* this call's arguments are wrong on this rank alone */
  xylInvalidUsage = 5,       /* the ranks' calls do not fit together, or the environment is wrong */
  xylRemoteError = 6,        /* another rank died, aborted or failed; the text names it */
  xylInProgress = 7,
  xylTimeout = 8 /* a rank did not arrive within XYLEM_TIMEOUT; the text names it */
} xylResult_t;

/* Values 0 to 11 equal NCCL's; Xylem's own start at 64. */
typedef enum {
  xylInt8 = 0, xylUint8 = 1,
  xylInt32 = 2, xylUint32 = 3,
  xylInt64 = 4, xylUint64 = 5,
  xylFloat16 = 6, xylFloat32 = 7, xylFloat64 = 8, xylBfloat16 = 9,
  xylFloat8e4m3 = 10, xylFloat8e5m2 = 11,
  xylInt16 = 64, xylUint16 = 65
} xylDataType_t;

/* Values 0 to 4 equal NCCL's. Sums and products of integers wrap. xylAvg divides the sum, which for integers has
 * wrapped too, by the number of ranks (integers: towards zero).
 * xylMax and xylMin of floating-point values ignore a NaN where another rank has a number. */
typedef enum {
  xylSum = 0,
  xylProd = 1,
  xylMax = 2,
  xylMin = 3,
  xylAvg = 4,
  xylBitAnd = 16, /* integers only */
  xylBitOr = 17,
  xylBitXor = 18,
  xylLastRedOp = 0x7fffffff /* no operation; created ones have values from 1024 on */
} xylRedOp_t;

/* Where a created operation's scalar is; values equal NCCL's. */
typedef enum {
  xylScalarDevice = 0,       /* in memory that the device reaches: read when the operation runs on its stream */
  xylScalarHostImmediate = 1 /* in host memory: read before the creating call returns */
} xylScalarResidence_t;

/* Fills *version with XYL_VERSION_CODE of the library that is running.
 * Errors: xylInvalidArgument if version is NULL. */
xylResult_t xylGetVersion(int *version);

/* A constant English phrase for a result code; never NULL, also for codes that do not exist. */
const char *xylGetErrorString(xylResult_t result);

/* The sentence that belongs to the last error of comm, or of the calling thread if comm is NULL (errors of
 * xylCommInit* and wrong handles). "" if there was none. The text belongs to the calling thread and stays as it
 * is until that thread calls xylGetLastError again. */
const char *xylGetLastError(xylComm_t comm);

/* Collects `bytes_per_rank` bytes of every rank, in rank order, into recv (ranks * bytes_per_rank bytes).
 * Called by xylCommInitOob only, on every rank the same number of times with the same size. Returns 0, or
 * anything else to make the initialisation fail; it must not throw. One that cannot tell by itself that a rank has
 * died calls xylCommInitWait while it waits. */
typedef int (*xylAllgatherFunc_t)(void *context, const void *send, void *recv, size_t bytes_per_rank);

/* Creates this rank's communicator of `ranks` ranks (collective over them). The allgather is used only before
 * this returns. Device buffers will live on the calling thread's current CUDA device, if the process has one.
 * Ranks may be processes or threads of one process; all of them must be on one machine.
 * Errors (comm is then set to NULL): xylInvalidArgument (NULL, rank outside 0..ranks-1, too many ranks),
 * xylInvalidUsage (versions differ, unknown or malformed XYLEM_* variable, ranks on several machines, a process
 * forked from one that has communicators), xylSystemError, xylRemoteError (another rank could not, or the
 * allgather failed, or a rank died and the allgather noticed: xylCommInitWait), xylTimeout (another rank did not hand
 * over its memory, or did not come and the allgather asked).
 * Where the devices cannot reach each other's memory, a warning says so and only host buffers are served. */
xylResult_t xylCommInitOob(xylComm_t *comm, int ranks, int rank, xylAllgatherFunc_t allgather, void *context);

/* For the allgather of xylCommInitOob, in a loop while it waits for other ranks, on the thread that called it: gives
 * the processor away for a moment, and says whether they are still worth waiting for. Nothing else can: the library
 * cannot end a wait that is not its own. missing: a rank whose part has not come yet, or -1 if that is not known.
 * Returns xylSuccess: go on. Anything else: return from the allgather now, with another value than 0 (send and recv
 * are no longer its own then, so that what may still arrive has to go elsewhere); xylCommInitOob fails with
 * xylRemoteError: a rank has died, which is known within milliseconds once the ranks' first allgather is over; or
 *   the missing rank has failed and left; the text names it;
 * xylTimeout: this call of the allgather has lasted XYLEM_TIMEOUT (XYLEM_CONNECT_TIMEOUT if that is longer); the text
 *   names the missing rank.
 * Further errors: xylInvalidArgument (missing is neither a rank nor -1), xylInvalidUsage (the calling thread is not in
 * an allgather that the library has called). */
xylResult_t xylCommInitWait(int missing);

/* What the ranks of one communicator have in common: opaque bytes, which the program carries from the rank that made
 * them to the others by whatever way it has (a file, a socket, MPI_Bcast). They hold a secret: whoever reads them can
 * take a rank's place. */
#define XYL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[XYL_UNIQUE_ID_BYTES];
} xylUniqueId;

/* Fills *id for one communicator that is yet to be made. Called by one process, usually that of rank 0; a thread of it
 * listens at the machine's addresses (XYLEM_SOCKET_IFNAME chooses) until all ranks have come, and passes on what they
 * tell each other until they are initialised. So that process must not end before, and an id serves once.
 * Errors: xylInvalidArgument (NULL), xylInvalidUsage (malformed XYLEM_* variable, or no such interface),
 * xylSystemError. */
xylResult_t xylGetUniqueId(xylUniqueId *id);

/* Creates this rank's communicator of the `ranks` ranks that call this with the same id (collective over them). Ranks
 * may be processes or threads; several ranks of one thread are created in a group (xylGroupStart), and then *comm is
 * set when the group ends. Else as xylCommInitOob. The rank that comes first waits XYLEM_TIMEOUT for the last.
 * Errors (*comm is then NULL): those of xylCommInitOob, and: xylInvalidArgument (an id that xylGetUniqueId did
 * not make, or that was damaged on its way), xylInvalidUsage (ranks were given different numbers of ranks, or two the
 * same rank, or another id is served where this one was), xylRemoteError (nobody serves the id any more, a rank or
 * the process that serves it ended), xylTimeout (nobody answered within XYLEM_CONNECT_TIMEOUT, or ranks did not come:
 * the text names them). */
xylResult_t xylCommInitRank(xylComm_t *comm, int ranks, xylUniqueId id, int rank);

/* How a communicator is made. Always begun with XYL_CONFIG_INITIALIZER; fields that a later version adds have their
 * defaults for programs that were compiled before. */
typedef struct {
  size_t size;          /* sizeof(xylConfig_t) */
  int blocking;         /* 1: calls that make the communicator return when it is made. 0: they return xylInProgress at
                         * once, with *comm set; xylCommGetAsyncError gives xylInProgress until it is made, then
                         * xylSuccess or what it failed with. Until then every call on it but xylCommGetAsyncError,
                         * xylGetLastError, xylCommAbort and xylCommDestroy returns xylInvalidArgument. Also for
                         * xylCommFinalize. */
  int splitShare;       /* xylCommSplit: 1 allows to share memory with the parent. This version never does. */
  const char *commName; /* begins every error text of the communicator; copied; NULL: none */
} xylConfig_t;
#define XYL_CONFIG_INITIALIZER \
  { sizeof(xylConfig_t), 1, 0, NULL }

/* xylCommInitRank with a configuration; NULL stands for XYL_CONFIG_INITIALIZER.
 * Returns xylInProgress with blocking = 0.
 * Errors: those of xylCommInitRank, and xylInvalidArgument (a size that no version had, blocking or splitShare
 * neither 0 nor 1). With blocking = 0, those that need the other ranks come from xylCommGetAsyncError, and *comm has
 * to be destroyed then. */
xylResult_t xylCommInitRankConfig(xylComm_t *comm, int ranks, xylUniqueId id, int rank, const xylConfig_t *config);

/* Creates all `ranks` communicators of one process: comms[i] is rank i, on CUDA device devices[i] (one device may serve
 * several ranks) or, where there is no device or devices[i] is -1, for host memory alone. devices NULL: rank i is on
 * device i, and if there are fewer devices they serve several ranks in turn. Calls of one thread for all ranks belong
 * between xylGroupStart and xylGroupEnd. It is not recorded in a group, but runs at once.
 * Errors (all of comms are then NULL): xylInvalidArgument (comms NULL, too many ranks, no such device), and those of
 * xylCommInitOob. */
xylResult_t xylCommInitAll(xylComm_t *comms, int ranks, const int *devices);

/* For ranks that take no part. */
#define XYL_SPLIT_NOCOLOR (-1)

/* *newcomm becomes the communicator of those ranks of comm that pass the same color (0 or above), ranks in the order of
 * their keys, and of their ranks in comm where keys are equal; NULL with XYL_SPLIT_NOCOLOR. Collective over comm, which
 * stays as it is; needs nothing of what comm was made with, so it works after MPI_Finalize. The new communicator has
 * comm's device. In a group *newcomm is set when the group ends. Calls of other threads on comm wait for it.
 * config: as for xylCommInitRankConfig; NULL: blocking, no name. Returns xylInProgress with blocking = 0; comm is in
 * progress as well until that has ended, and xylCommDestroy of it waits. A rank without a color always waits for the
 * others to come.
 * Errors (*newcomm is then NULL): xylInvalidArgument (NULL, a color below -1, not a communicator, config as above),
 * xylInvalidUsage (other ranks called something else, or wrong environment), xylSystemError, xylRemoteError,
 * xylTimeout. */
xylResult_t xylCommSplit(xylComm_t comm, int color, int key, xylComm_t *newcomm, const xylConfig_t *config);

/* Waits until this rank's work on streams is done; afterwards comm takes no more calls that communicate. Waits for no
 * peer beyond that, and is no substitute for xylCommDestroy. For a communicator that was made with blocking = 0 it
 * returns xylInProgress, and xylCommGetAsyncError tells when it is done.
 * Errors: xylInvalidArgument (not a communicator), xylInvalidUsage (it was finalized before), xylUnhandledCudaError. */
xylResult_t xylCommFinalize(xylComm_t comm);

/* Calls of this thread from xylGroupStart to xylGroupEnd are recorded, with their arguments checked, and run when the
 * outermost xylGroupEnd is called: first those that make communicators (xylCommInitRank, xylCommInitRankConfig,
 * xylCommSplit), at the same time but for splits of one communicator; then those that communicate: of each
 * communicator those on host memory and those on device memory, each in the order in which they were called, the
 * communicators at the same time. So one thread may drive several ranks, and calls on several
 * communicators need no common order among the ranks. Everything else (queries, xylCommAbort, xylCommDestroy, ...)
 * is done at once, also in a group. Groups may be nested; the inner xylGroupEnd does nothing.
 * Pointers that a recorded call was given stay valid until the outermost xylGroupEnd returns; then results in host
 * memory are complete, and work on device memory is enqueued.
 *
 * xylGroupEnd returns xylSuccess; xylInProgress if a communicator with blocking = 0 was begun; else the first error. If
 * a call in the group returned an error, nothing is run and xylGroupEnd returns that error. If a communicator cannot be
 * made, calls that communicate are not run. If all ranks of a communicator are in the group and on one GPU, and their
 * calls on device memory differ, that communicator's calls on host memory are not run either.
 * xylInvalidUsage: no group is open, or calls that differ. */
xylResult_t xylGroupStart(void);
xylResult_t xylGroupEnd(void);

/* Releases the communicator after this rank's outstanding work on streams has finished; waits for no peer beyond
 * that. Graphs that captured its calls must not run any more. Legal after MPI_Finalize, after an error and after
 * xylCommAbort; NULL is accepted.
 * Errors: xylInvalidArgument (not a communicator). */
xylResult_t xylCommDestroy(xylComm_t comm);

/* Makes every rank leave its outstanding and later operations with xylRemoteError naming this rank. Needs no
 * peer's help, may be called from any thread at any time before xylCommDestroy, and twice.
 * Errors: xylInvalidArgument (not a communicator). */
xylResult_t xylCommAbort(xylComm_t comm);

/* *error becomes xylSuccess, or why the communicator is out of service: for operations enqueued on streams, which
 * fail after the call that enqueued them has returned, the only sign. Waits for nothing.
 * Errors: xylInvalidArgument (NULL, not a communicator). */
xylResult_t xylCommGetAsyncError(xylComm_t comm, xylResult_t *error);

/* The number of ranks; this rank's number; its CUDA device, -1 where it has none.
 * Errors: xylInvalidArgument (NULL, not a communicator). */
xylResult_t xylCommCount(xylComm_t comm, int *count);
xylResult_t xylCommUserRank(xylComm_t comm, int *rank);
xylResult_t xylCommDevice(xylComm_t comm, int *device);

/* Writes a description of comm to buffer: a JSON object, in UTF-8, ended by a zero byte. It says what was found (the
 * ranks' processes, NUMA nodes and devices, the machine, the links between GPUs with where each number came from), what
 * was chosen (the order of rings, the algorithm for each size, on host and device memory, and who says so), what else
 * was considered with predicted times, what was measured of links ("probe": XYLEM_PROBE) and of allreduce
 * ("measured_times": XYLEM_TUNE), the registered buffers, and notes, such as why device memory is not used. All of it
 * is the same on every rank but "this_rank" and the notes on its device, and stays the same while comm lives, but for
 * "registered". "plan" can be edited and given to XYLEM_PLAN.
 * *length: the bytes of buffer; set to the bytes that the text takes, the zero included. buffer NULL: only *length is
 * set, whatever it was. A buffer that is too short becomes "" (if it has a byte), *length says what is needed, and
 * xylInvalidArgument is returned. Not collective; also where communication has failed.
 * Errors: xylInvalidArgument (length NULL, buffer too short, not a communicator), xylSystemError (no memory). */
xylResult_t xylCommDescribe(xylComm_t comm, char *buffer, size_t *length);

/* The collectives. What holds for all of them:
 *
 * Calls: every rank of the communicator calls the same function with the same count, type, operation and root, on the
 *   same kind of memory, in the same order.
 * Buffers: elements of `type`, aligned to the element type; those that a call uses on this rank are all in host
 *   memory, or all reachable by this communicator's device (device, pinned or managed memory). Buffers that it does
 *   not use (of a rank that is not the root), or whose count is 0, may be NULL. Buffers may be the same in the way
 *   that "in place" says; other overlap of input and output is an error of the caller. Counts: any, also 0 and above
 *   2^31.
 * Stream: host buffers: returns when this rank's output is complete and its input may be changed; `stream` is ignored
 *   and not waited for. Device buffers: the work is enqueued on `stream`, may be captured into a CUDA graph, and
 *   errors of it appear in xylCommGetAsyncError and in later calls.
 * Arithmetic: 8- and 16-bit floating-point types accumulate in fp32. All algorithms add in rank order and round once
 *   per element, except that a ring (of xylAllReduce alone: where XYLEM_ALGO or XYLEM_PLAN says so, and of large
 *   messages between GPUs where it is predicted to be the fastest; never with XYLEM_DETERMINISTIC=1) adds in its own
 *   order and rounds after each rank. Results in the 8-bit types that are too large, infinities included, become the
 *   largest finite value.
 * Errors: xylInvalidArgument (NULL buffer with count > 0, buffer not aligned to its element, unknown type or
 *   operation, bitwise operation on a floating-point type, root or peer that is no rank, host and device memory
 *   mixed, memory of another device, count too large); xylInvalidUsage (the ranks' calls differ: nobody's output is
 *   touched); xylRemoteError; xylTimeout; xylUnhandledCudaError.
 * Small reduces, broadcasts, gathers and scatters (to 4096 bytes a piece) of host memory: a rank that only sends may
 *   return before the others have called. That the calls differ, or that a rank never comes, is then found by ranks
 *   that get something, and here by later calls; and outputs of ranks whose own messages agree may have been written
 *   by then. */

/* recvbuff[i] = op over all ranks of sendbuff[i], for i in 0..count-1, with the same bits on every rank.
 * In place: sendbuff == recvbuff. Stream and errors: as above. */
xylResult_t xylAllReduce(const void *sendbuff, void *recvbuff, size_t count, xylDataType_t type, xylRedOp_t op,
                         xylComm_t comm, xylStream_t stream);

/* The same on rank `root` alone; recvbuff is not used on the others. The root's bits are those of xylAllReduce.
 * In place: sendbuff == recvbuff on the root. Stream and errors: as above. */
xylResult_t xylReduce(const void *sendbuff, void *recvbuff, size_t count, xylDataType_t type, xylRedOp_t op,
                      int root, xylComm_t comm, xylStream_t stream);

/* Every rank's recvbuff becomes the root's sendbuff (count elements). sendbuff is not used on the others.
 * In place: sendbuff == recvbuff on the root. Stream and errors: as above. */
xylResult_t xylBroadcast(const void *sendbuff, void *recvbuff, size_t count, xylDataType_t type, int root,
                         xylComm_t comm, xylStream_t stream);

/* Rank r's recvbuff (recvcount elements) becomes block r of the reduced input; sendbuff holds ranks * recvcount
 * elements. In place: recvbuff == sendbuff + rank * recvcount elements. Stream and errors: as above. */
xylResult_t xylReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, xylDataType_t type,
                             xylRedOp_t op, xylComm_t comm, xylStream_t stream);

/* Block r of everybody's recvbuff (ranks * sendcount elements) becomes rank r's sendbuff (sendcount elements).
 * In place: sendbuff == recvbuff + rank * sendcount elements. Stream and errors: as above. */
xylResult_t xylAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, xylDataType_t type,
                         xylComm_t comm, xylStream_t stream);

/* Block r of this rank's sendbuff becomes block `rank` of rank r's recvbuff; blocks of `count` elements, one for
 * every rank in both buffers. In place: sendbuff == recvbuff. Stream and errors: as above. */
xylResult_t xylAlltoAll(const void *sendbuff, void *recvbuff, size_t count, xylDataType_t type, xylComm_t comm,
                        xylStream_t stream);

/* Block r of the root's recvbuff (ranks * count elements) becomes rank r's sendbuff (count elements); recvbuff is
 * not used on the others. In place: sendbuff == recvbuff + root * count elements on the root. Stream and errors:
 * as above. */
xylResult_t xylGather(const void *sendbuff, void *recvbuff, size_t count, xylDataType_t type, int root,
                      xylComm_t comm, xylStream_t stream);

/* Rank r's recvbuff (count elements) becomes block r of the root's sendbuff (ranks * count elements); sendbuff is
 * not used on the others. In place: recvbuff == sendbuff + root * count elements on the root. Stream and errors:
 * as above. */
xylResult_t xylScatter(const void *sendbuff, void *recvbuff, size_t count, xylDataType_t type, int root,
                       xylComm_t comm, xylStream_t stream);

/* Sends `count` elements to rank `peer`, which calls xylRecv with the same count and type; only the two of them
 * call. Messages from one rank to another arrive in order. A send is over when its buffer may be changed, which
 * can be before the peer calls: that the calls differ, or that the peer never comes, is then found by the peer,
 * and here by later calls. Stream and errors: as above; besides xylInvalidUsage (peer is this rank). */
xylResult_t xylSend(const void *sendbuff, size_t count, xylDataType_t type, int peer, xylComm_t comm,
                    xylStream_t stream);

/* Receives `count` elements that rank `peer` sends. recvbuff is untouched if the calls differ.
 * Stream and errors: as xylSend. */
xylResult_t xylRecv(void *recvbuff, size_t count, xylDataType_t type, int peer, xylComm_t comm,
                    xylStream_t stream);

/* stream NULL, or a communicator without a device: returns when every rank has called it; no stream is waited for.
 * Else: what is enqueued on `stream` after it begins when every rank's stream has come to its barrier (for the
 * default stream pass cudaStreamLegacy or cudaStreamPerThread).
 * Errors: xylInvalidArgument (not a communicator), xylInvalidUsage, xylRemoteError, xylTimeout,
 * xylUnhandledCudaError as above. */
xylResult_t xylBarrier(xylComm_t comm, xylStream_t stream);

/* *op becomes an operation of comm that multiplies this rank's input by a scalar of `type` (rounding to the type)
 * and sums the products; ranks may have different scalars. It is used with that type alone, on every rank an
 * operation made by this function (their numbers need not agree).
 * residence: xylScalarHostImmediate: *scalar is read now. xylScalarDevice: *scalar is read when a call that uses
 * the operation runs, on the device; it is device, pinned or managed memory, stays valid until then, and serves
 * calls on device memory only. Errors: xylInvalidArgument (NULL, unknown type or residence, not a communicator),
 * xylInvalidUsage (a scalar on the device for a communicator without one), xylSystemError (no memory). */
xylResult_t xylRedOpCreatePreMulSum(xylRedOp_t *op, void *scalar, xylDataType_t type,
                                    xylScalarResidence_t residence, xylComm_t comm);

/* Ends the operation; calls that were made with it are not affected, graphs that captured them included.
 * Errors: xylInvalidArgument (not an operation that was created for comm, not a communicator). */
xylResult_t xylRedOpDestroy(xylRedOp_t op, xylComm_t comm);

#ifdef __cplusplus
}
#endif

/* xylMemAlloc and xylCommRegister: buffers that peers use in place */
#include "xylem/xylem_memory.h"
/* xylAllReduceRMSNorm and xylMoeAllReduceRMSNorm */
#include "xylem/xylem_fused.h"
#endif
