"""Trains a network twice: by DataParallel's one process, and by DistributedDataParallel's process for each worker.

    gorun -n 2 examples/torch/dataparallel.py
    gorun -n 2 examples/torch/dataparallel.py --layers 16 --width 256

Each step runs first in rank 0 alone while the other ranks wait, then in all ranks. Both ways take the same global batch
and the same CPUs: thread i of the one process runs on those of rank i. With a GPU for each rank, the one process uses
torch.nn.DataParallel. Without GPUs that only calls the module, so OneProcess does its steps on CPUs.
"""

import argparse
import copy
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DataParallel, DistributedDataParallel, replicate


class OneProcess:
    """DataParallel's steps with a thread and its CPUs in place of each GPU."""

    def __init__(self, model, cpus_of_ranks):
        sys.modules["torch.nn.parallel.replicate"]._broadcast_coalesced_reshape = self.broadcast
        self.model, self.seconds = model, {}
        self.threads = [ThreadPoolExecutor(1, initializer=os.sched_setaffinity, initargs=(0, c)) for c in cpus_of_ranks]

    def broadcast(self, weights, devices, detach=False):
        """DataParallel's own needs GPUs. The first device has the weights already."""
        copies = [[tensor.detach().clone().requires_grad_() for tensor in weights] for _ in devices[1:]]
        self.copies = copies if weights else self.copies  # there are no buffers
        return [weights, *copies]

    def timed(self, phase, begun):
        self.seconds.setdefault(phase, []).append(time.perf_counter() - begun)
        return time.perf_counter()

    def in_threads(self, function, *arguments):
        calls = [thread.submit(function, *each) for thread, *each in zip(self.threads, *arguments, strict=True)]
        return [call.result() for call in calls]

    def passes(self, images, labels):
        now = time.perf_counter()
        replicas = replicate(self.model, range(len(self.threads)))
        now = self.timed("replicate", now)
        outputs = self.in_threads(lambda replica, part: replica(part), replicas, images.chunk(len(replicas)))
        now = self.timed("forward", now)
        gathered = torch.cat([output.detach() for output in outputs]).requires_grad_()
        loss = cross_entropy(gathered, labels)
        loss.backward()
        now = self.timed("gather and loss", now)
        self.in_threads(torch.Tensor.backward, outputs, gathered.grad.chunk(len(outputs)))
        now = self.timed("backward", now)
        for weights in zip(self.model.parameters(), *self.copies, strict=True):
            weights[0].grad += sum(copy.grad for copy in weights[1:])
        self.timed("reduce", now)
        return loss


def passes(wrapped, images, labels):
    loss = cross_entropy(wrapped(images), labels)
    loss.backward()
    return loss


def train_step(both_passes, model, images, labels):
    """Returns the seconds of one step, and its loss."""
    begun = time.perf_counter()
    model.zero_grad()
    loss = both_passes(images, labels).item()  # waits for the GPUs
    torch._foreach_add_([w.data for w in model.parameters()], [w.grad for w in model.parameters()], alpha=-0.05)
    return time.perf_counter() - begun, loss


def report(name, steps):
    """Prints the median time of rank 0's steps, and returns it."""
    median = 1e3 * statistics.median(seconds for seconds, _ in steps)
    print(f"  {name:24} {median:8.2f} ms a step, loss {steps[0][1]:.4f} to {steps[-1][1]:.4f}")
    return median


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=64, help="a layer has width × width weights")
    parser.add_argument("--batch", type=int, default=32, help="samples of each rank")
    parser.add_argument("--steps", type=int, default=50)
    opts = parser.parse_args()
    if min(vars(opts).values()) < 1:
        parser.error("all numbers are at least 1")
    local_rank, rank, ranks = (int(os.environ[name]) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))
    if os.environ["LOCAL_WORLD_SIZE"] != str(ranks):
        parser.error("one process runs on one node only: start all ranks on one")
    gpus = torch.cuda.device_count() >= ranks
    device = torch.device("cuda", local_rank) if gpus else torch.device("cpu")
    dist.init_process_group("nccl" if gpus else "gloo", device_id=device if gpus else None)
    waiting = dist.new_group(backend="gloo")  # NCCL's kernels would wait on the GPUs that DataParallel uses
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)  # rounding grows through many layers: the losses are to be equal
    kinds = [torch.nn.LayerNorm(opts.width), torch.nn.Linear(opts.width, opts.width), torch.nn.ReLU()]
    layers = [copy.deepcopy(kind) for _ in range(opts.layers) for kind in kinds]
    ours = torch.nn.Sequential(*layers, torch.nn.Linear(opts.width, 10)).to(device)
    theirs = copy.deepcopy(ours)
    images = torch.randn(opts.batch * ranks, opts.width, device=device)
    labels = images[:, :10].argmax(1)
    part = [whole.chunk(ranks)[rank] for whole in (images, labels)]
    cpus_of_ranks = [None] * ranks
    dist.all_gather_object(cpus_of_ranks, os.sched_getaffinity(0), waiting)
    alone = partial(passes, DataParallel(ours, list(range(ranks)))) if gpus else OneProcess(ours, cpus_of_ranks).passes
    ddp = partial(passes, DistributedDataParallel(theirs))
    before, after = [], []
    for _ in range(opts.steps):
        if rank == 0:
            before.append(train_step(alone, ours, images, labels))
        dist.barrier(waiting)
        seconds, loss = train_step(ddp, theirs, *part)
        mean = torch.tensor([loss / ranks])
        dist.all_reduce(mean, group=waiting)
        after.append((seconds, mean.item()))
    if rank == 0:
        print(f"{opts.layers} layers of width {opts.width}, {ranks} × {opts.batch} samples a step")
        slow = report(f"one process, {ranks} {'GPUs' if gpus else 'threads'}", before)
        for phase, times in ({} if gpus else alone.__self__.seconds).items():
            print(f"    {phase:22} {1e3 * statistics.median(times):8.2f} ms")
        print(f"one process takes {slow / report(f'DDP, {ranks} processes', after):.2f} times as long as DDP")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
