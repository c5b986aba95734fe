"""Writes the environment of each rank as JSON, to compare launchers.

    gorun --nproc-per-node 2 examples/torch/rank_env.py DIR
    torchrun --nproc-per-node 2 examples/torch/rank_env.py DIR

DIR/0.json, DIR/1.json, … then hold one object each. Without DIR the objects go to standard output, one a line.
"""

import json
import os
import sys


def main():
    text = json.dumps(dict(os.environ), sort_keys=True)
    if len(sys.argv) < 2:
        print(text)
        return
    with open(os.path.join(sys.argv[1], os.environ["RANK"] + ".json"), "w", encoding="utf-8") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
