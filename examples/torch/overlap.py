"""Shows what it brings to reduce gradients while the backward pass still computes. The twin of examples/overlap.

    gorun -n 2 examples/torch/overlap.py

Before: the whole backward pass, then one all-reduce for each parameter's gradient. After: DistributedDataParallel, which begins a bucket's all-reduce
as soon as its gradients are there.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def one_after_the_other(model, data):
    model(data).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def reduce_only(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def same_gradients(plain, wrapped, data):
    """Fails unless both ways lead to the same gradients."""
    plain.zero_grad()
    wrapped.zero_grad()
    one_after_the_other(plain, data)
    wrapped(data).sum().backward()
    for ours, theirs in zip(wrapped.module.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def median(samples):
    """The median of this rank's samples, of the slowest rank, in milliseconds."""
    slowest = torch.tensor([1e3 * statistics.median(samples)], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=512, help="a layer has width × width weights")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--bucket-cap-mb", type=float, default=4)
    parser.add_argument("--steps", type=int, default=15)
    opts = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    plain = torch.nn.Sequential(*(torch.nn.Linear(opts.width, opts.width) for _ in range(opts.layers)))
    wrapped = DistributedDataParallel(
        torch.nn.Sequential(*(torch.nn.Linear(opts.width, opts.width) for _ in range(opts.layers))), bucket_cap_mb=opts.bucket_cap_mb
    )
    wrapped.module.load_state_dict(plain.state_dict())
    data = torch.randn(opts.batch, opts.width)
    plain(data).sum().backward()  # so that there are gradients
    kinds = {
        "compute alone            ": lambda: plain(data).sum().backward(),
        "communication alone      ": lambda: reduce_only(plain),
        "before: one after another": lambda: one_after_the_other(plain, data),
        "after: overlapped        ": lambda: wrapped(data).sum().backward(),
    }
    samples = {name: [] for name in kinds}
    for _ in range(opts.steps):
        for name, step in kinds.items():
            plain.zero_grad(set_to_none=False)
            wrapped.zero_grad(set_to_none=False)
            dist.barrier()
            begun = time.perf_counter()
            step()
            samples[name].append(time.perf_counter() - begun)
    medians = {name: median(times) for name, times in samples.items()}
    same_gradients(plain, wrapped, data)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks; {opts.layers} layers of {4e-6 * opts.width**2:.1f} MB")
        for name, milliseconds in medians.items():
            print(f"  {name} {milliseconds:8.2f} ms" + (" a step" if ":" in name else ""))
        _, _, before, after = medians.values()
        print(f"overlapped takes {after / before:.2f} of the time")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
