"""Trains with checkpoints, loses ranks on the way, and ends as if nothing had happened.

    gorun -n 4 --max-restarts 3 examples/torch/restart.py --checkpoint /tmp/digits.pt --die 1:3 --die 2:7

Rank 0 saves the model and the optimizer after each epoch; every attempt goes on from there. --die RANK:EPOCH kills that rank by SIGKILL
at the beginning of that epoch, once: attempt N obeys the N-th of them (TORCHELASTIC_RESTART_COUNT says which attempt it is).
"""

import argparse
import os
import signal

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", required=True, metavar="FILE")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--die", action="append", default=[], metavar="RANK:EPOCH")
    return parser.parse_args()


def load(path, model, optimizer):
    """Takes up what the last attempt saved, and returns the next epoch and the last loss."""
    if not os.path.exists(path):
        return 0, float("nan")
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"] + 1, saved["loss"]


def save(path, model, optimizer, epoch, loss):
    """Replaces the checkpoint in one step: a rank that dies meanwhile leaves the old one."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "loss": loss}, path + ".new")
    os.replace(path + ".new", path)


def step(model, optimizer, images, labels):
    """One step on this rank's share of the data, with gradients averaged over all ranks; returns the mean loss."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


def main():
    opts = options()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    torch.manual_seed(1)
    data = load_digits()
    images = torch.tensor(data.data[rank::size], dtype=torch.float32) / 16
    labels = torch.tensor(data.target[rank::size])
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    first, loss = load(opts.checkpoint, model, optimizer)
    for epoch in range(first, opts.epochs):
        if attempt < len(opts.die) and opts.die[attempt] == f"{rank}:{epoch}":
            os.kill(os.getpid(), signal.SIGKILL)
        loss = step(model, optimizer, images, labels)
        if rank == 0:
            save(opts.checkpoint, model, optimizer, epoch, loss)
    if rank == 0:
        print(f"attempt {attempt} went on from epoch {first}; last loss {loss!r}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
