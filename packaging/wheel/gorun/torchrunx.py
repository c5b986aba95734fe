"""The interface of package torchrunx 0.4: programs that use it need only another import.

    from gorun import torchrunx

    results = torchrunx.Launcher(hostnames=["node1", "node2"], workers_per_host=4).run(train, model, data)

Ranks need PyTorch unless backend is None. Their output appears on sys.stdout and sys.stderr. The function is pickled by
cloudpickle, which must be installed, as with torchrunx.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Generic, Literal, TypeVar, Union

from gorun._job import JobError, _host_of
from gorun._launch import _Call

__all__ = ["DEFAULT_ENV_VARS_FOR_COPY", "AgentFailedError", "LaunchResult", "Launcher", "WorkerFailedError"]

T = TypeVar("T")

DEFAULT_ENV_VARS_FOR_COPY = (
    "PATH",
    "LD_LIBRARY*",
    "LIBRARY_PATH",
    "PYTHON*",
    "CUDA*",
    "TORCH*",
    "PYTORCH*",
    "NCCL*",
)


class WorkerFailedError(JobError):
    """A rank ended without an exception: by a signal, say."""


class AgentFailedError(JobError):
    """A host was lost, could not be reached, or could not start the ranks."""


@dataclasses.dataclass
class LaunchResult(Generic[T]):
    """What the ranks returned: results[hostname][local rank]."""

    results: dict[str, list[T]]

    def index(self, hostname: str, local_rank: int) -> T:
        """Return the result of a rank of a host."""
        return self.results[hostname][local_rank]

    def rank(self, i: int) -> T:
        """Return the result of rank i."""
        return [result for results in self.results.values() for result in results][i]


@dataclasses.dataclass
class Launcher:
    """The settings of a launch, with the names and defaults of torchrunx.Launcher.

    hostnames are names as for `gorun -H`. "auto" and "slurm" take the nodes of the Slurm job; "auto" takes this host
    outside of one. workers_per_host is a number, a list with one for each host, "gpu" or "cpu". worker_timeout and
    agent_timeout are in seconds: of the process group, and of reaching a host. backend None makes no process group.
    copy_env_vars are names or prefixes with "*". env_file has lines NAME=VALUE. With tyro, the fields become options.
    """

    hostnames: Union[Sequence[str], Literal["auto", "slurm"]] = "auto"
    workers_per_host: Union[int, Sequence[int], Literal["cpu", "gpu"]] = "gpu"
    ssh_config_file: Union[str, Path, None] = None
    backend: Union[Literal["nccl", "gloo", "mpi", "ucc"], None] = "nccl"
    worker_timeout: int = 600
    agent_timeout: int = 60
    copy_env_vars: Sequence[str] = DEFAULT_ENV_VARS_FOR_COPY
    extra_env_vars: Union[dict[str, str], None] = None
    env_file: Union[str, Path, None] = None

    def set_logging_handlers(self, handler_factory: object) -> Launcher:
        """Accept "auto" only: gorun itself shows the output, and writes it to files if GORUN_LOG_DIR is set."""
        if handler_factory != "auto":
            raise NotImplementedError('gorun has no handlers for logging: use "auto", and GORUN_LOG_DIR for log files')
        return self

    def run(self, func: Callable[..., T], *args: Any, **kwargs: Any) -> LaunchResult[T]:
        """Call func(*args, **kwargs) in each rank, within a process group.

        An exception of a rank is raised here, too. WorkerFailedError and AgentFailedError are a JobError.
        """
        hosts, workers = self._place()
        with _Call(_in_group(func, self.backend, self.worker_timeout), args, kwargs) as call:
            try:
                done = call.launch(workers, hosts, self._env(), self._options(hosts is not None))
            except JobError as error:
                raise error.__cause__ or _failed(error) from error
            assert done.report
            results: dict[str, list[T]] = {}
            for rank in range(done.report.world_size):
                host = _host_of(done.report, rank) if hosts or _in_slurm() else "localhost"
                results.setdefault(host, []).append(call.result(done, rank))
        return LaunchResult(results)

    def _place(self) -> tuple[list[str] | None, int | str | None]:
        hosts = None if isinstance(self.hostnames, str) else list(self.hostnames)
        if self.hostnames == "slurm" and not _in_slurm():
            raise RuntimeError('hostnames="slurm": this is no Slurm job')
        if isinstance(self.workers_per_host, (int, str)):
            return hosts, self.workers_per_host
        workers = list(self.workers_per_host)
        count = len(hosts) if hosts else 1
        if len(workers) != count:
            raise ValueError(f"workers_per_host has {len(workers)} numbers for {count} host{'s' if count > 1 else ''}")
        if hosts is None:
            return None, workers[0]
        return [f"{host}:{count}" for host, count in zip(hosts, workers)], None

    def _env(self) -> dict[str, str]:
        env: dict[str, str] = {}
        if self.env_file is not None:
            with open(self.env_file) as file:
                for line in file:
                    for word in shlex.split(line, comments=True):
                        name, found, value = word.partition("=")
                        if found:
                            env[name] = value
        return {**env, **(self.extra_env_vars or {})}

    def _options(self, remote: bool) -> list[str]:
        words = ["--ssh-timeout", str(self.agent_timeout)]
        if self.ssh_config_file is not None:
            words += ["--ssh-config", os.path.expanduser(self.ssh_config_file)]
        return words + [word for name in self.copy_env_vars if remote for word in ("-x", name)]


def _in_slurm() -> bool:
    return not {"SLURM_JOB_ID", "SLURM_JOBID"}.isdisjoint(os.environ)


def _in_group(func: Callable[..., T], backend: str | None, timeout: int) -> Callable[..., T]:
    if backend is None:
        return func

    def call(*args: Any, **kwargs: Any) -> T:
        import datetime

        import torch.distributed

        torch.distributed.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout))
        return func(*args, **kwargs)

    call.__name__ = getattr(func, "__name__", type(func).__name__)
    return call


def _failed(error: JobError) -> JobError:
    kind = AgentFailedError if error.rank is None else WorkerFailedError
    return kind(
        str(error),
        returncode=error.returncode,
        report=error.report,
        rank=error.rank,
        host=error.host,
        traceback=error.traceback,
    )
