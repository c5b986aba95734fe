"""Prints what a rank can see of its process and interpreter."""
import json
import os
import resource
import signal
import sys

main = sys.modules["__main__"]
fields = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "warm": "wave" in sys.modules,
    "argv": sys.argv, "orig_argv": sys.orig_argv[1:], "path": sys.path[:2], "flags": repr(sys.flags),
    "main": {k: str(v) for k, v in vars(main).items() if k in ("__file__", "__name__", "__package__", "__cached__", "__doc__")},
    "loader": type(main.__loader__).__name__, "here": globals() is vars(main),
    "environ": dict(os.environ), "directory": os.getcwd(), "files": len(os.listdir("/proc/self/fd")), "input": sys.stdin.read(),
    "leader": os.getsid(0) == os.getpid() == os.getpgrp(), "parent": os.getppid(), "threads": fields["Threads"],
    "cpus": fields["Cpus_allowed_list"], "memory": open("/proc/self/numa_maps").readline().split()[1],
    "blocked": fields["SigBlk"], "ignored": fields["SigIgn"], "caught": fields["SigCgt"],
    "handlers": str([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)]),
    "shown": open("/proc/self/cmdline").read().rstrip("\0"), "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "umask": os.umask(0),
}), flush=True)
print("to stderr", file=sys.stderr)
if "fail" in sys.argv:
    raise ValueError("a failure")
if "exit" in sys.argv:
    sys.exit(7)
if "kill" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
