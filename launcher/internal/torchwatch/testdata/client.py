"""A rank whose MASTER_PORT is set where a launcher does not see it: argv[1] is a port at which nobody listens."""

import os
import sys

import torch.distributed as dist

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
dist.init_process_group("gloo")
