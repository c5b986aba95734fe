"""Serves PyTorch's own TCPStore (libuv) on a free port of 127.0.0.1 until a signal comes.

Prints HOST:PORT and how many seconds it took to open the store: that needs a name look-up, which can be long.
"""

import resource
import signal
import time

from torch.distributed import TCPStore

# 10,000 connections: PyTorch's server takes the limit as it finds it.
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

begin = time.monotonic()
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
print(f"127.0.0.1:{store.port} {time.monotonic() - begin}", flush=True)
while True:
    signal.pause()
