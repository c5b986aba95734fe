"""Tests the built site in Debian's chromium: python docs/site/test.py OUTPUT

Links and anchors exist, search leads to an entry of the reference, no page is wider than a telephone, and the theme follows the
system. It exits with 1 and a line for each problem.
"""

import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

from bs4 import BeautifulSoup
from playwright.sync_api import sync_playwright

TELEPHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1400, "height": 1000}


def dead_links(site: Path) -> list[str]:
    """Returns links of pages to files and anchors that do not exist, and anchors that exist twice."""
    pages = {file: BeautifulSoup(file.read_text(), "html.parser") for file in site.rglob("*.html")}
    anchors, problems = {}, []
    for file, page in pages.items():
        ids = [tag["id"] for tag in page.find_all(id=True)]
        anchors[file] = set(ids)
        problems += [f"{file}: two anchors {name}" for name in anchors[file] if ids.count(name) > 1]
    for file, page in pages.items():
        for tag, attribute in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")):
            for target in {t[attribute] for t in page.find_all(tag) if t.get(attribute)}:
                path, anchor = urldefrag(target)
                if ":" in path:
                    continue
                to = (file.parent / unquote(path.split("?")[0])).resolve() if path else file
                if not to.exists():
                    problems.append(f"{file}: no {target}")
                elif anchor and to in anchors and unquote(anchor) not in anchors[to]:
                    problems.append(f"{file}: no anchor {target}")
    return problems


def in_browser(site: Path) -> list[str]:
    problems = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        telephone = browser.new_page(viewport=TELEPHONE)
        for file in sorted(site.rglob("*.html")):
            telephone.goto(file.as_uri())
            wide = telephone.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                problems.append(f"{file}: {wide} px too wide for a telephone")
        desktop = browser.new_page(viewport=DESKTOP)
        desktop.goto((site / "search.html").as_uri() + "?q=NCCL_IB_HCA")
        entry = desktop.locator('ul.search a[href="reference/nccl.html#NCCL_IB_HCA"]')
        entry.wait_for(timeout=120_000)
        entry.click()
        row = desktop.locator('[id="NCCL_IB_HCA"] >> xpath=ancestor::tr')
        if "RDMA" not in row.inner_text():
            problems.append("search does not lead to the row of NCCL_IB_HCA")
        desktop.goto((site / "quick-start.html").as_uri())
        if not desktop.locator("button.copybtn").count():
            problems.append("code blocks have no button that copies them")
        colours = set()
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport=DESKTOP, color_scheme=scheme)
            page.goto((site / "index.html").as_uri())
            colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            shown = [i for i in page.locator("article img").all() if i.is_visible()]
            if len(shown) != 1 or f"crash-{scheme}" not in shown[0].get_attribute("src"):
                problems.append(f"the picture of the {scheme} page is not for it")
        if len(colours) != 2:
            problems.append("light and dark pages have one colour")
        browser.close()
    return problems


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    found = dead_links(site) + in_browser(site)
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages are well")
    sys.exit(bool(found))
