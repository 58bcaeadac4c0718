#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pages.py SOURCE OUT: copies docs/ to OUT as Sphinx wants it.

docs/README.md becomes the index: each of its sections whose links are pages becomes a part of the table of contents.
The changelog, CONTRIBUTING.md, the results and the examples, which are elsewhere in the tree, become pages too.
"""
import re
import shutil
import sys
from pathlib import Path

source, out = Path(sys.argv[1]), Path(sys.argv[2])
elsewhere = {
    "README.md": "index.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../benchmarks/RESULTS.md": "results.md",
    "../examples": "examples.md",
}


def link(match):
    """A link of a page in docs/, for the site."""
    target, _, anchor = match[1].partition("#")
    if target.startswith("../examples/"):
        return f"](#example-{Path(target).stem})"
    target = elsewhere.get(target.rstrip("/"), target)
    if target.startswith("../"):
        raise SystemExit(f"docs/site/pages.py: a page links to {target}, which the site doesn't have")
    return f"]({target}{'#' + anchor if anchor else ''})"


def for_site(text):
    return re.sub(r"\]\(((?!https?:)[^)\s]+)\)", link, text)


def parts_of(index):
    """The table of contents of the index: its sections, and the pages to which they link."""
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        pages = [p for p in re.findall(r"^\| \[[^]]*\]\(([\w/]+)\.md\)", section, flags=re.M)]
        if pages:
            yield section.splitlines()[0], list(dict.fromkeys(pages))


def examples():
    yield "# Examples\n\nThe programs of `examples/`, in the order in which they may be read. The tests run them on 1 and 4 ranks.\n"
    for program in sorted((source / "examples").glob("[0-9]*.cpp")):
        lines = program.read_text().splitlines()
        comment = []
        for line in lines[1:]:
            if not line.startswith("//") or not line[2:].strip():
                break
            comment.append(line[2:].strip())
        yield f"\n(example-{program.stem})=\n\n## {program.stem}\n\n{' '.join(comment)}\n"
        yield "\n```cpp\n" + "\n".join(lines[1 + len(comment):]) + "\n```\n"
    yield "\n(example-models)=\n\n## Models\n\nThe test `models` compares each with PyTorch.\n"
    for model in sorted((source / "examples/models").glob("*.hpp")):
        head, _, code = model.read_text().partition("/// \\file\n")
        comment, _, code = code.partition("\n\n")
        yield f"\n(example-{model.stem})=\n\n### {model.stem}\n\n{comment.replace('/// ', '')}\n"
        yield "\n```cpp\n" + code.rpartition("\n#endif")[0].strip() + "\n```\n"


out.mkdir(parents=True, exist_ok=True)
for page in (source / "docs").glob("*.md"):
    text = for_site(page.read_text())
    if page.name == "README.md":
        head = "## Reference\n\n| page | |\n|---|---|\n"
        text = text.replace(head, head + "| [API reference](api/index.md) | every public name, a page for each room |\n")
        for caption, names in parts_of(text):
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```\n"
    (out / ("index.md" if page.name == "README.md" else page.name)).write_text(text)
for path, name in (("CONTRIBUTING.md", "contributing.md"), ("CHANGELOG.md", "changelog.md"), ("benchmarks/RESULTS.md", "results.md")):
    text = (source / path).read_text()
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)  # as if it were in docs/
    (out / name).write_text(for_site(text))
(out / "examples.md").write_text("".join(examples()))
shutil.copytree(source / "docs/images", out / "images", dirs_exist_ok=True)
