"""Builds the site from the Markdown files of the repository: python docs/site/build.py OUTPUT

It gathers README.md, docs/ and examples/ in .OUTPUT-source, where README.md is the first page, and has Sphinx build OUTPUT. A link
to a file or a directory that the site lacks becomes plain text.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md",
         "SECURITY.md": "reporting.md"}
LINK = re.compile(r"(\]\(|srcset=\"|src=\")([^)\s#\":]+)(?=[)#\"])")
GUIDES = ["quick-start", "torchrun", "mpi", "hosts", "schedulers", "placement", "output", "failures", "nccl", "bench"]
REFERENCE = ["options", "variables", "nccl", "mpirun", "topo", "errors", "checks", "exit-codes", "json", "faults"]


def place(path: Path) -> str | None:
    """Returns where a file of the repository is below the site's source, or None."""
    if (REPOSITORY / path).is_dir():
        path = path / "README.md"
    if not (REPOSITORY / path).is_file():
        return None
    if str(path) in PAGES:
        return PAGES[str(path)]
    if path.parts[0] == "docs" and path.parts[1] != "site":
        return str(Path(*path.parts[1:]))
    return str(path) if path.parts[0] == "examples" else None


def page(path: Path, placed: str) -> str:
    """Returns the text of a page with its links as they are on the site."""
    def moved(link: re.Match) -> str:
        start, target = link.groups()
        target = Path(os.path.normpath(path.parent / target))
        to = place(target)
        return f"{start}{os.path.relpath(to, os.path.dirname(placed) or '.') if to else 'MISSING'}"
    text = LINK.sub(moved, (REPOSITORY / path).read_text())
    return re.sub(r"\[([^]]+)\]\(MISSING\)", r"\1", text)


def contents(caption: str, entries: list[str]) -> str:
    return "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(entries) + "\n```\n"


def gather(source: Path) -> None:
    """Writes the site's source."""
    files = [Path(p) for p in PAGES]
    for top in ("docs", "examples"):
        files += sorted(p.relative_to(REPOSITORY) for p in (REPOSITORY / top).rglob("*") if p.is_file())
    texts = {}
    for path in files:
        placed = place(path)
        if placed and "__pycache__" not in path.parts and path.suffix != ".gz":
            texts[placed] = page(path, placed).encode() if path.suffix == ".md" else (REPOSITORY / path).read_bytes()
    below = lambda top: sorted(p[:-3] for p in texts if p.startswith(top) and p.endswith(".md") and p[len(top):] != "README.md")
    reference = below("reference/")
    reference.sort(key=lambda p: REFERENCE.index(p.split("/")[1]))
    texts["index.md"] += "".join([
        contents("Guides", GUIDES),
        contents("Reference", reference),
        contents("Inside gorun", ["contributing", "internals/README"]),
        contents("More", ["examples/README", "changes", "reporting"]),
    ]).encode()
    texts["internals/README.md"] += contents("Internals", ["/" + p for p in below("internals/") + below("design/")]).encode()
    texts["examples/README.md"] += contents("Examples", [f"/{p}" for p in below("examples/")]).encode()
    for placed, text in texts.items():
        file = source / placed
        if not file.is_file() or file.read_bytes() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
    for file in source.rglob("*"):
        if file.is_file() and str(file.relative_to(source)) not in texts:
            file.unlink()


if __name__ == "__main__":
    output = Path(sys.argv[1])
    source, trees = (output.with_name(f".{output.name}-{kind}") for kind in ("source", "trees"))  # Go ignores names with a dot
    gather(source)
    here = Path(__file__).parent
    sys.exit(main(["-q", "-W", "-E", "-a", "--keep-going", "-j", "auto", "-b", "html", "-c", str(here), "-d", str(trees), str(source), str(output)]))
