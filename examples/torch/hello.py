"""The smallest PyTorch job: meet, add up, leave.

    gorun --nproc-per-node 4 examples/torch/hello.py
    torchrun --nproc-per-node 4 examples/torch/hello.py

No address, port or rank is named here: the launcher puts them into the environment.
"""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    assert total.item() == size * (size + 1) / 2
    print(f"rank {rank} of {size}: 1 + … + {size} = {total.item():g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
