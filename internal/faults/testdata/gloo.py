"""A rank that adds up numbers with Gloo until it is ordered to end: exit N, signal N, raise."""

import os
import socket
import threading
import traceback

import torch
import torch.distributed as dist

stop = threading.Event()


def obey(orders: socket.socket) -> None:
    for line in orders.makefile():
        verb, _, number = line.strip().partition(" ")
        if verb == "exit":
            os._exit(int(number))
        elif verb == "signal":
            os.kill(os.getpid(), int(number))
        elif verb == "raise":
            stop.set()
            return
    os._exit(70)  # the test is gone


dist.init_process_group("gloo")
one = torch.ones(1000)
dist.all_reduce(one)
conn = socket.socket(socket.AF_UNIX)
conn.connect(os.path.join(os.environ["FAULTS_SCENE"], "s"))
conn.sendall(b"rank %d\n" % dist.get_rank())
threading.Thread(target=obey, args=(conn,), daemon=True).start()
while not stop.is_set():
    dist.all_reduce(torch.ones(1000))
try:
    raise ValueError("ordered to")
except ValueError:
    traceback.print_exc()
    os._exit(1)  # Python's own way out now and then ends in an abort of PyTorch's threads
