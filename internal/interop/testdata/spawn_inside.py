"""A rank that starts a process of its own with torch.multiprocessing; the two share a tensor's memory."""

import os

import torch
import torch.multiprocessing as mp


def square(value):
    value.pow_(2)


def main():
    rank = int(os.environ["RANK"])
    value = torch.tensor(rank + 2).share_memory_()
    child = mp.get_context("spawn").Process(target=square, args=(value,))
    child.start()
    child.join()
    assert child.exitcode == 0
    print(f"rank {rank}: {rank + 2} squared is {value.item()}")


if __name__ == "__main__":
    main()
