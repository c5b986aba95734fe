"""Draws what a terminal of 24 rows shows after the same crash under torchrun and under gorun.

Usage: python docs/images/crash.py [DIRECTORY]  (torchrun and gorun in PATH; PyTorch; writes crash-light.svg, crash-dark.svg)

Both commands run on a pseudo-terminal, so labels and colours are those that a user sees. Nothing is edited but the path of the
script's directory and the rows above the 24th from the end, which a note counts.
"""

import os
import pty
import re
import shutil
import sys
import tempfile
from html import escape

COLUMNS, ROWS = 96, 24
WIDTH, LINE, MARGIN, FONT = 7.25, 16, 14, 12
SCRIPT = """\
import os
import time

import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    print("epoch 0 loss 2.31", flush=True)
dist.barrier()
if rank == 2:
    raise ValueError("shard 2 is empty")
time.sleep(30)
"""
THEMES = {
    "light": {"back": "#ffffff", "bar": "#f0f2f5", "text": "#1f2328", "dim": "#6e7781",
              "31": "#cf222e", "32": "#116329", "33": "#7d4e00", "34": "#0550ae", "35": "#8250df", "36": "#1b7c83"},
    "dark": {"back": "#0d1117", "bar": "#21262d", "text": "#e6edf3", "dim": "#8b949e",
             "31": "#ff7b72", "32": "#3fb950", "33": "#d29922", "34": "#79c0ff", "35": "#d2a8ff", "36": "#39c5cf"},
}


def on_terminal(command: list[str], directory: str) -> str:
    """Runs a command on a pseudo-terminal and returns everything that it printed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.execvp(command[0], command)
    printed = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        printed += chunk
    os.waitpid(pid, 0)
    return printed.decode(errors="replace")


def rows(text: str, directory: str) -> list[list[tuple[str, str, bool]]]:
    """Splits terminal output into rows of (text, colour, bold), wrapped at the terminal's width."""
    text = text.replace(directory + "/", "/home/me/").replace(sys.prefix + "/", "/opt/venv/")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-ln-z]", "", text.replace("\r\n", "\n"))
    result = []
    for line in text.rstrip("\n").split("\n"):
        row, used, colour, bold = [], 0, "text", False
        for part in re.split(r"(\x1b\[[0-9;]*m)", line.split("\r")[-1]):
            if part.startswith("\x1b["):
                for code in part[2:-1].split(";"):
                    if code in ("", "0"):
                        colour, bold = "text", False
                    elif code == "1":
                        bold = True
                    elif code == "2":
                        colour = "dim"
                    elif code in ("22", "39"):
                        colour, bold = "text", False
                    elif code[:1] in "39" and code[1:] in "123456" and len(code) == 2:
                        colour = "3" + code[1:]
                continue
            while part:
                piece, part = part[: COLUMNS - used], part[COLUMNS - used :]
                row.append((piece, colour, bold))
                used += len(piece)
                if part:
                    result.append(row)
                    row, used = [], 0
        result.append(row)
    return result


def panel(title: str, lines: list, top: float, theme: dict) -> tuple[list[str], float]:
    """Draws one terminal and returns its elements and where it ends."""
    hidden = len(lines) - (ROWS - 1)
    if hidden > 0:
        lines = [[(f"… {hidden} rows have scrolled away", "dim", False)]] + lines[hidden:]
    width, height = COLUMNS * WIDTH + 2 * MARGIN, (len(lines) + 1) * LINE + 2 * MARGIN
    out = [f'<rect x="0.5" y="{top + 0.5}" width="{width - 1}" height="{height}" rx="8" fill="{theme["back"]}" '
           f'stroke="{theme["dim"]}" stroke-opacity="0.5"/>']
    y = top + MARGIN + FONT
    for row in [[("$ ", "dim", False), (title, "text", True)], *lines]:
        spans, column = [], 0
        for text, colour, bold in row:
            if text.strip():
                weight = ' font-weight="bold"' if bold else ""
                spans.append(f'<tspan x="{MARGIN + column * WIDTH:.1f}" fill="{theme[colour]}"{weight} '
                             f'textLength="{len(text) * WIDTH:.1f}">{escape(text)}</tspan>')
            column += len(text)
        if spans:
            out.append(f'<text y="{y:.1f}" xml:space="preserve">{"".join(spans)}</text>')
        y += LINE
    return out, top + height + 12


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "train.py"), "w") as file:
            file.write(SCRIPT)
        shown = []
        for launcher in ("torchrun", "gorun"):
            if shutil.which(launcher) is None:
                sys.exit(f"{launcher} is not in PATH")
            command = [launcher, "--nproc-per-node", "4", "train.py"]
            shown.append((" ".join(command), rows(on_terminal(command, directory), directory)))
    for name, theme in THEMES.items():
        elements, top = [], 0.0
        for title, lines in shown:
            drawn, top = panel(title, lines, top, theme)
            elements += drawn
        with open(os.path.join(target, f"crash-{name}.svg"), "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDTH + 2 * MARGIN:.0f} {top:.0f}" '
                       f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{FONT}">\n')
            file.write("\n".join(elements) + "\n</svg>\n")


if __name__ == "__main__":
    main()
