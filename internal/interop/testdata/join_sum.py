"""Sums the ranks of a job that several hosts joined."""

import os
import socket

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
host, node = socket.gethostname(), os.environ["GROUP_RANK"]
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {host}, node {node}: sum {total.item()}", flush=True)
dist.destroy_process_group()
