"""Tests of package gorun. TestWheel runs them where the wheel is installed, TestHosts those of Hosts on its hosts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import glob
import importlib.util
import io
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest
from typing import Any
from unittest import mock

import gorun
from gorun import torchrunx

HOSTS = os.environ.get("INTEROP_HOSTS", "")
if "INTEROP_GORUN" in os.environ:
    gorun.program = lambda: os.environ["INTEROP_GORUN"]


class Odd(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__("odd")


def rank() -> int:
    return int(os.environ["RANK"])


def add(a: int, b: int = 0) -> int:
    print("adding")
    return a + b + rank()


def end(how: str) -> Any:
    if rank() == 1:
        if how == "raise":
            raise ValueError("the cause")
        if how == "early":  # before gorun has made the directory of error files
            shutil.rmtree(os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"]), ignore_errors=True)
            raise ValueError("the cause")
        if how == "odd":
            raise Odd(1, 2)
        if how == "exit":
            sys.exit(3)
        if how == "leave":
            os._exit(0)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    if how == "return":
        return threading.Lock()
    if how == "fork":
        if os.fork() == 0:
            return "child"
        os.wait()
        return "parent"
    return None


def inner() -> list[int]:
    return gorun.launch(add, (10,))


def fail_once() -> str:
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    if restarts == "0" and rank() == 0:
        raise ValueError("the first attempt")
    return f"{restarts} of {os.environ['WORLD_SIZE']}"


def announce() -> None:
    print("started", flush=True)
    time.sleep(60)


def where(size: int) -> tuple[str, str, bytes]:
    print(f"rank {rank()}", end="")
    return socket.gethostname(), os.getcwd(), bytes(range(256)) * size


def add_up() -> int:
    import torch

    number = torch.tensor(rank() + 1)
    torch.distributed.all_reduce(number)
    return int(number)


def left() -> list[str]:
    return [name for name in os.listdir(os.environ.get("TMPDIR", "/tmp")) if name.startswith("gorun-launch-")]


@unittest.skipIf(HOSTS, "no hosts are needed")
class Launch(unittest.TestCase):
    def test_results(self) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(gorun.launch(add, (1,), {"b": 2}), [3, 4])
        self.assertIn("[1] adding\n", out.getvalue())
        self.assertEqual(gorun.launch(inner), [[10, 11], [10, 11]])
        self.assertEqual(gorun.launch(end, ("fork",)), ["parent", "parent"])
        self.assertEqual(gorun.launch(sys.exit, (0,)), [None, None])
        self.assertEqual(left(), [])

    def test_failures(self) -> None:
        for how, text, cause in (
            ("raise", "ValueError: the cause", ValueError),
            ("odd", "raise Odd(1, 2)", type(None)),
            ("exit", "exit code 3", type(None)),
            ("leave", "returned nothing", type(None)),
            ("kill", "SIGKILL", type(None)),
        ):
            with self.subTest(how), self.assertRaisesRegex(gorun.JobError, "^rank 1 on ") as caught:
                gorun.launch(end, (how,))
            error = caught.exception
            self.assertIn(text, str(error).replace("\\", ""))
            self.assertIs(type(error.__cause__), cause)
            self.assertEqual((error.rank, error.host), (1, socket.gethostname()))
        with self.assertRaisesRegex(gorun.JobError, "ValueError: the cause"):
            gorun.launch(end, ("early",))
        with self.assertRaisesRegex(gorun.JobError, "the result, of type .*lock, cannot be pickled"):
            gorun.launch(end, ("return",))
        with self.assertRaisesRegex(pickle.PicklingError, r"args\[1\], of type lock"):
            gorun.launch(add, (1, threading.Lock()))
        with self.assertRaisesRegex(pickle.PicklingError, "pip install cloudpickle|variable lock"):
            lock = threading.Lock()
            gorun.launch(lambda: lock)
        with self.assertRaisesRegex(gorun.JobError, "gorun ended with exit code 2|unknown option"):
            gorun.launch(add, (1,), options=["--nosuch"])
        self.assertEqual(left(), [])

    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "cloudpickle is not installed")
    def test_traceback_has_lines(self) -> None:
        with self.assertRaises(gorun.JobError) as caught:
            gorun.launch(end, ("raise",))
        self.assertIn(f'File "{__file__}", line', caught.exception.traceback or "")
        self.assertIn('raise ValueError("the cause")', caught.exception.traceback or "")

    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "cloudpickle is not installed")
    def test_torchrunx(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("export A=1 B='2 3' # both\nC=4\n")
            file.flush()
            launcher = torchrunx.Launcher(
                workers_per_host=[2], backend=None, env_file=file.name, extra_env_vars={"C": "5"}
            )
            self.assertIs(launcher.set_logging_handlers("auto"), launcher)
            got = launcher.run(lambda n: (rank() + n, [os.environ[name] for name in "ABC"]), n=1)
        self.assertEqual(got.results, {"localhost": [(1, ["1", "2 3", "5"]), (2, ["1", "2 3", "5"])]})
        self.assertEqual([got.index("localhost", 0), got.rank(1)], got.results["localhost"])
        launcher.env_file = None
        for how, error in (("raise", ValueError), ("exit", torchrunx.WorkerFailedError)):
            with self.subTest(how), self.assertRaises(error):
                launcher.run(end, how)
        with self.assertRaisesRegex(torchrunx.AgentFailedError, "host-of.invalid"):
            torchrunx.Launcher(["host-of.invalid"], 1, backend=None).run(rank)
        with self.assertRaisesRegex(RuntimeError, "no Slurm job"):
            torchrunx.Launcher("slurm").run(rank)
        with self.assertRaisesRegex(ValueError, "2 numbers for 1 host$"):
            torchrunx.Launcher(["a"], [1, 2]).run(rank)

    def test_at_once(self) -> None:
        async def several() -> list[list[int]]:
            return list(await asyncio.gather(*(asyncio.to_thread(gorun.launch, add, (i,)) for i in range(2))))

        self.assertEqual(asyncio.run(several()), [[0, 1], [1, 2]])

    def test_interrupt(self) -> None:
        class Out(io.StringIO):
            def write(self, text: str) -> int:
                if "started" in text:
                    os.kill(os.getpid(), signal.SIGINT)
                return len(text)

        with contextlib.redirect_stdout(Out()), self.assertRaises(KeyboardInterrupt):
            gorun.launch(announce, nproc_per_node=1)
        self.assertEqual(left(), [])


@unittest.skipIf(HOSTS, "no hosts are needed")
class Jobs(unittest.TestCase):
    def test_run(self) -> None:
        done = gorun.run(["-n", "2", "sh", "-c", "echo $RANK"], capture_output=True, check=True)
        assert done.report
        self.assertEqual((sorted(done.stdout), done.report.world_size), (sorted("0\n1\n"), 2))
        with self.assertRaises(gorun.JobError) as caught:
            gorun.run(["-n", "2", "sh", "-c", "exit $RANK"], check=True)
        self.assertEqual(caught.exception.rank, 1)

    def test_job(self) -> None:
        with gorun.Job(["-n", "2", "sh", "-c", "echo here; exec sleep 60"], capture_output=True) as job:
            while not (status := job.status()) or status.running_rank_count < 2:
                self.assertEqual(job.poll(), None)
            while job.logs().count("here") < 2:
                self.assertEqual(job.poll(), None)
            self.assertEqual(job.report(), None)
        report = job.report()
        assert report
        self.assertEqual((report.cause, report.data["signal_name"]), ("signal", "SIGTERM"))
        self.assertEqual((job.status(), job.logs()), (None, ""))

    def test_directory_is_taken_for_an_old_one(self) -> None:
        make, taken = tempfile.mkdtemp, []

        def mkdtemp(**where: Any) -> str:
            name = make(**where)
            if not taken:
                os.rmdir(name)
            taken.append(name)
            return name

        with mock.patch("tempfile.mkdtemp", mkdtemp):
            self.assertEqual(gorun.launch(add, (1,)), [1, 2])
        self.assertGreater(len(taken), 1)

    def test_caller_is_killed(self) -> None:
        directory, before = tempfile.mkdtemp(), tempfile.tempdir
        tempfile.tempdir = directory
        pid = os.fork()
        if pid == 0:
            job = gorun.Job(["-n", "1", "sleep", "60.015625"], capture_output=True)
            while not job.status():
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        while not glob.glob(directory + "/*/report.json"):  # until gorun has ended
            pass
        with gorun.Job(["-n", "1", "sleep", "60"]):
            self.assertEqual(len(os.listdir(directory)), 1)  # its own
            gorun.launch(add, (1,), nproc_per_node=1)  # leaves that of another job, which runs
            self.assertEqual(len(os.listdir(directory)), 1)
        os.rmdir(directory)
        tempfile.tempdir = before

    def test_elastic_launch(self) -> None:
        config = gorun.LaunchConfig(1, 1, 2, max_restarts=0)
        self.assertEqual(gorun.elastic_launch(config, add)(1), {0: 1, 1: 2})
        self.assertEqual(gorun.elastic_launch(config, sys.executable)("-c", "0"), {0: None, 1: None})
        with socket.create_server(("127.0.0.1", 0)) as free:
            endpoint = "127.0.0.1:%d" % free.getsockname()[1]
        config = gorun.LaunchConfig(1, 2, 1, max_restarts=1, rdzv_endpoint=endpoint)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            nodes = [pool.submit(gorun.elastic_launch(config, fail_once)) for _ in range(2)]
        self.assertCountEqual([node.result() for node in nodes], [{0: "1 of 2"}, {1: "1 of 2"}])


@unittest.skipUnless(HOSTS, "hosts are needed")
class Hosts(unittest.TestCase):
    def test_launch(self) -> None:
        out, hosts = io.StringIO(), HOSTS.split(",")
        with contextlib.redirect_stdout(out):
            got = gorun.launch(where, (1 << 12,), hosts=hosts)
        self.assertEqual([host for host, _, _ in got], [host for host in hosts for _ in range(2)])
        self.assertEqual({(place, data) for _, place, data in got}, {(os.getcwd(), bytes(range(256)) * (1 << 12))})
        self.assertEqual(sorted(out.getvalue()), sorted("".join(f"[{i}] rank {i}" for i in range(len(got)))))
        with self.assertRaisesRegex(gorun.JobError, f"^rank 1 on {hosts[1]}: ValueError: the cause\n\nTraceback"):
            gorun.launch(end, ("raise",), nproc_per_node=1, hosts=HOSTS)
        self.assertEqual(left(), [])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_torchrunx(self) -> None:
        hosts = HOSTS.split(",")[:2]
        got = torchrunx.Launcher(hosts, [1, 2], backend="gloo").run(add_up)
        self.assertEqual(got.results, {hosts[0]: [6], hosts[1]: [6, 6]})


if __name__ == "__main__":
    unittest.main()
