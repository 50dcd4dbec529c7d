# SPDX-License-Identifier: BSD-3-Clause
"""A layer's all_reduce + residual + RMSNorm in PyTorch, replaced by one call of Xylem. No build step: ctypes.

    torchrun --nproc-per-node 2 decode_step.py [--tokens 1] [--hidden 7168] [--layers 61]

Runs on GPUs where there are some (one per rank, else shared), on the CPU otherwise; compares both ways with each other
and prints how long a step takes. The library is libxylem.so.0, or what XYLEM_LIBRARY names.
"""
import argparse
import ctypes
import os
import time

import torch
import torch.distributed as dist

FLOAT16, FLOAT32, BFLOAT16 = 6, 7, 9  # xylDataType_t
TYPES = {torch.float16: FLOAT16, torch.float32: FLOAT32, torch.bfloat16: BFLOAT16}
RESIDUAL_RMS_NORM = 1  # xylFusedPattern_t


class Arguments(ctypes.Structure):
    """xylAllReduceRMSNormArgs_t"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("pattern", ctypes.c_int),
        ("type", ctypes.c_int),
        ("weight_type", ctypes.c_int),
        ("eps", ctypes.c_float),
        ("tokens", ctypes.c_size_t),
        ("hidden", ctypes.c_size_t),
        ("input", ctypes.c_void_p),
        ("residual", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("residual_out", ctypes.c_void_p),
        ("quantised", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("gemma_style", ctypes.c_int),
        ("residual_sharded", ctypes.c_int),
    ]


ALLGATHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Xylem:
    """A communicator over the ranks of torch.distributed, which only introduces them to each other."""

    def __init__(self, group):
        self.library = ctypes.CDLL(os.environ.get("XYLEM_LIBRARY", "libxylem.so.0"))
        self.library.xylGetLastError.restype = ctypes.c_char_p
        self.library.xylGetLastError.argtypes = [ctypes.c_void_p]
        self.library.xylAllReduceRMSNorm.argtypes = [ctypes.POINTER(Arguments), ctypes.c_void_p, ctypes.c_void_p]
        self.library.xylCommDestroy.argtypes = [ctypes.c_void_p]
        ranks = dist.get_world_size(group)

        def allgather(_context, send, recv, size):
            mine = torch.frombuffer(bytearray(ctypes.string_at(send, size)), dtype=torch.uint8)
            pieces = [torch.empty(size, dtype=torch.uint8) for _ in range(ranks)]
            dist.all_gather(pieces, mine, group=group)
            ctypes.memmove(recv, bytes(torch.cat(pieces).tolist()), size * ranks)
            return 0

        self.comm = ctypes.c_void_p()
        self._check(self.library.xylCommInitOob(ctypes.byref(self.comm), ranks, dist.get_rank(group),
                                                ALLGATHER(allgather), None), None)

    def _check(self, code, comm):
        if code != 0:
            raise RuntimeError(self.library.xylGetLastError(comm).decode())

    def all_reduce_rms_norm(self, x, residual, weight, eps):
        """x becomes the norm of residual + the sum over ranks of x; residual becomes what was normalised."""
        tokens, hidden = x.shape
        arguments = Arguments(size=ctypes.sizeof(Arguments), pattern=RESIDUAL_RMS_NORM, type=TYPES[x.dtype],
                              weight_type=TYPES[weight.dtype], eps=eps, tokens=tokens, hidden=hidden,
                              input=x.data_ptr(), residual=residual.data_ptr(), weight=weight.data_ptr(),
                              output=x.data_ptr(), residual_out=residual.data_ptr())
        stream = torch.cuda.current_stream().cuda_stream if x.is_cuda else None
        self._check(self.library.xylAllReduceRMSNorm(ctypes.byref(arguments), self.comm, stream), self.comm)

    def close(self):
        self._check(self.library.xylCommDestroy(self.comm), None)


def unfused(x, residual, weight, eps, group):
    """What the call replaces."""
    dist.all_reduce(x, group=group)
    residual += x
    r = residual.float()
    x.copy_(r * torch.rsqrt(r.pow(2).mean(-1, keepdim=True) + eps) * weight.float())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=7168)
    parser.add_argument("--layers", type=int, default=61)
    options = parser.parse_args()

    rank = int(os.environ.get("RANK", "0"))
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    device = "cuda" if on_gpu else "cpu"
    dist.init_process_group("gloo")  # on the CPU: for the introduction, and to compare with
    group = dist.group.WORLD
    xylem = Xylem(group)

    eps = 1e-6
    torch.manual_seed(1)  # residual and weights are the same on all ranks
    shape = (options.tokens, options.hidden)
    residual = torch.randn(shape).bfloat16().to(device)
    weight = (1 + 0.1 * torch.randn(options.hidden)).bfloat16().to(device)
    torch.manual_seed(2 + rank)  # what a row-parallel matrix product would leave on this rank
    partial = torch.randn(shape).bfloat16().to(device)

    expected, expected_residual = partial.float().cpu(), residual.float().cpu()
    unfused(expected, expected_residual, weight.cpu(), eps, group)
    x, r = partial.clone(), residual.clone()
    xylem.all_reduce_rms_norm(x, r, weight, eps)
    # bfloat16 keeps 8 bits; the reference above is in float32 all the way.
    error = (x.float().cpu() - expected).abs().max().item() / expected.abs().max().item()
    assert error < 2**-7, f"rank {rank}: relative error {error}"

    def step():
        for _ in range(2 * options.layers):  # after attention, and after the experts
            x.copy_(partial)
            xylem.all_reduce_rms_norm(x, r, weight, eps)

    if on_gpu:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
        run = graph.replay
    else:
        run = step
    run()
    if on_gpu:
        torch.cuda.synchronize()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(10):
        run()
    if on_gpu:
        torch.cuda.synchronize()
    us = (time.perf_counter() - begin) / 10 * 1e6
    if rank == 0:
        print(f"{dist.get_world_size()} ranks, {options.tokens} x {options.hidden} bfloat16 on {device}: largest error "
              f"{error:.1e}; {us:.0f} us per step of {2 * options.layers} fused allreduces, "
              f"{us / 2 / options.layers:.1f} us each")
    xylem.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
