"""Prints every option of the installed torchrun, its spellings on a line, "=" behind those that take a value.

It runs the text of torch.distributed.run itself, with stand-ins for all that this imports of PyTorch: the options are written down
there alone, and to import PyTorch takes many seconds.
"""

import importlib.util
import pathlib
import sys
from unittest import mock

torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent  # found, not imported


class StandIns:
    """Finds a stand-in for each module of PyTorch's but the two whose text counts."""

    real = ("torch.distributed.run", "torch.distributed.argparse_util")

    def find_spec(self, name, path=None, target=None):
        if name in self.real:
            return importlib.util.spec_from_file_location(name, torch.joinpath(*name.split(".")[1:]).with_suffix(".py"))
        if name.split(".")[0] == "torch":
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return mock.MagicMock(__spec__=spec, __path__=[])

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, StandIns())

from torch.distributed.run import get_args_parser  # noqa: E402

for action in get_args_parser()._actions:
    if action.option_strings:
        print(*action.option_strings, *(["="] if action.nargs != 0 else []))
