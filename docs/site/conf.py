# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sphinx's settings for the site; tools/docs calls Sphinx with them."""
import re
from pathlib import Path

project = "shard"
copyright = "the authors of shard, Apache-2.0 WITH LLVM-exception"
cmake = Path(__file__).parents[2] / "CMakeLists.txt"
release = re.search(r"project\(\s*shard\s+VERSION\s+([0-9.]+)", cmake.read_text())[1]
extensions = ["myst_parser"]
myst_heading_anchors = 4  # links to headings, spelt as GitHub spells them
html_theme = "furo"
html_title = f"shard {release}"
html_copy_source = False
html_use_index = False  # the API reference has its own
pygments_style = "friendly"
pygments_dark_style = "native"
