"""The program of launch's ranks, which need no package gorun: this file and call.pickle are copied to each host.

The function's result, or its exception, becomes a file beside this one. Where that is a copy on another host, the file
also goes to standard output, which gorun brings to the caller: in lines that the caller takes out again. They fit into
PIPE_BUF, so that other processes of the rank cannot write into them.
"""

import base64
import importlib
import json
import linecache
import os
import pickle
import runpy
import signal
import socket
import sys
import time
import traceback
from types import ModuleType
from typing import Any, BinaryIO, Optional

CHUNK = 2048  # bytes in a line


class Rank:
    def __init__(self) -> None:
        self.directory = os.path.dirname(os.path.abspath(__file__))
        self.here = self.directory == sys.argv[1]
        self.name = f"{os.environ['RANK']}.{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
        self.error_file = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
        self.console = os.dup(1)  # the function may redirect its own
        self.pid = os.getpid()
        self.file: BinaryIO = open(os.path.join(self.directory, "call.pickle"), "rb")
        self.call: dict[str, Any] = pickle.load(self.file)
        self.pickler: Any = pickle

    def main(self) -> int:
        try:
            fn, args, kwargs = self.load()
            try:
                result = fn(*args, **kwargs)
            except SystemExit as exit:
                if exit.code != 0:
                    raise
                result = None
            if os.getpid() != self.pid:  # a process that the function forked
                os._exit(0)
            self.dump(result)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except Exception as error:
            if os.getpid() != self.pid:
                raise
            self.fail(error)
            return 1
        return 0

    def load(self) -> Any:
        """Return the function and its arguments, in a process that looks like the caller's."""
        sys.argv = self.call["argv"]
        sys.path[:] = self.call["path"] + [entry for entry in sys.path[1:] if entry not in self.call["path"]]
        for name, lines in self.call["sources"].items():
            linecache.cache[name] = len("".join(lines)), None, lines, name
        where = f"{sys.executable} (Python {sys.version.split()[0]}) on {socket.gethostname()}"
        if self.call["pickler"] != "pickle":
            if self.call["python"] != sys.version_info[:2]:
                wanted = "Python {}.{}".format(*self.call["python"])
                raise RuntimeError(f"{where} cannot run a function of {wanted}: install the same version")
            try:
                self.pickler = importlib.import_module(self.call["pickler"])
            except ImportError:
                way = "install it there, or put the function into a module"
                raise RuntimeError(f"{where} has no {self.call['pickler']}: {way}") from None
        if self.call["main"]:
            main = ModuleType("__mp_main__")
            main.__dict__.update(runpy.run_path(self.call["main"], run_name="__mp_main__"))
            sys.modules["__main__"] = sys.modules["__mp_main__"] = main
        try:
            with self.file:
                return pickle.load(self.file)
        except (ImportError, AttributeError) as error:
            raise RuntimeError(f"{where} cannot load the function: {error}") from error

    def dump(self, result: object) -> None:
        part = os.path.join(self.directory, self.name + ".part")
        try:
            with open(part, "wb") as file:
                self.pickler.dump(result, file, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            kind = type(result).__qualname__
            raise pickle.PicklingError(f"the result, of type {kind}, cannot be pickled: {error}") from error
        self.deliver(part, "ok")

    def fail(self, error: Exception) -> None:
        """Tell the caller and gorun about an exception, without the frames of this file."""
        line = f"{type(error).__qualname__}: {error}"
        inner = error.__traceback__
        while inner and inner.tb_frame.f_code.co_filename == __file__:
            inner = inner.tb_next
        report = traceback.TracebackException(type(error), error, inner or error.__traceback__)
        report.stack[:] = map(self.locate, report.stack)
        text = "".join(report.format())
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        try:  # gorun may not have made the file's directory yet: it does so once the ranks run
            with open(self.error_file, "w", encoding="utf-8") as file:
                json.dump({"message": {"message": line, "extraInfo": extra}}, file)
        except OSError:  # of no file, too
            sys.stderr.write(text)
        pickled: Optional[bytes] = None
        try:
            pickled = self.pickler.dumps(error)
            pickle.loads(pickled)
        except Exception:
            pickled = None
        part = os.path.join(self.directory, self.name + ".part")
        with open(part, "wb") as out:
            pickle.dump((line, text, pickled), out)
        self.deliver(part, "error")

    def locate(self, frame: traceback.FrameSummary) -> traceback.FrameSummary:
        """Find the line of a function that cloudpickle has taken from a notebook or a script."""
        if frame.filename == "<dynamic-code>" and frame.lineno:
            head = "lambda" if frame.name == "<lambda>" else f"def {frame.name}("
            for name, lines in reversed(list(self.call["sources"].items())):
                if any(head in line for line in lines[: frame.lineno]) and len(lines) >= frame.lineno:
                    place = name if name == self.call["script"] else "<cell>"
                    return traceback.FrameSummary(place, frame.lineno, frame.name, line=lines[frame.lineno - 1].strip())
        return frame

    def deliver(self, part: str, kind: str) -> None:
        path = os.path.join(self.directory, f"{self.name}.{kind}")
        os.replace(part, path)
        if self.here:
            return
        sys.stdout.flush()
        size, offset = os.path.getsize(path), 0
        with open(path, "rb") as file:
            while offset < size:
                data = file.read(CHUNK)
                head = f"\x02gorun {self.call['nonce']} {self.name}.{kind} {offset} {size} ".encode()
                line = head + base64.b64encode(data) + b"\x03\n"
                while line:
                    line = line[os.write(self.console, line) :]
                offset += len(data)


if __name__ == "__main__":
    sys.exit(Rank().main())
