"""Teaches a small network to read handwritten digits with DistributedDataParallel. The twin of examples/trainer, whose data it reads.

    gorun -n 4 examples/torch/trainer.py
    torchrun --nproc-per-node 4 examples/torch/trainer.py

DistributedDataParallel's own options are there to be tried: --bucket-cap-mb is how much one all-reduce takes at most,
--gradient-as-bucket-view saves a copy of the gradients, and --find-unused-parameters is for networks of which a step may leave out parts
(it costs a walk through the graph in each step).
"""

import argparse
import csv
import gzip
import pathlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

DATA = pathlib.Path(__file__).parent.parent / "trainer" / "digits.csv.gz"
HELD_OUT, HIDDEN = 360, 128


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64, help="images in a step, of all ranks together")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--bucket-cap-mb", type=float, default=25)
    parser.add_argument("--gradient-as-bucket-view", action="store_true")
    parser.add_argument("--find-unused-parameters", action="store_true")
    return parser.parse_args()


def digits(seed):
    """Returns images and labels, shuffled alike on every rank."""
    with gzip.open(DATA, "rt") as file:
        table = torch.tensor([[float(field) for field in row] for row in csv.reader(file)])
    table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))]
    return table[:, :-1] / 16, table[:, -1].long()


def epoch(model, optimizer, images, labels, opts, number):
    """Goes once through the images, each rank through its slice of every batch; returns this rank's sum of losses."""
    rank, size = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(opts.seed + 1 + number))
    total = 0.0
    for batch in order.split(opts.batch):
        mine = batch[rank * len(batch) // size : (rank + 1) * len(batch) // size]
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine], reduction="sum")
        (loss * size / len(batch)).backward()  # DDP averages over ranks, so that this is the batch's mean
        optimizer.step()
        total += loss.item()
    return total


@torch.no_grad()
def right(model, images, labels):
    """Counts what this rank judges rightly of its share of the images."""
    rank, size = dist.get_rank(), dist.get_world_size()
    return (model(images[rank::size]).argmax(1) == labels[rank::size]).sum().item()


def main():
    opts = options()
    dist.init_process_group("gloo")
    torch.manual_seed(opts.seed)
    images, labels = digits(opts.seed)
    train, test = slice(0, -HELD_OUT), slice(-HELD_OUT, None)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10)),
        bucket_cap_mb=opts.bucket_cap_mb,
        gradient_as_bucket_view=opts.gradient_as_bucket_view,
        find_unused_parameters=opts.find_unused_parameters,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=opts.rate, momentum=0.9)
    count = len(labels) - HELD_OUT
    for number in range(opts.epochs):
        begun = time.perf_counter()
        loss = epoch(model, optimizer, images[train], labels[train], opts, number)
        took = time.perf_counter() - begun
        sums = torch.tensor([loss, right(model, images[test], labels[test])], dtype=torch.float64)
        dist.all_reduce(sums)
        if dist.get_rank() == 0:
            mean, accuracy = sums[0].item() / count, 100 * sums[1].item() / HELD_OUT
            print(f"epoch {number + 1:2}   loss {mean:.4f}   accuracy {accuracy:5.2f} %   {count / took:6.0f} images/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
