"""Shows what an all-reduce does: every rank has 1s, and then everybody has their sum. The twin of examples/allreduce.

    gorun -n 2 examples/torch/allreduce.py
    gorun -n 4 examples/torch/allreduce.py --op max

Gloo has no average: --op avg sums and divides.
"""

import argparse

import torch
import torch.distributed as dist

ELEMENTS = 4
REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "prod": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "avg": dist.ReduceOp.SUM,
}


def show(title, tensor):
    """Rank 0 prints every rank's tensor in one box, so that ranks don't print at once."""
    rank, size = dist.get_rank(), dist.get_world_size()
    everybodys = [torch.empty_like(tensor) for _ in range(size)] if rank == 0 else None
    dist.gather(tensor, everybodys, dst=0)
    if rank == 0:
        line = "+---------+" + "-" * (5 * len(tensor) + 1) + "+"
        rows = [f"| rank {r:<2} |" + "".join(f" {value:4g}" for value in row.tolist()) + " |" for r, row in enumerate(everybodys)]
        print("\n".join([title, line, *rows, line]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", choices=REDUCTIONS, default="sum", help="for all but sum rank r has 1 + r")
    op = parser.parse_args().op
    dist.init_process_group("gloo")
    tensor = torch.full((ELEMENTS,), 1.0 + (dist.get_rank() if op != "sum" else 0))
    show(f"before all-reduce ({op})", tensor)
    dist.all_reduce(tensor, REDUCTIONS[op])
    if op == "avg":
        tensor /= dist.get_world_size()
    show("after all-reduce", tensor)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
