"""Prints every option of the installed torchrun, its spellings on a line, "=" behind those that take a value."""

from torch.distributed.run import get_args_parser

for action in get_args_parser()._actions:
    if action.option_strings:
        print(*action.option_strings, *(["="] if action.nargs != 0 else []))
