"""Hosts a store at a free port and waits for a second worker that never comes."""

import torch.distributed as dist

dist.TCPStore("127.0.0.1", 0, 2, True)
