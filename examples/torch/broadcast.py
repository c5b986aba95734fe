"""Shows what a broadcast does: rank 0 has 42s, and then everybody has. The twin of examples/broadcast.

    gorun -n 4 examples/torch/broadcast.py
    torchrun --nproc-per-node 4 examples/torch/broadcast.py
"""

import torch
import torch.distributed as dist

ELEMENTS = 4


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
    dist.init_process_group("gloo")
    tensor = torch.full((ELEMENTS,), 42.0 if dist.get_rank() == 0 else 0.0)
    show("before broadcast from rank 0", tensor)
    dist.broadcast(tensor, src=0)
    show("after broadcast", tensor)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
