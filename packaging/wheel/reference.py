"""Write docs/reference/python.md from the docstrings of package gorun: reference.py [--check]."""

import inspect
import sys
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).parent))
import gorun  # noqa: E402
import gorun.torchrunx  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/python.md"


def shown(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        default = ""
    elif parameter.name == "stdin":
        default = " = subprocess.DEVNULL"
    else:
        default = f" = {parameter.default!r}".replace("<factory>", "...")
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    return star + parameter.name + annotation + default


def call(name: str, function: Callable[..., Any]) -> str:
    """Return how a function is called, with a line for each parameter if one is too short."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self" and p.name[0] != "_"]
    words = [shown(p) for p in parameters]
    named = [i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY]
    if named:
        words.insert(named[0], "*")
    line = f"{name}({', '.join(words)})"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(words) + ",\n)"


def entry(level: str, name: str, item: Any) -> str:
    text = f'{level} <a id="{name}"></a>{name}\n\n'
    if not isinstance(item, property):
        text += f"```python\n{call(name, item)}\n```\n\n"
    return f"{text}{inspect.getdoc(item)}\n"


def page() -> str:
    text = '# Python\n\n<!-- Written by "packaging/wheel/reference.py" from docstrings; TestWheel keeps both equal. -->\n\n'
    text += "`pip install gorun-launcher` brings package gorun, beside the program.\n\n"
    text += module(gorun)
    text += '\n## <a id="torchrunx"></a>gorun.torchrunx\n\n' + module(gorun.torchrunx, "#")
    return text


def module(item: Any, deeper: str = "") -> str:
    text = f"{inspect.getdoc(item)}\n"
    for name in item.__all__:
        value = getattr(item, name)
        if not callable(value):
            continue
        text += "\n" + entry("##" + deeper, name, value)
        own = vars(value).items() if inspect.isclass(value) else ()
        for method, function in own:
            if not method.startswith("_") and (inspect.isfunction(function) or isinstance(function, property)):
                text += "\n" + entry("###" + deeper, f"{name}.{method}", function)
    return text


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page() and f"{PAGE} differs: run packaging/wheel/reference.py")
    PAGE.write_text(page())
