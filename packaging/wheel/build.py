"""Build the wheels of gorun-launcher, for glibc and for musl, from what `make wheel` has built.

build.py [--gpu DIRECTORY] VERSION OUT ARCHITECTURE...: with gorun-gpu-linux-ARCHITECTURE of a directory in those for
glibc. A wheel is a zip file with a list of its files. The same inputs and SOURCE_DATE_EPOCH give the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import os
import re
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "gorun_launcher"

# gorun is static: it needs no C library, and Linux 3.2. gorun-gpu needs glibc, as NVIDIA's library does.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC = (2, 17)

METADATA = """\
Metadata-Version: 2.4
Name: gorun-launcher
Version: {version}
Summary: Start a program as the ranks of one job: for PyTorch, MPI and Go, on one machine, over SSH or inside Slurm
License-Expression: Apache-2.0
License-File: LICENSE
License-File: THIRD-PARTY-NOTICES{address}
Requires-Python: >=3.9
Provides-Extra: stacks
Requires-Dist: py-spy; extra == "stacks"
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: gorun
Root-Is-Purelib: false
{tags}
"""

INSTALL = """\
## Install

```console
$ pip install gorun-launcher    # or, without installing: uvx gorun-launcher -n 4 ./trainer
$ gorun install-names --torchrun --mpirun    # optional: torchrun, mpirun and mpiexec start gorun
```

"""

ENTRY_POINTS = """\
[console_scripts]
gorun-launcher = gorun.__main__:main
"""


def python_version(version: str) -> str:
    """Return gorun's version as Python spells it: 0.2.0-dev+1a2b-dirty is 0.2.0.dev0+1a2b.dirty."""
    release, _, local = version.partition("+")
    release = release.replace("-dev", ".dev0")
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.dev0|-?(a|b|rc)\d+)?", release):
        sys.exit(f"build.py: {version!r} is not a version such as 0.2.0")
    return release + ("+" + local.replace("-", ".") if local else "")


def description() -> str:
    """Return README.md for those who install the wheel: without sentences that link to files of the repository."""
    text = re.sub(r"(?s)<picture>.*?</picture>\n\n", "", (ROOT / "README.md").read_text())
    text = re.sub(r"(?s)## Install\n.*?(?=## Use\n)", INSTALL, text)
    text = re.sub(r"(?s)## Documentation\n.*", "`gorun help` explains the rest, and `help(gorun)` the Python API.\n", text)
    text = re.sub(r"(?m)(^| (?=\[))[^.|\n]*\]\(.*\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text)


def needed_glibc(program: bytes) -> tuple[int, int]:
    """Return the oldest glibc that a program runs with."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\d]*\0)", program)
    return max((int(major), int(minor)) for major, minor in versions)


def build(version: str, out: Path, architecture: str, platforms: list[str], gpu: Path | None) -> Path:
    tags = [f"py3-none-{p}" for p in platforms]
    info, data = f"{NAME}-{version}.dist-info", f"{NAME}-{version}.data"
    files: dict[str, tuple[bytes, int]] = {}

    def add(name: str, content: bytes, mode: int = 0o644) -> None:
        files[name] = (content, mode)

    for source in sorted((ROOT / "packaging/wheel/gorun").iterdir()):
        if source.is_file():
            add(f"gorun/{source.name}", source.read_bytes())
    add(f"{data}/scripts/gorun", (ROOT / f"build/gorun-linux-{architecture}").read_bytes(), 0o755)
    if gpu:
        program = gpu.read_bytes()
        if (needed := needed_glibc(program)) > GLIBC:
            sys.exit(f"build.py: {gpu} needs glibc {needed[0]}.{needed[1]}: build it by `make static-gpu`")
        add(f"{data}/scripts/gorun-gpu", program, 0o755)
    for page in sorted((ROOT / "build/man").iterdir()):
        add(f"{data}/data/share/man/man{page.suffix[1:]}/{page.name}", page.read_bytes())
    for script, place in {
        "bash": "bash-completion/completions/gorun",
        "zsh": "zsh/site-functions/_gorun",
        "fish": "fish/vendor_completions.d/gorun.fish",
    }.items():
        add(f"{data}/data/share/{place}", (ROOT / "build/completions" / script).read_bytes())
    module = re.search(r"^module (.*\..*)", (ROOT / "go.mod").read_text(), re.M)  # no address, until `make module`
    address = f"\nProject-URL: Source, https://{module[1]}" if module else ""
    add(f"{info}/METADATA", METADATA.format(version=version, address=address, readme=description()).encode())
    add(f"{info}/WHEEL", WHEEL.format(tags="\n".join(f"Tag: {t}" for t in tags)).encode())
    add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
    for path in (ROOT / "LICENSE", ROOT / "build/THIRD-PARTY-NOTICES"):
        add(f"{info}/licenses/{path.name}", path.read_bytes())
    record = ""
    for name, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())

    wheel = out / f"{NAME}-{version}-py3-none-{'.'.join(platforms)}.whl"
    wheel.write_bytes(zipped(files))
    return wheel


@functools.cache  # the same program is in the wheels for glibc and for musl
def compressed(content: bytes) -> bytes:
    packed = subprocess.run(["gzip", "-9n"], input=content, stdout=subprocess.PIPE, check=True).stdout
    return packed[10:-8]  # without gzip's own header and end


def zipped(files: dict[str, tuple[bytes, int]]) -> bytes:
    """Return a zip file, compressed by gzip: zipfile's compression is not the same on all machines."""
    year, month, day, hour, minute, second = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    date = hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
    out, directory = b"", b""
    for name, (content, mode) in files.items():
        packed = compressed(content)
        both = (20, 0, 8, *date, zlib.crc32(content), len(packed), len(content), len(name), 0)
        rest = (0, 0, 0, (0o100000 | mode) << 16, len(out))
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", 3 << 8 | 20, *both, *rest) + name.encode()
        out += struct.pack("<4s5H3I2H", b"PK\3\4", *both) + name.encode() + packed
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(files), len(files), len(directory), len(out), 0)
    return out + directory + end


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=Path)
    parser.add_argument("version", type=python_version)
    parser.add_argument("out", type=Path)
    parser.add_argument("architectures", nargs="+", choices=MACHINES)
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    for architecture in words.architectures:
        gpu = words.gpu and words.gpu / f"gorun-gpu-linux-{architecture}"
        machine = MACHINES[architecture]
        glibc = [f"manylinux_2_17_{machine}", f"manylinux2014_{machine}"]
        print(build(words.version, words.out, architecture, glibc, gpu))
        print(build(words.version, words.out, architecture, [f"musllinux_1_1_{machine}"], None))


if __name__ == "__main__":
    main()
