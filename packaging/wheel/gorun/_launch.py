"""Functions as ranks."""

from __future__ import annotations

import base64
import importlib.util
import inspect
import linecache
import os
import pickle
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Callable, NoReturn, TypeVar

from gorun._job import CompletedJob, Job, JobError, _describe, _Directory, _host_of

T = TypeVar("T")


def launch(
    fn: Callable[..., T],
    args: Iterable[object] = (),
    kwargs: Mapping[str, object] | None = None,
    nproc_per_node: int | str | None = 2,
    hosts: str | Sequence[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    timeout: float | None = None,
    directory: str | None = None,
) -> list[T]:
    """Call fn(*args, **kwargs) in each rank of a job, and return the results by rank.

        def train(steps):
            torch.distributed.init_process_group("gloo")
            ...
            return loss

        losses = gorun.launch(train, (1000,), nproc_per_node=4, hosts=["node1", "node2"])

    nproc_per_node is a number, "gpu", "cpu" or "auto", or None for the slots of hosts=["node1:2", "node2:4"]. hosts are
    names as for `gorun -H`, reached over SSH; without them ranks run here, or on the nodes of the resource manager's job. A host needs the Python that runs this, at the
    same path, and no package gorun. Ranks find their number in the environment, as with torchrun: RANK, LOCAL_RANK,
    WORLD_SIZE. Their output appears on sys.stdout and sys.stderr.

    env are further variables for ranks. options are further options of gorun, such as ["--max-restarts", "2"]. After
    timeout seconds the job is stopped. directory is where the function and the results lie meanwhile, readable by you
    only; where a resource manager starts ranks on several nodes, it must be a directory that all of them see.

    cloudpickle pickles the function if it is installed; it also takes functions of notebooks, lambdas and closures.
    Otherwise functions must be found in a module, or in a script that protects its main program by
    `if __name__ == "__main__":`. What cannot be pickled raises pickle.PicklingError, which names it.

    If the job fails, JobError says which rank failed first, on which host, and contains its traceback. Results of other
    hosts are unpickled here: use hosts that you trust. A KeyboardInterrupt stops the job.
    """
    with _Call(fn, tuple(args), dict(kwargs or {}), directory) as call:
        done = call.launch(nproc_per_node, hosts, env or {}, options, timeout)
        world = done.report.world_size if done.report else 0
        return [call.result(done, rank) for rank in range(world)]


class _Call:
    """A call of a function in ranks: a private directory with what _rank.py reads and writes."""

    def __init__(
        self, fn: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object], parent: str | None = None
    ) -> None:
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self.nonce = secrets.token_hex(8)
        self._private = _Directory("gorun-launch-", parent)
        self.directory = self._private.name
        try:
            shutil.copyfile(os.path.join(os.path.dirname(__file__), "_rank.py"), self.program[0])
            self._write(fn, args, kwargs)
        except BaseException:
            self._private.cleanup()
            raise
        head = (
            rb"(?:(?:\x1b\[[\d;]*m)?\[ *\d+\] (?:\x1b\[0m)?)?\x02gorun %s (\d+\.\d+\.(?:ok|error)) "
            % self.nonce.encode()
        )
        self._frame = re.compile(head + rb"(\d+) (\d+) ([A-Za-z0-9+/=]+)\x03\n")
        self._rest = b""

    @property
    def program(self) -> list[str]:
        return [os.path.join(self.directory, "main.py"), self.directory]

    def __enter__(self) -> _Call:
        return self

    def __exit__(self, kind: object, error: object, trace: TracebackType | None) -> None:
        self._private.cleanup()

    def _write(self, fn: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        pickler: Any = pickle
        if importlib.util.find_spec("cloudpickle"):
            pickler = importlib.import_module("cloudpickle")
        main = getattr(sys.modules["__main__"], "__file__", None)
        call = {
            "nonce": self.nonce,
            "pickler": pickler.__name__,
            "python": tuple(sys.version_info[:2]),
            "path": [os.path.abspath(entry) for entry in sys.path],
            "argv": sys.argv,
            # By value, cloudpickle needs no script; by reference, pickle does.
            "main": os.path.abspath(main) if main and pickler is pickle and _from_main(fn) else None,
            # Cells come behind the script, whose functions they may have defined again.
            "script": main,
            "sources": {
                name: linecache.getlines(name)
                for name in [*([main] if main else []), *list(linecache.cache)]
                if name == main or not os.path.exists(name)
            },
        }
        if call["main"]:  # whose classes have this module in ranks, and in results
            sys.modules["__mp_main__"] = sys.modules["__main__"]
        with open(os.path.join(self.directory, "call.pickle"), "wb") as file:
            pickle.dump(call, file)
            try:
                if pickler is pickle and not main and _from_main(fn):
                    raise pickle.PicklingError(f"function {self.name} is in no file")
                pickler.dump((fn, args, kwargs), file, protocol=pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                _refuse(pickler, fn, args, kwargs, error)

    def launch(
        self,
        nproc_per_node: int | str | None,
        hosts: str | Sequence[str] | None,
        env: Mapping[str, str],
        options: Sequence[str] = (),
        timeout: float | None = None,
    ) -> CompletedJob:
        """Run the job that the arguments of launch() describe."""
        words = [] if nproc_per_node is None else ["--nproc-per-node", str(nproc_per_node)]
        if hosts is not None:
            words += ["--host", hosts if isinstance(hosts, str) else ",".join(hosts)]
            words += ["--copy", self.directory, "--chdir", os.getcwd()]
        for name in env:
            words += ["-x", name]
        if timeout is not None:
            words += ["--timeout", str(timeout)]
        return self.run([*words, *options, *self.program], env, remote=hosts is not None)

    def run(
        self, words: Sequence[str], env: Mapping[str, str], remote: bool = False, name: str = "gorun"
    ) -> CompletedJob:
        """Run the job, and raise its error if it fails."""
        environ = {**os.environ, **env, "GORUN_PYTHON": sys.executable or "python3"}
        with Job(words, env=environ, _name=name, _transform=self._take if remote else None) as job:
            done = job.wait()
        if done.returncode:
            error = _describe(done.returncode, done.report, done.stderr)
            raise self._with_traceback(error) from self._cause
        return done

    _cause: BaseException | None = None

    def _with_traceback(self, error: JobError) -> JobError:
        """Add what the rank has written about its exception."""
        path = error.report and error.rank is not None and self._file(error.rank, len(error.report.attempts), "error")
        if not path or not os.path.exists(path):
            return error
        with open(path, "rb") as file:
            line, text, pickled = pickle.load(file)
        try:
            self._cause = pickle.loads(pickled) if pickled else None
        except Exception:  # its class cannot be made here
            pass
        return JobError(
            f"rank {error.rank} on {error.host}: {line}\n\n{text.rstrip()}",
            returncode=error.returncode,
            report=error.report,
            rank=error.rank,
            host=error.host,
            traceback=text,
        )

    def result(self, done: CompletedJob, rank: int) -> Any:
        """Return the result of a rank of a job that has ended with 0."""
        assert done.report
        try:
            return self._load(rank, len(done.report.attempts))
        except FileNotFoundError:
            host = _host_of(done.report, rank)
            raise JobError(
                f"rank {rank} on {host}: it ended with exit code 0, and {self.name} returned nothing that arrived here",
                returncode=0,
                report=done.report,
                rank=rank,
                host=host,
            ) from None

    def results(self, done: CompletedJob) -> dict[int, Any]:
        """Return the results of this node's ranks. A node that joined others has a report without ranks and attempts."""
        if done.report and done.report.ranks and len(done.report.hosts) == 1:
            return {end.rank: self.result(done, end.rank) for end in done.report.ranks}
        names = [name.split(".") for name in os.listdir(self.directory) if name.endswith(".ok")]
        last = max((int(attempt) for _, attempt, _ in names), default=0)
        ranks = sorted(int(rank) for rank, attempt, _ in names if int(attempt) == last)
        return {rank: self._load(rank, last) for rank in ranks}

    def _load(self, rank: int, attempt: int) -> Any:
        with open(self._file(rank, attempt, "ok"), "rb") as file:
            return pickle.load(file)

    def _file(self, rank: int, attempt: int, kind: str) -> str:
        return os.path.join(self.directory, f"{rank}.{attempt}.{kind}")

    def _take(self, chunk: bytes) -> bytes:
        """Take results of other hosts out of the output. An empty chunk ends it."""
        data = self._rest + chunk
        end = data.rfind(b"\n") + 1 if chunk else len(data)
        self._rest = data[end:]
        lines = data[:end]
        return self._frame.sub(self._frame_arrived, lines) if b"\x02gorun" in lines else lines

    def _frame_arrived(self, match: re.Match[bytes]) -> bytes:
        name, offset, size, text = match.groups()
        data = base64.b64decode(text)
        path = os.path.join(self.directory, name.decode())
        with open(path + ".part", "ab" if int(offset) else "wb") as file:
            if file.tell() != int(offset):
                return b""
            file.write(data)
        if int(offset) + len(data) == int(size):
            os.replace(path + ".part", path)
        return b""


def _from_main(fn: object) -> bool:
    return getattr(fn, "__module__", None) in ("__main__", "__mp_main__")


def _refuse(
    pickler: Any, fn: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object], error: Exception
) -> NoReturn:
    """Raise the error that names what cannot be pickled."""
    parts: list[tuple[str, object]] = [(f"args[{i}]", value) for i, value in enumerate(args)]
    parts += [(f"kwargs[{name!r}]", value) for name, value in kwargs.items()]
    name = getattr(fn, "__qualname__", repr(fn))
    if pickler is not pickle and inspect.isfunction(fn):
        seen = inspect.getclosurevars(fn)
        parts += [(f"variable {v} of {name}", value) for v, value in {**seen.globals, **seen.nonlocals}.items()]
    for what, value in parts:
        try:
            pickler.dumps(value)
        except Exception as cause:
            raise pickle.PicklingError(
                f"{what}, of type {type(value).__qualname__}, cannot be pickled: {cause}; make it inside the function"
            ) from error
    way = "" if pickler is not pickle else "; `pip install cloudpickle`, or move the function into a module"
    raise pickle.PicklingError(f"function {name} cannot be pickled: {error}{way}") from error
