"""Says whether a training step computes or waits for the network. The twin of examples/bottleneck.

    gorun -n 2 examples/torch/bottleneck.py
    gorun -n 2 examples/torch/bottleneck.py --batch 64
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist

LIMIT = 0.3  # the share of communication from which on it is worth doing something about it
ROUNDS = 9


def median(part):
    seconds = []
    for _ in range(ROUNDS):
        dist.barrier()
        begun = time.perf_counter()
        part()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def share(compute, reduce):
    return 100 * reduce / (compute + reduce)


def report(compute, reduce, half):
    now = share(compute, reduce)
    print(f"  compute        {1e3 * compute:8.3f} ms  {100 - now:5.1f} %")
    print(f"  communication  {1e3 * reduce:8.3f} ms  {now:5.1f} %")
    print(f"  step           {1e3 * (compute + reduce):8.3f} ms\n")
    if now <= 100 * LIMIT:
        print(f"compute-bound: communication takes {now:.1f} % of the step, which is not above {100 * LIMIT:.0f} %")
        return
    print(f"communication-bound: it takes {now:.1f} % of the step, which is above {100 * LIMIT:.0f} %. What helps, and the share that it would leave here:")
    print(f"  1. accumulate the gradients of 4 steps, then reduce once    {share(4 * compute, reduce):5.1f} %")
    print(f"  2. a batch that is 4 times as large (--batch)               {share(4 * compute, reduce):5.1f} %")
    print(f"  3. compress gradients, e.g. send the largest tenth          {share(compute, reduce / 10):5.1f} %")
    print(f"  4. a network (on one host: memory) that is twice as fast    {share(compute, reduce / 2):5.1f} %")
    print(f"  5. mixed precision: gradients as bfloat16 (measured)        {share(compute, half):5.1f} %")
    print("and overlap the rest with the backward pass: examples/overlap")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=1024, help="inputs and outputs of the layer")
    parser.add_argument("--batch", type=int, default=1, help="samples in a step, of each rank")
    opts = parser.parse_args()
    dist.init_process_group("gloo")
    layer, data = torch.nn.Linear(opts.width, opts.width, bias=False), torch.randn(opts.batch, opts.width, requires_grad=True)
    full = torch.zeros(opts.width**2)
    half = full.bfloat16()
    parts = [lambda: layer(data).sum().backward(), lambda: dist.all_reduce(full), lambda: dist.all_reduce(half)]
    seconds = torch.tensor([median(part) for part in parts], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        size = dist.get_world_size()
        print(f"{size} ranks, {opts.width} × {opts.width} weights ({4e-6 * len(full):.1f} MB of gradients), batch {opts.batch} (backend gloo)\n")
        report(*seconds.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
