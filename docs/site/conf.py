"""Sphinx's configuration of the site (docs/site/build.py)."""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

REPOSITORY = Path(__file__).resolve().parents[2]

project = "gorun"
author = "gorun's authors"
release = version = (REPOSITORY / "VERSION").read_text().strip()
root_doc = "index"
language = "en"
smartquotes = False  # options begin with two dashes
extensions = ["myst_parser", "sphinx_copybutton"]

# Headings get the anchors that GitHub gives them. Anchors within tables are HTML, which MyST does not see: a test of the built site
# finds dead ones.
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_missing", "myst.header", "toc.not_included", "misc.highlighting_failure"]

html_theme = "furo"
html_title = f"gorun {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0550ae", "color-brand-content": "#0550ae"},
    "dark_css_variables": {"color-brand-primary": "#79c0ff", "color-brand-content": "#79c0ff"},
}
pygments_style = "default"
pygments_dark_style = "github-dark"

# The copy button leaves out prompts and output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_exclude = ".linenos, .go"

ANCHOR = re.compile(r'<a id="([^"]+)">$')


class Entries(SphinxTransform):
    """Puts every anchor of the reference into the index, so that search leads to it: NCCL_IB_HCA to its row."""

    default_priority = 500

    def apply(self, **_: object) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            anchor = ANCHOR.match(raw.astext())
            if anchor:
                name = anchor[1]
                index = addnodes.index(entries=[("single", name, name, "main", None)])
                raw.parent.replace(raw, [index, nodes.target("", "", ids=[name])])


class Pictures(SphinxTransform):
    """Shows the README's picture for the theme of the page, which may differ from that of the system."""

    default_priority = 500

    def apply(self, **_: object) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            html = raw.astext()
            if "<picture>" in html:
                alt = " ".join(re.search(r'alt="([^"]*)"', html)[1].split())
                raw.parent.replace(raw, [
                    nodes.image("", uri=uri, alt=alt, classes=[f"only-{theme}"])
                    for theme, uri in (("dark", re.search(r'srcset="([^"]*)"', html)[1]), ("light", re.search(r'src="([^"]*)"', html)[1]))
                ])


def setup(app):
    app.add_transform(Entries)
    app.add_transform(Pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
