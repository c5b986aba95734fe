# Imports modules once and then forks a process for each rank, which finds them imported.
#
# Arguments: the agent's pid and the modules. Requests come on descriptor 3 with the rank's files and a socket for the
# answer; see forkserver.go. Each rank is a grandchild, so that the agent, which adopts orphans, becomes its parent.
import builtins
import ctypes
import importlib
import importlib.machinery
import io
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time
import warnings

SOURCE = "<gorun>"

def serve(requests):
    """Returns in each rank, with its request."""
    while True:
        size, files, _, _ = socket.recv_fds(requests, 4, 5, socket.MSG_WAITALL)
        body = requests.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL) if size else b""
        if not body:
            os._exit(0)  # the agent has ended
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 and later: some modules have threads
            child = os.fork()
            if child == 0:
                parent = os.getpid()
                if os.fork():
                    os._exit(0)
                requests.close()
                return body, files, parent
        os.waitpid(child, 0)
        for fd in files:
            os.close(fd)


def failure(do, *args):
    """Returns the number of the error of do, 0 for none."""
    try:
        do(*args)
    except OSError as e:
        return e.errno
    return 0


def show(command):
    """Overwrites this process's command line, for ps. The server's is as long as a rank's."""
    with open("/proc/self/stat", "rb") as file:
        first, end = map(int, file.read().rpartition(b")")[2].split()[45:47])  # arg_start, arg_end
    ctypes.memmove(first, command[:end - first].ljust(end - first, b"\0"), end - first)


def become_rank(agent, body, files, parent):
    """Makes this process the rank of a request, and returns its arguments and the index of its program."""
    libc = ctypes.CDLL(None, use_errno=True)

    def set_memory_policy(call, policy, nodes):
        mask = sum(1 << int(n) for n in nodes.split(b","))
        words = [mask >> shift & (1 << 64) - 1 for shift in range(0, mask.bit_length(), 64)]
        if libc.syscall(int(call), int(policy), (ctypes.c_uint64 * len(words))(*words), 64 * len(words) + 1):
            raise OSError(ctypes.get_errno(), "")

    while os.getppid() == parent:
        time.sleep(0.0002)
    libc.prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != agent:
        os._exit(1)
    os.setsid()
    *streams, answer = files
    for i, fd in enumerate(streams):
        os.dup2(fd, i)
        os.close(fd)
    directory, program, count, cpus, call, policy, nodes, *words = body.split(b"\0")
    if directory:
        os.chdir(directory)
    coerced = os.environ.get("LC_CTYPE") == "C.UTF-8"  # by Python, or given
    os.environ.clear()
    for entry in words[int(count):]:
        name, _, value = entry.partition(b"=")
        os.environb[name] = value
    if coerced and not {"LC_ALL", "LC_CTYPE", "LANG"} & set(os.environ):
        os.environ["LC_CTYPE"] = "C.UTF-8"
    unbound = failure(os.sched_setaffinity, 0, [int(c) for c in cpus.split(b",")]) if cpus else 0
    misplaced = failure(set_memory_policy, call, policy, nodes) if nodes else 0
    answer = socket.socket(fileno=answer)
    answer.sendall(b"%d %d %d" % (os.getpid(), unbound, misplaced))
    if not answer.recv(1):
        os._exit(1)  # the agent starts the rank in another way
    answer.close()
    show(b"\0".join(words[:int(count)]) + b"\0")
    return [os.fsdecode(w) for w in words[:int(count)]], int(program)


def search(directory):
    """Has Python search a directory first, unless its options say otherwise."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path.insert(0, directory)


def run(argv, program):
    """Runs a program as the interpreter does with these arguments."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # else all ranks would draw the same numbers; Python reseeds its own
    sys.argv, sys.orig_argv, name = argv[program:], argv, argv[program]
    main = type(sys)("__main__")
    main.__builtins__, sys.modules["__main__"] = builtins, main
    if name == "-m":
        search(os.getcwd())
        sys.argv = ["-m"] + argv[program + 2:]
        return runpy._run_module_as_main(argv[program + 1])
    if name == "-c":
        search("")
        main.__loader__ = importlib.machinery.BuiltinImporter
        sys.argv = ["-c"] + argv[program + 2:]
        return exec(compile(argv[program + 1], "<string>", "exec"), main.__dict__)
    if pkgutil.get_importer(name):  # a directory or an archive
        sys.path.insert(0, os.path.join(os.getcwd(), name))
        return runpy._run_module_as_main("__main__", False)
    search(os.path.dirname(os.path.realpath(name)))
    main.__file__, main.__cached__ = os.path.join(os.getcwd(), name), None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
    try:
        with io.open_code(name) as file:
            text = file.read()
    except OSError as e:
        print(f"{argv[0]}: can't open file {main.__file__!r}: [Errno {e.errno}] {e.strerror}", file=sys.stderr)
        sys.exit(2)
    exec(compile(text, main.__file__, "exec"), main.__dict__)


def run_and_report(argv, program):
    """Is run, with tracebacks that begin in the program."""
    try:
        run(argv, program)
    except Exception as e:
        at = e.__traceback__
        while at and at.tb_frame.f_code.co_filename == SOURCE:
            at = at.tb_next
        e.__traceback__ = at
        sys.excepthook(type(e), e, at)
        sys.exit(1)


def main(agent, *imports):
    requests = socket.socket(fileno=3)
    if "" in sys.path[:1]:
        del sys.path[0]  # the working directory; a rank has its script's instead
    for name in imports:
        try:
            importlib.import_module(name)
        except BaseException as e:
            requests.sendall(f"import {name}: {e}\n".encode())
            return
    requests.sendall(b"\n")
    rank = become_rank(int(agent), *serve(requests))
    run_and_report(*rank)


main(*sys.argv[1:])
