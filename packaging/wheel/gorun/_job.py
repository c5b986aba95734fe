"""Jobs: command lines of gorun, and what gorun's JSON says about them."""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Any, Callable, TextIO, TypeVar, Union

import gorun

Word = Union[str, "os.PathLike[str]"]
T = TypeVar("T")


class _Directory:
    """A private directory. Those of processes that were killed are removed when the next one is made.

    Its process holds a lock of it, which ends with the process. The kernel that knows the lock is in the name.
    """

    def __init__(self, prefix: str, parent: str | None = None) -> None:
        with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
            prefix += file.read()[:8] + "-"
            if parent is None:
                self._sweep(prefix)
        while True:  # until no other process takes it for an old one before it is locked
            self.name = os.path.realpath(tempfile.mkdtemp(prefix=prefix, dir=parent))
            try:
                lock = os.open(self.name, os.O_RDONLY)
            except FileNotFoundError:
                continue
            with contextlib.suppress(OSError):  # a file system may have no locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.isdir(self.name):
                break
            os.close(lock)
        self.cleanup = weakref.finalize(self, self._remove, self.name, lock)

    @staticmethod
    def _remove(name: str, lock: int) -> None:
        shutil.rmtree(name, ignore_errors=True)
        os.close(lock)

    @staticmethod
    def _sweep(prefix: str) -> None:
        with os.scandir(tempfile.gettempdir()) as entries:
            for entry in entries:
                if not entry.name.startswith(prefix):
                    continue
                with contextlib.suppress(OSError):
                    lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                    try:
                        if os.fstat(lock).st_uid == os.geteuid():
                            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                            shutil.rmtree(entry.path, ignore_errors=True)
                    finally:
                        os.close(lock)


def _parse(kind: type[T], data: Mapping[str, Any]) -> T:
    """Make a dataclass of the fields of a JSON object that it knows."""
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in known})


@dataclasses.dataclass(frozen=True)
class RankEnd:
    """How one rank ended.

    fate is "succeeded", "failed", "stopped" (gorun ended it), "followed" (it failed after another one), "not started"
    or "unknown". exit_code is 128+n after signal n. host is None in a job on one node.
    """

    rank: int
    fate: str
    exit_code: int
    host: str | None = None
    pid: int | None = None
    signal: int | None = None
    signal_name: str | None = None
    ended_at: str | None = None


@dataclasses.dataclass(frozen=True)
class Failure(RankEnd):
    """The rank that failed first, with what it left: a traceback, its last lines, and a hint."""

    description: str = ""
    after_seconds: float = 0
    traceback: Sequence[str] = ()
    last_lines: Sequence[str] = ()
    log: str | None = None
    hint: str | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    """How a job ended.

    cause is "done", "rank failed", "start failed", "signal", "timeout" or another word of gorun's JSON reference. Times
    are RFC 3339. data is the whole report, with all its fields.
    """

    cause: str
    exit_code: int
    world_size: int
    started_at: str
    ended_at: str
    elapsed_seconds: float
    hosts: Sequence[str] = ()
    ranks: Sequence[RankEnd] = ()
    job: str | None = None
    text: str | None = None
    hint: str | None = None
    first_failure: Failure | None = None
    attempts: Sequence[Mapping[str, Any]] = ()
    log_directory: str | None = None
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> Report:
        first = data.get("first_failure")
        return dataclasses.replace(
            _parse(cls, data),
            ranks=[_parse(RankEnd, rank) for rank in data["ranks"]],
            first_failure=first and _parse(Failure, first),
            data=data,
        )


@dataclasses.dataclass(frozen=True)
class JobStatus:
    """A job that runs: what `gorun ps --json` says.

    state is "running", "ending", "restarting" or "suspended". ranks are JSON objects: see gorun's JSON reference.
    """

    job: str
    state: str
    program: str
    pid: int
    started_at: str
    world_size: int
    running_rank_count: int
    hosts: Sequence[str] = ()
    arguments: Sequence[str] = ()
    attempt: int = 0
    ranks: Sequence[Mapping[str, Any]] = ()


class JobError(Exception):
    """A job failed.

    rank and host say where it began, unless it was in no rank. traceback is that of the rank, and __cause__ its
    exception, if it raised one that could be pickled. report is gorun's, or None if gorun wrote nothing.
    """

    __module__ = "gorun"

    def __init__(
        self,
        message: str,
        *,
        returncode: int = 1,
        report: Report | None = None,
        rank: int | None = None,
        host: str | None = None,
        traceback: str | None = None,
    ) -> None:
        Exception.__init__(self, message)  # elastic_launch's has a second base, with other arguments
        self.returncode = returncode
        self.report = report
        self.rank = rank
        self.host = host
        self.traceback = traceback


def _host_of(report: Report, rank: int) -> str:
    host = next((end.host for end in report.ranks if end.rank == rank), None)
    return host or (report.hosts[0] if report.hosts else "this host")


def _describe(returncode: int, report: Report | None, stderr: str) -> JobError:
    """Make the error of a job that failed."""
    first = report.first_failure if report else None
    if report is None:
        return JobError(f"gorun ended with exit code {returncode}" + (stderr and f":\n{stderr}"), returncode=returncode)
    if first is None:
        lines = [report.text or f"the job ended with exit code {returncode}: {report.cause}"]
        lines += ["hint: " + report.hint] if report.hint else []
        return JobError("\n".join(lines), returncode=returncode, report=report)
    host = _host_of(report, first.rank)
    text = "\n".join(first.traceback or first.last_lines)
    lines = [f"rank {first.rank} on {host}: {first.description}"] + ([text] if text else [])
    lines += ["hint: " + first.hint] if first.hint else []
    return JobError(
        "\n".join(lines),
        returncode=returncode,
        report=report,
        rank=first.rank,
        host=host,
        traceback="\n".join(first.traceback) or None,
    )


class CompletedJob(subprocess.CompletedProcess[str]):
    """What run() and Job.wait() return: a subprocess.CompletedProcess with gorun's report.

    report is None if gorun did not write one, as for a mistake on the command line.
    """

    def __init__(self, args: list[str], returncode: int, stdout: str, stderr: str, report: Report | None) -> None:
        super().__init__(args, returncode, stdout, stderr)
        self.report = report

    def check_returncode(self) -> None:
        """Raise JobError if the exit code is not 0."""
        if self.returncode:
            raise _describe(self.returncode, self.report, self.stderr)


class _Pump:
    """Copies one stream of gorun to a text stream of this process, or keeps it."""

    def __init__(self, target: TextIO | None, transform: Callable[[bytes], bytes] | None = None) -> None:
        self.text: list[str] = []
        self._target = target
        self._transform = transform
        self._thread: threading.Thread | None = None

    def start(self, source: IO[bytes]) -> None:
        self._thread = threading.Thread(target=self._copy, args=(source,), name="gorun-output", daemon=True)
        self._thread.start()

    def join(self) -> None:
        if self._thread:
            self._thread.join()

    def _copy(self, source: IO[bytes]) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with source:
            while True:
                chunk = source.read1(1 << 16)  # type: ignore[attr-defined]
                data = self._transform(chunk) if self._transform else chunk
                self._write(decoder.decode(data, final=not chunk))
                if not chunk:
                    return

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._target is None:
            self.text.append(text)
            return
        try:
            self._target.write(text)
            self._target.flush()
        except (OSError, ValueError):  # closed: ranks need not wait for it
            pass


class Job:
    """Start a command line of gorun without waiting for its end.

        with gorun.Job(["-n", "4", "train.py"]) as job:
            print(job.status())
            job.wait(timeout=3600)

    command are the words behind `gorun`. Ranks write to sys.stdout and sys.stderr of the caller, also where a notebook
    or a test has replaced them; capture_output=True keeps their output for CompletedJob. Standard input is empty unless
    stdin is a file. env replaces the environment. The job ends with the process that started it, however that ends.

    Leaving the with statement stops a job that still runs.
    """

    def __init__(
        self,
        command: Sequence[Word],
        *,
        cwd: Word | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        capture_output: bool = False,
        _name: str = "gorun",
        _transform: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.args = [_name, *(os.fspath(word) for word in command)]
        self._program = gorun.program()
        self._env = dict(os.environ if env is None else env)
        self._directory = _Directory("gorun-report-")
        self._report: Report | None = None
        self._report_file = os.path.join(self._directory.name, "report.json")
        streams = (sys.stdout, sys.stdout is sys.__stdout__), (sys.stderr, sys.stderr is sys.__stderr__)
        self._pumps = [
            None
            if own and not capture_output and not transform
            else _Pump(None if capture_output else stream, transform)
            for (stream, own), transform in zip(streams, (_transform, None))
        ]
        environ = {**self._env, "GORUN_REPORT": self._report_file, "GORUN_STOP_WITH": str(os.getpid())}
        if self._pumps[0] and not capture_output and (not streams[0][1] or sys.stdout.isatty()):
            environ.setdefault("GORUN_LABEL", "always")
        for stream, own in streams:
            if own and stream:
                stream.flush()
        try:
            self._process = subprocess.Popen(
                self.args,
                executable=self._program,
                cwd=cwd,
                env=environ,
                stdin=stdin,
                stdout=subprocess.PIPE if self._pumps[0] else None,
                stderr=subprocess.PIPE if self._pumps[1] else None,
                start_new_session=True,  # a signal to this process's group must not reach it twice
            )
        except BaseException:
            self._directory.cleanup()
            raise
        for pump, source in zip(self._pumps, (self._process.stdout, self._process.stderr)):
            if pump and source:
                pump.start(source)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<gorun.Job {self.args!r} returncode={self.poll()}>"

    @property
    def pid(self) -> int:
        """The process ID of gorun."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code of gorun, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> CompletedJob:
        """Wait until the job has ended and return how.

        Raises subprocess.TimeoutExpired after timeout seconds; the job goes on. A KeyboardInterrupt stops the job and
        is raised when it has ended.
        """
        try:
            returncode = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise
        except BaseException:
            self.stop(signal.SIGINT)
            raise
        texts = ["".join(pump.text) if pump else "" for pump in self._finish()]
        return CompletedJob(self.args, returncode, texts[0], texts[1], self._report)

    def stop(self, signal: int = signal.SIGTERM) -> None:
        """Stop the job gracefully and wait for its end; do nothing if it has ended.

        Ranks get the signal, then SIGKILL after the grace period. A KeyboardInterrupt skips that period.
        """
        while True:
            try:
                if self._process.poll() is None:
                    self._process.send_signal(signal)
                self._process.wait()
                self._finish()
                return
            except KeyboardInterrupt:
                continue

    def report(self) -> Report | None:
        """Return gorun's report, or None while the job runs or if gorun did not write one."""
        if self.poll() is not None:
            self._finish()
        return self._report

    def status(self) -> JobStatus | None:
        """Return what the job does, or None before gorun has listed it and after its end."""
        job = self._id()
        jobs = self._query("ps", "--json", job) if job else []
        return next((_parse(JobStatus, data) for data in jobs if data["pid"] == self.pid), None)

    def logs(self, lines: int | None = None, rank: int | None = None) -> str:
        """Return the last lines of each rank, or of one, as `gorun logs` prints them: "" if the job does not run."""
        job = self._id()
        if job is None:
            return ""
        command = ["logs", job] if lines is None else ["logs", "-n", str(lines), job]
        return self._ask(*command, *(() if rank is None else ("--rank", str(rank))))

    def _id(self) -> str | None:
        if self.poll() is not None:
            return None
        return next((str(data["job"]) for data in self._query("ps", "--json") if data["pid"] == self.pid), None)

    def _query(self, *words: str) -> list[Mapping[str, Any]]:
        text = self._ask(*words)
        jobs: list[Mapping[str, Any]] = json.loads(text)["jobs"] if text else []
        return jobs

    def _ask(self, *words: str) -> str:
        done = subprocess.run(
            [self._program, *words],
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode and self.poll() is None:
            raise RuntimeError(f"gorun {' '.join(words)}: {done.stderr.strip()}")
        return "" if done.returncode else done.stdout

    def _finish(self) -> list[_Pump | None]:
        """Take what gorun has left once it has ended."""
        for pump in self._pumps:
            if pump:
                pump.join()
        try:
            with open(self._report_file, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:  # taken before, or never written
            text = ""
        if text:
            self._report = Report._of(json.loads(text))
        self._directory.cleanup()
        return self._pumps


def run(
    command: Sequence[Word],
    *,
    check: bool = False,
    timeout: float | None = None,
    cwd: Word | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    capture_output: bool = False,
) -> CompletedJob:
    """Run a command line of gorun and wait for its end, as subprocess.run does.

        done = gorun.run(["-n", "4", "train.py"], check=True)
        print(done.report.elapsed_seconds)

    command are the words behind `gorun`. With check, a job that fails raises JobError. After timeout seconds the job is
    stopped, and subprocess.TimeoutExpired raised. The other arguments are those of Job.
    """
    with Job(command, cwd=cwd, env=env, stdin=stdin, capture_output=capture_output) as job:
        done = job.wait(timeout)
    if check:
        done.check_returncode()
    return done
