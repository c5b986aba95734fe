"""Trains a small network on scikit-learn's handwritten digits with DistributedDataParallel.

    gorun --nproc-per-node 4 examples/torch/digits_ddp.py
    torchrun --nproc-per-node 4 examples/torch/digits_ddp.py

The data (1,797 images of 8×8 pixels) ships with scikit-learn. Everything is seeded, so two runs with the same number of ranks and
OMP_NUM_THREADS=1 give the same losses, whichever launcher started them; --losses FILE writes them in full precision to compare.
"""

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

TEST_IMAGES = 360  # held back from training: a fifth


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="loader processes per rank")
    parser.add_argument("--losses", metavar="FILE", help="rank 0 writes the mean loss of each step here, one a line")
    return parser.parse_args()


def digits(seed):
    """Returns the training and the test set, shuffled alike on every rank."""
    data = load_digits()
    images = torch.tensor(data.data, dtype=torch.float32) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    images, labels = images[order], labels[order]
    split = len(labels) - TEST_IMAGES
    return TensorDataset(images[:split], labels[:split]), TensorDataset(images[split:], labels[split:])


def mean_over_ranks(value):
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train(model, data, opts):
    """Runs all epochs and returns the mean loss of each step."""
    sampler = DistributedSampler(data, seed=opts.seed)
    loader = DataLoader(data, batch_size=opts.batch, sampler=sampler, num_workers=opts.workers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_of = torch.nn.CrossEntropyLoss()
    losses = []
    for epoch in range(opts.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()  # DDP averages the gradients of all ranks here
            optimizer.step()
            losses.append(mean_over_ranks(loss))
    return losses


@torch.no_grad()
def accuracy(model, data):
    """Each rank judges every size-th test image; the counts are added up."""
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels = data.tensors
    right = (model(images[rank::size]).argmax(1) == labels[rank::size]).sum().float()
    dist.all_reduce(right)
    return right.item() / len(labels)


def main():
    opts = options()
    dist.init_process_group("gloo")
    torch.manual_seed(opts.seed)
    training, test = digits(opts.seed)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)))

    losses = train(model, training, opts)
    reached = accuracy(model, test)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, {len(losses)} steps, last loss {losses[-1]:.4f}, accuracy {100 * reached:.2f} %")
        if opts.losses:
            with open(opts.losses, "w", encoding="ascii") as file:
                file.writelines(f"{loss!r}\n" for loss in losses)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
