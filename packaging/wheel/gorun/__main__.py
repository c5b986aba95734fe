"""python -m gorun, and the command gorun-launcher, which uvx looks for: they are gorun."""

import os
import sys

import gorun


def main() -> None:
    path = gorun.program()
    os.execv(path, ["gorun", *sys.argv[1:]])


if __name__ == "__main__":
    main()
