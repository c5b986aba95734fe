"""Start functions and programs as the ranks of one job: on this machine, over SSH or inside Slurm.

launch() runs a function in each rank and returns the results. elastic_launch() does it with the interface of
torch.distributed.launcher.api. run() runs one of gorun's command lines, and Job starts one without waiting for its end.
A job that fails raises JobError.

    >>> import gorun
    >>> gorun.launch(pow, (2, 10), nproc_per_node=4)
    [1024, 1024, 1024, 1024]

All of them start the program gorun and read its JSON; what they do not offer is an option of it. They may be called in
any thread. With asyncio, use asyncio.to_thread(gorun.launch, ...).
"""

from __future__ import annotations

import importlib.metadata
import os


def program() -> str:
    """Return the path of the gorun program that was installed with this package.

    Raises FileNotFoundError if it is not there.
    """
    try:
        files = importlib.metadata.files("gorun-launcher") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    places = [str(file.locate()) for file in files if file.name == "gorun" and file.parent.name == "bin"]
    places.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin", "gorun"))  # pip install --target
    for place in places:
        if os.path.isfile(place):
            return os.path.realpath(place)
    raise FileNotFoundError(
        "no gorun program is installed with package gorun: run `pip install --force-reinstall gorun-launcher` on Linux"
    )


from gorun._elastic import LaunchConfig, elastic_launch, launch_agent  # noqa: E402 - they call program
from gorun._job import CompletedJob, Failure, Job, JobError, JobStatus, RankEnd, Report, run  # noqa: E402
from gorun._launch import launch  # noqa: E402

__all__ = [
    "CompletedJob",
    "Failure",
    "Job",
    "JobError",
    "JobStatus",
    "LaunchConfig",
    "RankEnd",
    "Report",
    "elastic_launch",
    "launch",
    "launch_agent",
    "program",
    "run",
]
