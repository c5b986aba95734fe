"""Runs programs one after the other in each rank, each in a fork of this process: importing PyTorch is most of what they cost.

    in_turn.py ./overlap.py --layers 2 -- ./reinit.py --steps 2

What each writes into the store is apart from what the ones before wrote: process groups have the same names in all.
"""

import os
import runpy
import sys

import torch.distributed as dist

rendezvous = sys.modules["torch.distributed.rendezvous"]  # by its name in torch.distributed it is a function
create_store = rendezvous._create_c10d_store


def programs(words):
    begun = []
    for word in words:
        if word == "--":
            yield begun
            begun = []
        else:
            begun.append(word)
    yield begun


def main():
    for number, words in enumerate(programs(sys.argv[1:])):
        child = os.fork()
        if child == 0:
            rendezvous._create_c10d_store = lambda *args, **kw: dist.PrefixStore(str(number), create_store(*args, **kw))
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != 0:
            sys.exit(f"{' '.join(words)}: {code}")


if __name__ == "__main__":
    main()
