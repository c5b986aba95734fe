"""Gloo's side of internal/bench: torch.distributed with the loop of csrc/commloop.h, which says what is read and answered.

gloo.py BYTES, under a launcher that torch.distributed.init_process_group understands.
"""

import gc
import os
import socket
import sys
import time

import torch
import torch.distributed as dist

FLOATS_PER_LINE = 16
BLOCKS = ("allgather", "reducescatter", "alltoall")


class Loop:
    def __init__(self, size):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.send = torch.ones(size // 4, dtype=torch.float32)
        self.recv = torch.ones(size // 4, dtype=torch.float32)

    def prepared(self, operation, size):
        """The call, without arguments, and the cache lines of its input and its result."""
        count = max(size // 4 // (self.ranks if operation in BLOCKS else 1), 1)
        one, all_sent = self.send[:count], self.send[: count * self.ranks]
        got, all_got = self.recv[:count], self.recv[: count * self.ranks]
        after, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks

        def sendrecv():
            sent = dist.isend(one, after)
            dist.recv(got, before)
            sent.wait()

        def pingpong():
            last = self.ranks - 1
            if self.rank == 0:
                dist.send(one, last)
            if self.rank in (0, last):
                dist.recv(got, last - self.rank)
            if self.rank == last:
                dist.send(one, 0)

        call, given, result = {
            # In place: torch.distributed has no other.
            "allreduce": (lambda: dist.all_reduce(one), one, one),
            "reduce": (lambda: dist.reduce(one, 0), one, one),
            "broadcast": (lambda: dist.broadcast(one, 0), one, one),
            "allgather": (lambda: dist.all_gather_into_tensor(all_got, one), one, all_got),
            "reducescatter": (lambda: dist.reduce_scatter_tensor(got, all_sent), all_sent, got),
            "alltoall": (lambda: dist.all_to_all_single(all_got, all_sent), all_sent, all_got),
            "sendrecv": (sendrecv, one, got),
            "pingpong": (pingpong, one, got),
            "barrier": (dist.barrier, self.send[:0], got),
        }[operation]
        return call, given[::FLOATS_PER_LINE], result

    def serve(self, task):
        operation, size, warm, calls, _ = task.split()
        call, lines, result = self.prepared(operation, int(size))
        warm, calls = int(warm), int(calls)
        for i in range(warm):
            lines.fill_((i & 1023) + self.rank)
            call()
        dist.barrier()
        begin = time.monotonic_ns()
        for i in range(calls):
            lines.fill_((i & 1023) + self.rank)
            call()
        called = time.monotonic_ns()
        first = float(result[0])
        write_begin = time.monotonic_ns()
        for i in range(calls):
            lines.fill_((i & 1023) + self.rank)
        written = time.monotonic_ns()
        return f"{called - begin} {written - write_begin} 0 {first:g}\n"


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    loop = Loop(int(sys.argv[1]))
    dist.barrier()
    gc.disable()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["COMMBENCH_SOCKET"])
    lines = connection.makefile("rw")
    lines.write(f"hello {loop.rank} {os.getpid()} {time.monotonic_ns()}\n")
    lines.flush()
    with torch.inference_mode():
        for task in lines:
            lines.write(loop.serve(task))
            lines.flush()
    dist.destroy_process_group()


main()
