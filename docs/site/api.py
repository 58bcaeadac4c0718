#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""api.py SOURCE XML OUT: the API reference, one page a room, from Doxygen's XML.

An error if a name that has a comment in a public header, outside of shard::impl, is on no page.
"""
import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

source, xml, out = (Path(p) for p in sys.argv[1:4])
include = source / "include"


def text(node):
    return re.sub(r"\s+", " ", "".join(node.itertext())).strip() if node is not None else ""


def escaped(words):
    return re.sub(r"([\\`*_\[\]<>|$~])", r"\\\1", words or "")


class Entity:
    """A name of namespace shard: a class, or the overloads of a function."""

    def __init__(self, name, kind):
        self.name, self.kind, self.declarations = name, kind, []
        self.label = f"{'type' if kind == 'type' else 'name'}-{name}".lower()


entities = defaultdict(dict)  # header: (kind, name): Entity
label_of = {}  # Doxygen's id: label


def tidy(declaration):
    """A declaration, spelt as the sources spell it: `const T& x`, `A<B>`."""
    declaration = re.sub(r"\s+", " ", declaration.replace("shard::", ""))
    declaration = declaration.replace("< ", "<").replace(" >", ">")
    declaration = re.sub(r" ?(&&|[&*]+)(\.\.\.)? ?", r"\1\2 ", declaration)
    return re.sub(r" (?=[,)>])", "", declaration).strip()


def template_of(node):
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    words = []
    for p in parameters:
        declared, default = text(p.find("declname")), text(p.find("defval"))
        words.append(text(p.find("type")) + (f" {declared}" if declared else "") + (f" = {default}" if default else ""))
    clause = text(node.find("requiresclause"))
    return f"template <{', '.join(words)}>\n" + (f"requires {clause}\n" if clause and node.get("kind") != "concept" else "")


def declaration_of(member):
    kind, name = member.get("kind"), text(member.find("name"))
    if kind == "enum":
        values = ", ".join(text(v.find("name")) for v in member.findall("enumvalue"))
        return f"enum class {name} {{ {values} }}"
    if kind == "define":
        return f"#define {name}"
    words = [w for w in ("static", "constexpr", "explicit") if member.get(w) == "yes"]
    kind_of = text(member.find("type"))
    kind_of = re.sub(r"\b(static|constexpr|inline) ", "", kind_of)
    if kind == "typedef":
        return template_of(member) + f"using {name} = {tidy(kind_of)}"
    arguments = re.sub(r"=(default|delete)$", "", text(member.find("argsstring")))
    if kind == "variable":
        default = text(member.find("initializer"))
        return template_of(member) + tidy(" ".join([*words, kind_of, name]) + arguments + (f" {default}" if len(default) < 60 else ""))
    return template_of(member) + tidy(" ".join([*words, kind_of, name]).strip() + arguments)


# ---- comments ----------------------------------------------------------------------------------

def inline(node):
    """A node's text and children, as Markdown within a line."""
    words = escaped(node.text)
    for child in node:
        words += inline_of(child) + escaped(child.tail)
    return words


def inline_of(node):
    tag = node.tag
    if tag == "computeroutput":
        return f"`{text(node)}`"
    if tag == "ref":
        label = label_of.get(node.get("refid"))
        return f"[{escaped(text(node))}](#{label})" if label else escaped(text(node))
    if tag == "ulink":
        return f"[{inline(node)}]({node.get('url')})"
    if tag in ("emphasis", "bold"):
        return f"*{inline(node)}*"
    if tag in ("ndash", "mdash"):
        return "-"
    if tag == "linebreak":
        return " "
    if tag in ("sp", "nonbreakablespace"):
        return " "
    if tag in ("anchor",):
        return ""
    if tag == "superscript":
        return f"^{inline(node)}"
    raise SystemExit(f"docs/site/api.py: a comment has a <{tag}>, which this script doesn't know: {text(node)}")


def blocks(node):
    """Paragraphs and lists of a description."""
    if node is None:
        return
    for para in node:
        if para.tag != "para":
            raise SystemExit(f"docs/site/api.py: a comment has a <{para.tag}>: {text(para)}")
        words = escaped(para.text)
        for child in para:
            if child.tag in ("itemizedlist", "orderedlist", "parameterlist", "simplesect", "verbatim", "programlisting", "preformatted"):
                if words.strip():
                    yield re.sub(r"\s+", " ", words).strip()
                words = ""
                yield from block_of(child)
            else:
                words += inline_of(child)
            words += escaped(child.tail)
        if words.strip():
            yield re.sub(r"\s+", " ", words).strip()


def block_of(node):
    if node.tag in ("itemizedlist", "orderedlist"):
        yield "\n".join("- " + " ".join(blocks(item)) for item in node)
    elif node.tag == "parameterlist":
        lines = []
        for item in node:
            names = ", ".join(f"`{text(n)}`" for n in item.iter("parametername"))
            lines.append(f"- {names}: {' '.join(blocks(item.find('parameterdescription')))}")
        if node.get("kind") == "exception":
            lines = ["Throws:", ""] + lines
        yield "\n".join(lines)
    elif node.tag == "simplesect":
        word = {"return": "Returns", "see": "See", "note": "Note:", "pre": "Before:", "post": "After:"}.get(node.get("kind"), "")
        yield f"{word} {' '.join(blocks(node))}".strip()
    elif node.tag == "programlisting":
        yield "```cpp\n" + "\n".join("".join(" " if n.tag == "sp" else (n.text or "") for n in line.iter()) for line in node) + "\n```"
    else:
        yield "```text\n" + "".join(node.itertext()).strip("\n") + "\n```"


def comment_of(node):
    return [*blocks(node.find("briefdescription")), *blocks(node.find("detaileddescription"))]


# ---- what there is -----------------------------------------------------------------------------

def header_of(node):
    location = node.find("location")
    return (location.get("declfile") or location.get("file")) if location is not None else None


classes, members, about = [], [], {}
for file in sorted(xml.glob("*.xml")):
    for compound in ET.parse(file).getroot().iter("compounddef"):
        name = text(compound.find("compoundname"))
        kind = compound.get("kind")
        if kind == "file":
            about[compound.find("location").get("file")] = compound
        if kind == "namespace" and name == "shard" or kind == "file":
            members += [m for m in compound.iter("memberdef") if kind == "namespace" or m.get("kind") == "define"]
        elif kind in ("class", "struct", "concept") and name.startswith("shard::") and "::impl" not in name:
            classes.append((name[len("shard::"):], compound))


def entity(header, kind, name):
    return entities[header].setdefault((kind, name), Entity(name, kind))


for name, compound in classes:
    if not comment_of(compound):
        continue  # a specialisation of what is told at its first template
    of = entity(header_of(compound), "type", re.sub(r"<.*>", "", name).strip() if "<" in name else name)
    of.declarations.append(compound)
    label_of[compound.get("id")] = of.label
    for member in compound.iter("memberdef"):
        label_of[member.get("id")] = of.label
for member in members:
    kind = "type" if member.get("kind") in ("typedef", "enum") else "name"
    if not comment_of(member):
        continue  # an error of Doxygen's, but for guards
    of = entity(header_of(member), kind, text(member.find("name")))
    of.declarations.append(member)
    label_of[member.get("id")] = of.label


# ---- pages -------------------------------------------------------------------------------------

def member_lines(compound):
    """The public members of a class, each with its declaration and comment."""
    for section in compound.findall("sectiondef"):
        if not section.get("kind", "").startswith(("public", "user", "friend", "related")):
            continue
        for member in section.iter("memberdef"):
            said = comment_of(member)
            if member.get("kind") == "friend" or not said:
                continue
            body = "\n\n".join(said).replace("\n", "\n  ")
            yield f"- ```cpp\n  {declaration_of(member).replace(chr(10), chr(10) + '  ')}\n  ```\n  {body}\n"


def told(node):
    if node.tag == "memberdef":
        yield f"```cpp\n{declaration_of(node)}\n```\n"
        yield "\n".join(part + "\n" for part in comment_of(node))
        for value in node.findall("enumvalue"):
            if comment_of(value):
                yield f"- `{text(value.find('name'))}`: {' '.join(comment_of(value))}\n"
        return
    kind = node.get("kind")
    name = tidy(text(node.find("compoundname")))
    bases = ", ".join(tidy(text(b)) for b in node.findall("basecompoundref") if b.get("prot") == "public" and "impl::" not in text(b))
    yield f"```cpp\n{template_of(node)}{kind} {name}{' : ' + bases if bases else ''}\n```\n"
    yield "\n".join(part + "\n" for part in comment_of(node))
    yield "\n".join(member_lines(node))


rooms = dict(re.findall(r"^\| `(\w+)/` \| (.*) \|$", (source / "docs/architecture.md").read_text(), flags=re.M))
pages = defaultdict(list)
seen = {}
for header in sorted(entities):
    pages[header.split("/")[1]].append(header)
out.mkdir(parents=True, exist_ok=True)
for room in pages:
    if room not in rooms:
        raise SystemExit(f"docs/site/api.py: docs/architecture.md has no row for the room {room}/")
    lines = [f"# {room}\n", f"{rooms[room][0].upper() + rooms[room][1:]}.\n"]
    for header in pages[room]:
        lines.append(f"## `{header}`\n")
        lines += [part + "\n" for part in comment_of(about[header])]
        for of in sorted(entities[header].values(), key=lambda e: (e.kind != "type", e.name.lower())):
            if seen.setdefault(of.label, (room, header)) == (room, header):
                lines.append(f"({of.label})=\n")
            lines.append(f"### {escaped(of.name)}\n")
            for node in of.declarations:
                lines += told(node)
    (out / f"{room}.md").write_text("\n".join(lines) + "\n")

names = sorted(((of.name, of.label) for header in entities for of in entities[header].values()), key=lambda n: (n[0].lower(), n))
index = ["# API reference\n", "The public names, a page for each room. Doxygen reads them, with their comments, from the headers.\n", "| room | |", "|---|---|"]
index += [f"| [{room}]({room}.md) | {rooms[room]} |" for room in rooms if room in pages]
index += ["", "## All names\n", ", ".join(f"[{escaped(name)}](#{label})" for name, label in dict.fromkeys(names)) + "\n"]
index += ["```{toctree}", ":hidden:", "", *[room for room in rooms if room in pages], "```"]
(out / "index.md").write_text("\n".join(index) + "\n")


# ---- is all of it there? -----------------------------------------------------------------------

def names_with_comments(header):
    """Names at the left margin, outside of namespace impl, after a /// comment."""
    inside, after = False, False
    for line in header.read_text().splitlines():
        if re.match(r"namespace (shard::)?impl \{", line):
            inside = True
        elif re.match(r"\}  // namespace (shard::)?impl", line):
            inside = False
        elif line.startswith("///"):
            after = True
        elif after and not inside and line and not line.startswith(("template", "requires", " ")):
            found = not re.match(r"struct \w+;", line) and (
                re.match(r"(?:class|struct|enum class|concept|using|#define) (?:KOKKOS_\w+ )?(\w+)", line) or re.search(r"\b(\w+)(?:\(|(?:<.*>)?(?: =|;|\{))", line))
            if found:
                yield found[1]
            after = False


lacking = []
for header in sorted(include.rglob("*.hpp")):
    path = str(header.relative_to(include))
    there = {name for _, name in entities.get(path, {})}
    lacking += [f"{path}: {name}" for name in names_with_comments(header) if not any(name in (n, n.split("::")[-1]) for n in there)]
if lacking:
    raise SystemExit("docs/site/api.py: names that have a comment and are on no page:\n  " + "\n  ".join(lacking))
print(f"API reference: {len(names)} names of {len(entities)} headers in {len(pages)} rooms")
