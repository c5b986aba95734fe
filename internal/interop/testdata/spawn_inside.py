"""A rank that starts a process of its own with torch.multiprocessing and gets a tensor back through shared memory."""

import os

import torch
import torch.multiprocessing as mp


def square(inbox, outbox):
    outbox.put(inbox.get() ** 2)


def main():
    rank = int(os.environ["RANK"])
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    child = context.Process(target=square, args=(inbox, outbox))
    child.start()
    inbox.put(torch.tensor(rank))
    print(f"rank {rank}: {rank} squared is {outbox.get().item()}")
    child.join()
    assert child.exitcode == 0


if __name__ == "__main__":
    main()
