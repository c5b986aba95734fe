"""A process in which NCCL's own RAS runs, without a GPU: ras.py LIBRARY PLACES RANK RANKS DIRECTORY COUNTS

NCCL starts it when a communicator is made, which needs a GPU. Here its own functions are called with a communicator that is nothing but the
memory of one, filled with what RAS looks at; PLACES has, as JSON, where all that is. It ends when its standard input does.
"""

import ctypes
import json
import os
import socket
import struct
import sys
import time

library, places, rank, ranks, directory = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
counts = [int(c) for c in sys.argv[6].split()]
ctypes.CDLL(library)
with open("/proc/self/maps") as maps:
    base = min(int(line.split("-")[0], 16) for line in maps if "libnccl.so.2" in line)


def function(name, *arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(base + places[name])


def memory(struct_name, copies=1):
    return ctypes.create_string_buffer(places[struct_name] * copies)


def put(buffer, field, layout, *values, copy=0):
    name = field.split(".")[0]
    struct.pack_into(layout, buffer, places[name] * copy + (places[field] if field in places else 0), *values)


peers = memory("ncclPeerInfo", ranks)
for i in range(ranks):
    put(peers, "ncclPeerInfo.hostHash", "=Q", 0xABC, copy=i)
    put(peers, "ncclPeerInfo.pidHash", "=Q", 0x1000 + i, copy=i)
flags, proxy, comm = ctypes.create_string_buffer(64), ctypes.create_string_buffer(4096), memory("ncclComm")
put(comm, "ncclComm.peerInfo", "=Q", ctypes.addressof(peers))
put(comm, "ncclComm.peerInfoValid", "=B", 1)
put(comm, "ncclComm.commHash", "=Q", 0x1234567890ABCDEF)
for field, value in {"rank": rank, "nRanks": ranks, "cudaDev": rank, "nvmlDev": rank}.items():
    put(comm, "ncclComm." + field, "=i", value)
for field, value in {"abortFlag": flags, "childAbortFlag": flags, "proxyState": proxy}.items():
    put(comm, "ncclComm." + field, "=Q", ctypes.addressof(value))
put(comm, "ncclComm.seqNumber", "=5Q", *counts)

me = memory("rasRankInit")
struct.pack_into("=HH4s", me, places["rasRankInit.addr"], socket.AF_INET, 0, socket.inet_aton("127.0.0.1"))
for field, value in {"pid": os.getpid(), "cudaDev": rank, "nvmlDev": rank}.items():
    put(me, "rasRankInit." + field, "=i", value)
put(me, "rasRankInit.hostHash", "=Q", 0xABC)
put(me, "rasRankInit.pidHash", "=Q", 0x1000 + rank)
if result := function("init", ctypes.c_void_p, ctypes.c_void_p)(ctypes.addressof(comm), ctypes.addressof(me)):
    sys.exit(f"ncclRasCommInit: {result}")

with open(f"{directory}/{rank}.new", "wb") as file:
    file.write(me.raw[: places["rasRankInit"]])
os.rename(f"{directory}/{rank}.new", f"{directory}/{rank}")
files = [f"{directory}/{i}" for i in range(ranks)]
while not all(map(os.path.exists, files)):
    time.sleep(0.01)
everyone = b"".join(open(name, "rb").read() for name in files)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
given = libc.malloc(ctypes.c_size_t(len(everyone)))  # NCCL frees it
ctypes.memmove(given, everyone, len(everyone))
if result := function("add", ctypes.c_void_p, ctypes.c_int)(given, ranks):
    sys.exit(f"ncclRasAddRanks: {result}")
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
