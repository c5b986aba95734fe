"""gorun starts a program as the ranks of one job, on this machine, over SSH or inside Slurm."""

import importlib.metadata
import os


def program() -> str:
    """Return the path of the gorun program that was installed with this package.

    Raises FileNotFoundError if it is not there.
    """
    for file in importlib.metadata.files("gorun-launcher") or ():
        if file.name == "gorun" and file.parent.name == "bin":
            return os.path.realpath(str(file.locate()))
    raise FileNotFoundError("the gorun program of package gorun-launcher is not there: install the package again")
