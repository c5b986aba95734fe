"""The interface of torch.distributed.launcher.api."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Callable, Union

from gorun._job import Job, JobError, RankEnd, _describe
from gorun._launch import _Call

Entrypoint = Union[Callable[..., Any], str, None]


@dataclasses.dataclass
class LaunchConfig:
    """The settings of elastic_launch, with the names and defaults of torch.distributed.launcher.api.LaunchConfig.

    It needs no torch; elastic_launch takes PyTorch's own as well. rdzv_backend is "c10d" or "static". gorun has no use
    for monitor_interval, start_method, metrics_cfg and event_log_handler. logs_specs is a DefaultLogsSpecs of PyTorch,
    and numa_options its NumaOptions.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = dataclasses.field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = dataclasses.field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None


class elastic_launch:
    """Run a function or a program as ranks, as torch.distributed.launcher.api.elastic_launch does.

        config = gorun.LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=4)
        losses = gorun.elastic_launch(config, train)(1000)
        gorun.elastic_launch(config, sys.executable)("-u", "train.py")

    config is a LaunchConfig of gorun or of PyTorch. A string names a program. The call returns the results of this
    node's ranks by rank, None for programs. It raises JobError, which is a ChildFailedError of PyTorch, too, where that
    class is imported. With several nodes, call it on each.

    Other than PyTorch, it starts new interpreters and pickles the function, so that arguments such as a
    multiprocessing.Queue are refused. As with `gorun --nnodes MIN:MAX`, a job goes on without nodes that are lost.
    health_check_server is ignored: gorun itself serves TORCHELASTIC_HEALTH_CHECK_PORT.
    """

    def __init__(self, config: Any, entrypoint: Entrypoint, health_check_server: object = None) -> None:
        self._config = config
        self._entrypoint = entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(
    config: Any, entrypoint: Entrypoint, args: Sequence[Any], health_check_server: object = None
) -> dict[int, Any]:
    """Do what elastic_launch(config, entrypoint)(*args) does."""
    options = _options(config)
    name = _get_entrypoint_name(entrypoint, args)
    # PyTorch's function does not read torchrun's variables.
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PET_")}
    if not callable(entrypoint):
        with Job([*options, "--no-python", str(entrypoint), *map(str, args)], env=environ, _name="torchrun") as job:
            done = job.wait()
        if done.returncode:
            raise _child_failed(_describe(done.returncode, done.report, done.stderr), name)
        return {end.rank: None for end in done.report.ranks} if done.report else {}
    with _Call(entrypoint, tuple(args), {}) as call:
        try:
            done = call.run([*options, *call.program], environ, name="torchrun")
        except JobError as error:
            raise _child_failed(error, name) from error.__cause__
        return call.results(done)


def _options(config: Any) -> list[str]:
    """Return the options of torchrun that a LaunchConfig of PyTorch, or of gorun, means."""
    several = config.max_nodes > 1
    nodes = f"{config.min_nodes}:{config.max_nodes}" if several else "1"
    words = ["--nnodes", nodes, "--nproc-per-node", str(config.nproc_per_node), "--role", config.role]
    words += ["--max-restarts", str(config.max_restarts), "--signals-to-handle", config.signals_to_handle]
    conf: dict[str, Any] = dict(config.rdzv_configs)
    if config.rdzv_timeout != -1:
        conf["timeout"] = config.rdzv_timeout
    if several or config.rdzv_backend == "static":
        words += ["--rdzv-backend", config.rdzv_backend, "--rdzv-endpoint", config.rdzv_endpoint or "localhost"]
    if several:
        keys = ("timeout", "join_timeout", "last_call_timeout", "is_host")
        known = ",".join(f"{key}={conf[key]}" for key in keys if key in conf)
        words += ["--rdzv-conf", known] if known else []
        words += ["--node-rank", str(conf["rank"])] if "rank" in conf else []
        words += ["--local-addr", config.local_addr] if config.local_addr else []
    optional = {
        "--rdzv-id": config.run_id,
        "--log-line-prefix-template": config.log_line_prefix_template,
        "--numa-binding": config.numa_options and config.numa_options.affinity_mode.value,
        "--duplicate-stdout-filters": ",".join(getattr(config, "duplicate_stdout_filters", None) or ()),
        "--duplicate-stderr-filters": ",".join(getattr(config, "duplicate_stderr_filters", None) or ()),
        "--shutdown-timeout": getattr(config, "shutdown_timeout", None),
    }
    words += [word for option, value in optional.items() if value not in (None, "") for word in (option, str(value))]
    words += ["--virtual-local-rank"] if getattr(config, "virtual_local_rank", False) else []
    return words + _log_options(config.logs_specs)


def _log_options(specs: Any) -> list[str]:
    words = []
    for option, streams in (("--redirects", "_redirects"), ("--tee", "_tee")):
        value = getattr(specs, streams, None)
        if value:
            by_rank = isinstance(value, dict)
            words += [option, ",".join(f"{r}:{int(s)}" for r, s in value.items()) if by_rank else str(int(value))]
    if words:
        words += ["--log-dir", specs.root_log_dir]
    shown = getattr(specs, "_local_ranks_filter", None)
    return words + (["--local-ranks-filter", ",".join(map(str, sorted(shown)))] if shown else [])


def _get_entrypoint_name(entrypoint: Entrypoint, args: Sequence[Any]) -> str:
    if callable(entrypoint):
        return str(getattr(entrypoint, "__name__", type(entrypoint).__name__))
    if entrypoint == sys.executable:
        return next((str(arg) for arg in args if not str(arg).startswith("-")), "")
    return entrypoint or ""


def _child_failed(error: JobError, name: str) -> JobError:
    """Make the error PyTorch's, too, if it can be expected: who catches ChildFailedError has imported it."""
    errors = sys.modules.get("torch.distributed.elastic.multiprocessing.errors")
    if errors is None or error.report is None or error.rank is None:
        return error
    kind = type("JobError", (JobError, errors.ChildFailedError), {"__module__": "gorun", "__doc__": JobError.__doc__})
    child: Any = kind(
        str(error),
        returncode=error.returncode,
        report=error.report,
        rank=error.rank,
        host=error.host,
        traceback=error.traceback,
    )
    child.name = name
    ends = sorted(error.report.ranks, key=lambda end: (end.rank != error.rank, end.rank))
    child.failures = {
        end.rank: _process_failure(errors, end, error if end.rank == error.rank else None)
        for end in ends
        if end.fate in ("failed", "followed")
    }
    return child  # type: ignore[no-any-return]


def _process_failure(errors: Any, end: RankEnd, error: JobError | None) -> Any:
    """Return PyTorch's record of a failed rank. The first is the one with an error, and the earliest."""
    code = -end.signal if end.signal else end.exit_code
    failure = errors.ProcessFailure(local_rank=end.rank, pid=end.pid or 0, exitcode=code, error_file="")
    if error:
        failure.timestamp = int(time.time()) - 1
        failure.message = {"message": str(error), "extraInfo": {"py_callstack": error.traceback or str(error)}}
    return failure
