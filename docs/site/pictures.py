#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pictures.py [--check] FOLDER: draws the pictures of docs/ as SVG into FOLDER, or compares them with what is there."""
import math
import re
import sys
from pathlib import Path

RANKS = ["#bcd9f2", "#f8d9a8", "#c5e6c3", "#ecc8dd", "#d9d2ef", "#f3efa9"]  # a colour for each rank
DARK = ["#2a6ca8", "#b36b00", "#3a8a35", "#a8447c"]
OUTSIDE, INK, GREY = "#e4e4e4", "#222222", "#777777"


class Picture:
    """Shapes on a white sheet; lengths in pixels, y downwards."""

    def __init__(self, width, height):
        self.size, self.shapes = (width, height), []

    def rect(self, x, y, w, h, fill="none", stroke=INK, width=1.0, dash=None, round=0):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{round}" fill="{fill}" stroke="{stroke}" stroke-width="{width:g}"{dashed}/>')

    def text(self, x, y, words, size=13, fill=INK, anchor="middle", bold=False, mono=False):
        words = str(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        family = ' font-family="monospace"' if mono else ""
        weight = ' font-weight="bold"' if bold else ""
        self.shapes.append(f'<text x="{x:g}" y="{y + size * 0.35:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{family}{weight}>{words}</text>')

    def line(self, points, colour=INK, width=1.6):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>')

    def arrow(self, x1, y1, x2, y2, colour=INK, width=1.6, bend=0.0):
        """From one point to another, curved to its left by `bend` pixels."""
        mx, my = (x1 + x2) / 2, (y1 + y2) / 2
        length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-9)
        mx, my = mx + bend * (y2 - y1) / length, my - bend * (x2 - x1) / length
        name = "head" + colour.lstrip("#")
        self.shapes.append(f'<path d="M{x1:g} {y1:g} Q{mx:g} {my:g} {x2:g} {y2:g}" fill="none" stroke="{colour}" stroke-width="{width:g}" marker-end="url(#{name})"/>')

    def svg(self):
        w, h = self.size
        colours = sorted({s.split("url(#head")[1].split(")")[0] for s in self.shapes if "url(#head" in s})
        heads = "".join(
            f'<marker id="head{c}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8Z" fill="#{c}"/></marker>'
            for c in colours)
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-family="sans-serif">',
                 "<!-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception; drawn by docs/site/pictures.py -->",
                 f"<defs>{heads}</defs>", f'<rect width="{w}" height="{h}" fill="white"/>', *self.shapes, "</svg>"]
        return "\n".join(lines) + "\n"


def field():
    """8 x 12 points on 2 x 2 ranks; the allocation of rank 0, with a halo of one, and its indices."""
    p, c = Picture(860, 330), 26
    p.text(190, 22, "the global field, 8 x 12, on a mesh of 2 x 2 ranks", bold=True)
    x0, y0 = 34, 66
    for i in range(8):
        for j in range(12):
            p.rect(x0 + j * c, y0 + i * c, c, c, RANKS[i // 4 * 2 + j // 6], "white")
    for r in range(4):
        p.rect(x0 + r % 2 * 6 * c, y0 + r // 2 * 4 * c, 6 * c, 4 * c, width=1.6)
        p.text(x0 + (r % 2 * 6 + 3) * c, y0 + (r // 2 * 4 + 2) * c, f"rank {r}", 16, DARK[r], bold=True)
    for i in range(8):
        p.text(x0 - 12, y0 + (i + 0.5) * c, i, 11, GREY)
    for j in range(12):
        p.text(x0 + (j + 0.5) * c, y0 - 10, j, 11, GREY)
    p.text(190, 300, "latitude down, longitude to the right", 12, GREY)

    p.text(640, 22, "what rank 0 allocates, and the indices in its kernels", bold=True)
    x0, y0 = 510, 66
    for i in range(-1, 5):
        for j in range(-1, 7):
            inside = 0 <= i < 4 and 0 <= j < 6
            source = (i // 4) * 2 + (0 if 0 <= j < 6 else 1)  # longitude wraps round
            fill = OUTSIDE if i < 0 else RANKS[source]
            p.rect(x0 + (j + 1) * c, y0 + (i + 1) * c, c, c, fill, "white" if inside else GREY, dash=None if inside else "2 2")
    p.rect(x0 + c, y0 + c, 6 * c, 4 * c, width=2)
    for i in range(-1, 5):
        p.text(x0 - 14, y0 + (i + 1.5) * c, i, 12, INK if 0 <= i < 4 else GREY, mono=True)
    for j in range(-1, 7):
        p.text(x0 + (j + 1.5) * c, y0 - 10, j, 12, INK if 0 <= j < 6 else GREY, mono=True)
    p.rect(x0 + 3 * c, y0 + 2 * c, c, c, "#ffffff", DARK[0], 2)
    p.text(x0 + 4 * c + 6, y0 + 2.5 * c, "t(1, 2)", 13, DARK[0], "start", mono=True)
    p.text(x0 + 4.5 * c, y0 + 6.6 * c, "owned: 0 to extent - 1; the halo is at -1 and at extent", 12)
    p.text(x0 + 4 * c, y0 + 7.4 * c, "dashed: halo, coloured by the rank that owns the point; grey: outside the domain", 11, GREY)
    return p


def boundaries():
    """What is in the halo outside of the domain, for each boundary, and over a pole."""
    p, c = Picture(860, 460), 30
    p.text(235, 20, "along one dimension of 5 points, a to e", bold=True)
    n, halo, x0 = 5, 3, 130

    def reflect(g):
        m = g % (2 * (n - 1))
        return m if m < n else 2 * (n - 1) - m

    def symmetric(g):
        m = g % (2 * n)
        return m if m < n else 2 * n - 1 - m

    maps = [("Zero", lambda g: None), ("Constant<v>", lambda g: None), ("Periodic", lambda g: g % n), ("Reflect", reflect),
            ("Symmetric", symmetric), ("Clamp", lambda g: min(max(g, 0), n - 1))]
    for row, (name, source) in enumerate(maps):
        y = 46 + row * (c + 12)
        p.text(x0 - 10, y + c / 2, name, 13, anchor="end", mono=True)
        for g in range(-halo, n + halo):
            inside, x = 0 <= g < n, x0 + (g + halo) * c
            s = g if inside else source(g)
            word = ("0" if name == "Zero" else "v") if s is None else "abcde"[s]
            p.rect(x, y, c, c, RANKS[0] if inside else OUTSIDE, "white" if inside else GREY, dash=None if inside else "2 2")
            p.text(x + c / 2, y + c / 2, word, 14, INK if inside else DARK[1], bold=not inside)
        p.rect(x0 + halo * c, y, n * c, c, width=1.8)
    for g in range(-halo, n + halo):
        p.text(x0 + (g + halo + 0.5) * c, 46 + 6 * (c + 12) + 6, g, 11, GREY)
    p.text(235, 330, "local index", 11, GREY)

    for k, (name, title) in enumerate((("Pole::on_row", "the pole is row 0"), ("Pole::between_rows", "the pole is before row 0"))):
        x0, y0, cc = 560, 46 + k * 206, 30
        p.text(x0 + 3.5 * cc, y0 - 20, f"{name}: {title}", 13, bold=True)
        for i in range(-2, 3):
            for j in range(8):
                source = i if i >= 0 else (-i if k == 0 else -i - 1)
                turned = j if i >= 0 else (j + 4) % 8
                p.rect(x0 + j * cc, y0 + (i + 2) * cc, cc, cc, RANKS[source] if i >= 0 else OUTSIDE, "white" if i >= 0 else GREY, dash=None if i >= 0 else "2 2")
                p.text(x0 + (j + 0.5) * cc, y0 + (i + 2.5) * cc, "abc"[source] + str(turned), 12, INK if i >= 0 else DARK[1], bold=i < 0)
            p.text(x0 - 16, y0 + (i + 2.5) * cc, i, 12, GREY, mono=True)
        p.rect(x0, y0 + 2 * cc, 8 * cc, 3 * cc, width=1.8)
    p.text(680, 426, "PoleFold: rows are mirrored, longitudes turn by half the globe;", 11, GREY)
    p.text(680, 442, "with Parity::odd the sign changes", 11, GREY)
    p.text(235, 360, "grey: outside of the domain, filled by the exchange", 12, GREY)
    p.text(235, 380, "Sides<A, B>: one boundary for each end", 12, GREY)
    return p


def north_fold():
    """The last rows of a tripolar grid and the halo beyond its northern edge, for both kinds of pivots."""
    p, c, n = Picture(860, 270), 36, 8
    folds = (("Pivot::t_point", "the fold is on the last row", 0, 0), ("Pivot::f_point", "the fold is after the last row", -1, 1))
    for k, (pivot, title, opposite, between) in enumerate(folds):
        x0, y0 = 90 + k * 420, 60
        p.text(x0 + n * c / 2, 16, f"{pivot}, centres: {title}", 13, bold=True)
        for row in range(2, -3, -1):  # of the last row, "c", 0; northwards
            y = y0 + (2 - row) * c
            for j in range(n):
                halo, other = row > 0, (opposite - j) % n
                copy = row == 0 and not between and j > other
                across = halo or copy
                source = between - row if halo else row
                p.rect(x0 + j * c, y, c, c, OUTSIDE if across else RANKS[-row], "white" if not across else GREY, dash="2 2" if across else None)
                p.text(x0 + (j + 0.5) * c, y + c / 2, "cba"[-source] + str(other if across else j), 13, DARK[1] if across else INK, bold=across)
            p.text(x0 - 18, y + c / 2, f"N + {row - 1}" if halo and row > 1 else "N" if halo else f"N - {1 - row}", 11, GREY, "end")
        p.rect(x0, y0 + 2 * c, n * c, 3 * c, width=1.8)
        edge = y0 + (2 if between else 2.5) * c
        for x in (0, n / 2, n) if between else (0.5, n / 2 + 0.5):
            p.rect(x0 + x * c - 5, edge - 5, 10, 10, "none", DARK[3], 2, round=5)
    p.text(430, 256, "grey: filled by the exchange; circles: the two northern poles; with Parity::odd the sign changes", 12, GREY)
    return p


def tiles():
    """The six tiles of a cubed sphere, and tile 0 with a halo of two cells."""
    p, n, c = Picture(860, 400), 4, 30
    p.text(200, 16, "cubed_sphere(n), unfolded where no axis turns", 13, bold=True)
    for tile, (right, up) in enumerate(((0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2))):
        x0, y0, w = 24 + right * 88, 250 - up * 88, 82
        p.rect(x0, y0, w, w, RANKS[tile], width=1.6)
        p.text(x0 + w / 2, y0 + w / 2, f"tile {tile}", 14, bold=True)
        p.arrow(x0 + 8, y0 + w - 8, x0 + 34, y0 + w - 8)
        p.arrow(x0 + 8, y0 + w - 8, x0 + 8, y0 + w - 34)
        p.text(x0 + 40, y0 + w - 9, "x", 11)
        p.text(x0 + 8, y0 + w - 42, "y", 11)
    # tile 0 is even: its contacts are (tile, y', x') of a cell beyond a side
    beyond = {"W": lambda y, x: (4, n + x, n - 1 - y), "E": lambda y, x: (1, y, x - n),
              "S": lambda y, x: (5, n + y, x), "N": lambda y, x: (2, n - 1 - x, y - n)}
    x0, y0 = 520, 70
    p.text(x0 + 4 * c, 16, "tile 0 and its halo: the cells (y, x) of the tiles around it", 13, bold=True)
    for y in range(-2, n + 2):
        for x in range(-2, n + 2):
            sides = ("W" if x < 0 else "E" if x >= n else "") + ("S" if y < 0 else "N" if y >= n else "")
            left, top = x0 + (x + 2) * c, y0 + (n + 1 - y) * c
            tile, of_y, of_x = (0, y, x) if not sides else beyond[sides](y, x) if len(sides) == 1 else (None, 0, 0)
            p.rect(left, top, c, c, OUTSIDE if tile is None else RANKS[tile], "white" if sides else GREY)
            p.text(left + c / 2, top + c / 2, "0" if tile is None else f"{of_y} {of_x}", 11, GREY if tile is None else INK)
    p.rect(x0 + 2 * c, y0 + 2 * c, n * c, n * c, width=1.8)
    for word, x, y in (("tile 4", x0 - 24, y0 + 4 * c), ("tile 1", x0 + 8 * c + 24, y0 + 4 * c), ("tile 2", x0 + 4 * c, y0 - 12), ("tile 5", x0 + 4 * c, y0 + 8 * c + 12)):
        p.text(x, y, word, 12)
    p.text(430, 388, "grey: three tiles meet at a corner, so these cells have no source; the exchange sets them to zero", 12, GREY)
    return p


def index_space():
    """A mesh of hexagons on three ranks; what rank 0 stores: owned, two layers of halo, an unused tail."""
    p, a = Picture(860, 330), 21.0
    def owner(i, j):
        return 0 if j < 4 else 1 if i < 3 else 2
    cells = [(i, j) for i in range(6) for j in range(9)]
    def near(c):
        i, j = c
        s = i % 2
        return [n for n in ((i, j - 1), (i, j + 1), (i - 1, j - 1 + s), (i - 1, j + s), (i + 1, j - 1 + s), (i + 1, j + s)) if n in cells]
    layer = {c: 0 for c in cells if owner(*c) == 0}
    for step in (1, 2):
        for c in [c for c, l in layer.items() if l == step - 1]:
            for n in near(c):
                layer.setdefault(n, step)
    def hexagon(x, y, fill, stroke, width):
        points = " ".join(f"{x + a * dx:g},{y + a * dy:g}" for dx, dy in ((0, -1), (0.866, -0.5), (0.866, 0.5), (0, 1), (-0.866, 0.5), (-0.866, -0.5)))
        p.shapes.append(f'<polygon points="{points}" fill="{fill}" stroke="{stroke}" stroke-width="{width:g}"/>')
    p.text(220, 22, "cells by their owner; the layers of rank 0's halo", bold=True)
    for i, j in cells:
        x, y = 60 + 2 * 0.866 * a * j + (0.866 * a if i % 2 else 0), 64 + 1.5 * a * i
        hexagon(x, y, RANKS[owner(i, j)], "white", 2)
        l = layer.get((i, j))
        if l is not None:
            p.text(x, y, "own" if l == 0 else l, 11 if l == 0 else 13, DARK[0] if l == 0 else INK, bold=l > 0)
    for r, (x, y) in enumerate(((60, 274), (160, 274), (260, 274))):
        p.rect(x, y - 8, 16, 16, RANKS[r], "white")
        p.text(x + 24, y, f"rank {r}", 13, DARK[r], anchor="start", bold=True)
    p.text(600, 22, "t(place): the memory of rank 0", bold=True)
    parts = [("interior", 90, RANKS[0]), ("read by others", 110, RANKS[0])]
    for l in (1, 2):
        parts += [(f"rank {r}", 55, RANKS[r]) for r in (1, 2)]
    parts += [("unused", 60, "white")]
    x, y, starts = 430, 130, []
    scale = 400 / sum(w for _, w, _ in parts)
    for words, w, fill in parts:
        starts.append(x)
        p.rect(x, y, w * scale, 44, fill, INK, 1.2, dash="4 3" if words == "unused" else None)
        p.text(x + w * scale / 2, y + 22, words, 10)
        x += w * scale
    starts.append(x)
    for words, first, last in (("owned", 0, 2), ("layer 1", 2, 4), ("layer 2", 4, 6), ("tail", 6, 7)):
        p.text((starts[first] + starts[last]) / 2, y - 14, words, 13, bold=True)
    for words, at, low in (("0", 0, 60), ("owned()", 2, 60), ("places(1)", 4, 60), ("places()", 6, 60)):
        p.arrow(starts[at], y + low + 10, starts[at], y + 46, GREY)
        p.text(starts[at], y + low + 22, words, 12, GREY, mono=True)
    p.text(630, 240, "exchange copies each halo cell from its owner,", 13)
    p.text(630, 258, "one message from each neighbour; the tail stays as it is", 13)
    p.text(630, 292, "within a layer the cells are sorted by owner,", 13)
    p.text(630, 310, "so that a message is copied in a few pieces", 13)
    return p


def messages():
    """One exchange of two fields as rank 4 of 3 x 3 sees it: pack, one message for each neighbour, unpack."""
    p = Picture(860, 360)
    p.text(160, 20, "rank 4 of 3 x 3 ranks, halo of one", bold=True)
    x0, y0, b, g = 26, 44, 78, 16
    for r in range(9):
        x, y = x0 + r % 3 * (b + g), y0 + r // 3 * (b + g)
        p.rect(x, y, b, b, RANKS[0] if r == 4 else "#f4f4f4", width=1.4)
        p.text(x + b / 2, y + b / 2 - (0 if r == 4 else 0), r, 18, DARK[0] if r == 4 else GREY, bold=True)
    x, y, e = x0 + b + g, y0 + b + g, 11
    for (i, j) in [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]:
        side = i == 0 or j == 0
        colour = DARK[1] if side else DARK[3]
        w, h = (e if j else b - 2 * e), (e if i else b - 2 * e)
        px, py = x + (0 if j < 0 else b - e if j > 0 else e), y + (0 if i < 0 else b - e if i > 0 else e)
        p.rect(px, py, w, h, RANKS[1] if side else RANKS[3], colour)
        cx, cy = x + b / 2 + j * (b / 2 - 4), y + b / 2 + i * (b / 2 - 4)
        p.arrow(cx, cy, cx + j * (g + 16), cy + i * (g + 16), colour)
    p.text(160, 350, "corners go straight to the rank that owns them", 12, GREY)

    p.text(590, 20, "one exchange of two fields, t and q", bold=True)
    columns = [(370, "fields"), (520, "messages"), (720, "neighbours' halos")]
    for cx, word in columns:
        p.text(cx + 30, 48, word, 12, GREY)
    for k, name in enumerate("tq"):
        p.rect(360, 90 + k * 120, 80, 80, RANKS[0], width=1.6)
        p.text(400, 130 + k * 120, name, 18, DARK[0], bold=True)
    for k in range(8):
        y = 66 + k * 33
        corner = k in (0, 2, 5, 7)
        rank = k if k < 4 else k + 1
        for f in range(2):
            w = 14 if corner else 40
            p.rect(530 + f * w, y, w, 20, RANKS[3] if corner else RANKS[1], DARK[3] if corner else DARK[1])
            p.text(530 + (f + 0.5) * w, y + 10, "tq"[f], 12)
        p.arrow(530 + (28 if corner else 80) + 4, y + 10, 712, y + 10, DARK[3] if corner else DARK[1])
        p.rect(718, y - 2, 86, 24, "#f4f4f4")
        p.text(761, y + 10, f"rank {rank}", 12)
    p.text(830, 330, "unpack: one kernel", 12, anchor="end")
    p.arrow(446, 150, 520, 150, INK, 2)
    p.arrow(446, 220, 520, 220, INK, 2)
    p.text(482, 184, "pack:", 12)
    p.text(482, 200, "one kernel", 12)
    p.text(590, 350, "one message for each neighbour, whatever the number of fields", 12, GREY)
    return p


def adjoint():
    """A periodic row of 6 points on two ranks: the exchange copies, its transpose adds back."""
    p, c = Picture(860, 400), 44
    for k, title in enumerate(("forward: halos(space) copies", "adjoint: halos.adjoint(space) adds back, and zeroes the halo")):
        y0 = 66 + k * 190
        p.text(430, y0 - 44, title, 14, bold=True)
        for r in range(2):
            x0 = 120 + r * 360
            p.text(x0 + 2.5 * c, y0 - 22, f"rank {r}", 13, DARK[r], bold=True)
            names = ["f", "a", "b", "c", "d"] if r == 0 else ["c", "d", "e", "f", "a"]
            for i in range(5):
                halo = i in (0, 4)
                owner = (1, 0, 0, 0, 1)[i] if r == 0 else (0, 1, 1, 1, 0)[i]
                p.rect(x0 + i * c, y0, c, c, RANKS[owner], GREY if halo else "white", dash="3 2" if halo else None)
                p.text(x0 + (i + 0.5) * c, y0 + c / 2, names[i], 16, bold=not halo)
                p.text(x0 + (i + 0.5) * c, y0 + c + 12, i - 1, 11, GREY, mono=True)
            p.rect(x0 + c, y0, 3 * c, c, width=1.8)
        pairs = [((0, 3), (1, 0)), ((1, 1), (0, 4)), ((0, 1), (1, 4)), ((1, 3), (0, 0))]
        for n, ((r1, i1), (r2, i2)) in enumerate(pairs):
            far = n >= 2
            y = y0 + c + 22 if far else y0 - 2
            a, b = 120 + r1 * 360 + (i1 + 0.5) * c, 120 + r2 * 360 + (i2 + 0.5) * c
            if k == 1:
                a, b = b, a
            bend = (44 if far else 34) * (-1 if far else 1) * (1 if b > a else -1)
            p.arrow(a, y, b, y, DARK[1] if k == 0 else DARK[3], 1.6, bend)
    p.text(430, 384, "dJ/d(a) = what a's owner computed + what came back from the halo of rank 1, in an order that the plan fixes", 12, GREY)
    return p


def redistribution():
    """Rows to columns on three ranks: each piece goes from the rank of its row to the rank of its column."""
    p, c = Picture(860, 300), 62
    for k, (x0, title) in enumerate(((60, "ShardDim<0, Lat>: rows"), (600, "ShardDim<1, Lat>: columns"))):
        p.text(x0 + 1.5 * c, 24, title, 14, bold=True)
        for i in range(3):
            for j in range(3):
                p.rect(x0 + j * c, 60 + i * c, c, c, RANKS[i if k == 0 else j], "white")
                p.text(x0 + (j + 0.5) * c, 60 + (i + 0.5) * c, "abc"[i] + str(j), 15)
        for r in range(3):
            if k == 0:
                p.rect(x0, 60 + r * c, 3 * c, c, width=1.8)
                p.text(x0 - 10, 60 + (r + 0.5) * c, f"rank {r}", 12, DARK[r], "end", bold=True)
            else:
                p.rect(x0 + r * c, 60, c, 3 * c, width=1.8)
                p.text(x0 + (r + 0.5) * c, 50, f"rank {r}", 12, DARK[r], bold=True)
    for i in range(3):
        for j in range(3):
            y = 84 + (i * 3 + j) * 18
            if i == j:
                p.text(424, y, f"{'abc'[i]}{j} stays on rank {i}", 12, GREY)
            else:
                p.text(330, y, "abc"[i] + str(j), 12, DARK[i])
                p.arrow(348, y, 410, y, DARK[i])
                p.text(420, y, f"rank {i} to rank {j}", 12, anchor="start")
    p.text(430, 278, "redistribute(space, columns, rows): one message for each pair of ranks that share points; the adjoint sends them back", 12, GREY)
    return p


def coupling():
    """A 2 x 2 mesh and three strips on other ranks: each strip in the colours of the ranks that send to it."""
    p, c = Picture(860, 330), 36
    for x0, title in ((60, "atmosphere: 2 x 2"), (560, "ocean: 3 strips")):
        p.text(x0 + 3 * c, 24, title, 14, bold=True)
        for i in range(6):
            for j in range(6):
                p.rect(x0 + j * c, 60 + i * c, c, c, RANKS[i // 3 * 2 + j // 3], "white")
    for r in range(4):
        x, y = 60 + r % 2 * 3 * c, 60 + r // 2 * 3 * c
        p.rect(x, y, 3 * c, 3 * c, width=1.8)
        p.text(x + 1.5 * c, y + 1.5 * c, f"rank {r}", 13, DARK[r], bold=True)
    for r in range(3):
        p.rect(560, 60 + 2 * r * c, 6 * c, 2 * c, width=1.8)
        p.text(560 + 6 * c + 10, 60 + (2 * r + 1) * c, f"rank {4 + r}", 12, INK, "start", bold=True)
    sends = [(r, 4 + t) for t in range(3) for r in range(4) if r // 2 * 3 < 2 * t + 2 and 2 * t < r // 2 * 3 + 3]
    for k, (r, t) in enumerate(sends):
        y = 74 + k * 26
        p.text(362, y, f"rank {r}", 12, DARK[r], "end")
        p.arrow(372, y, 450, y, DARK[r])
        p.text(460, y, f"rank {t}", 12, anchor="start")
    p.text(430, 308, "one message for each pair of ranks that share points, for all fields of a set; each side calls its half: send, receive", 12, GREY)
    return p


def training():
    """A training step on two ranks: what is local, and where the ranks communicate."""
    p = Picture(780, 330)
    for k, name in enumerate(("x", "y", "loss")):
        p.text(150 + k * 240, 24, name, 14, bold=True, mono=True)
    for r in range(2):
        y = 70 + r * 150
        p.text(40, y + 30, f"rank {r}", 13, DARK[r], bold=True)
        for k in range(3):
            p.rect(110 + k * 240, y, 80, 60, RANKS[r], width=1.5)
        for k, (there, back) in enumerate((("apply", "pullback"), ("loss", "loss.pullback"))):
            x = 196 + k * 240
            p.arrow(x, y + 18, x + 148, y + 18, DARK[1])
            p.text(x + 74, y + 8, there, 12, DARK[1])
            p.arrow(x + 148, y + 44, x, y + 44, DARK[3])
            p.text(x + 74, y + 56, back, 12, DARK[3])
    for k, word in enumerate(("halo exchange,", "weights' gradients:", "sum of the")):
        x = (150, 390, 630)[k]
        p.arrow(x, 136, x, 214, INK, 1.6)
        p.arrow(x, 214, x, 136, INK, 1.6)
        p.text(x + 12, 168, word, 12, anchor="start")
        p.text(x + 12, 184, ("back: its adjoint", "GradientSum", "errors")[k], 12, anchor="start")
    p.text(390, 312, "then the same optimiser step on every rank: the weights stay equal, bit for bit", 12, GREY)
    return p


def rooms():
    """The rooms, and that a room includes only what is above it."""
    rooms = re.findall(r"^\| `(\w+)/` \|", (folder.parent / "architecture.md").read_text(), flags=re.M)
    words = {"base": "types, errors, log", "mesh": "process meshes, specs", "view": "fields, boundaries, regions",
             "comm": "MPI, shared memory, NCCL", "exchange": "halos: plans and their adjoint",
             "redistribute": "placements, partitions", "collectives": "all-to-all, gather, zigzag",
             "reduce": "sums, extrema, norms", "annotate": "tensors annotated at run time", "autodiff": "operations, tape, checks",
             "layers": "windows, norms, attention, losses", "model": "modules, conversion", "train": "optimisers, gradient sums", "solve": "Krylov methods, multigrid", "io": "NetCDF, maps, checkpoints",
             "c": "the C interface", "fortran": "the Fortran module"}
    if set(rooms) != set(words):
        raise SystemExit(f"docs/site/pictures.py: rooms() has words for {sorted(words)}, docs/architecture.md has the rooms {sorted(rooms)}")
    p = Picture(640, 60 + 40 * len(rooms))
    p.text(320, 20, "a room includes rooms above it, never below", 13, bold=True)
    for k, room in enumerate(rooms):
        y = 44 + k * 40
        p.rect(90, y, 480, 30, RANKS[k % 3 * 2], INK, 1.2, round=5)
        p.text(106, y + 15, room + "/", 14, anchor="start", bold=True, mono=True)
        p.text(250, y + 15, words[room], 13, anchor="start")
    p.arrow(60, 44 + 40 * len(rooms) - 20, 60, 50, GREY, 2.2)
    p.text(40, 60 + 20 * len(rooms), "uses", 13, GREY)
    return p


def four_d_var_cost():
    """The cost of docs/four_d_var.md's experiment: of each outer iteration's run, and its quadratic model at each inner one."""
    runs = [66411.1, 3650.5, 1519.4, 1201.8]
    inner = [[26565.6, 12010.7, 6624.1, 5379.9, 4465.4, 4067.1, 3675.5, 3504.3, 3392.2, 3249.3, 3129.1, 2998.7, 2907.1, 2769.8, 2648.7],
             [3034.7, 2701.6, 2492.2, 2235.6, 2053.9, 1960.3, 1879.3, 1796.5, 1753.1, 1693.1, 1654.5, 1618.5, 1580.6, 1539.9, 1491.3],
             [1488.5, 1470.4, 1452.1, 1436.7, 1420.6, 1405.2, 1385.2, 1363.8, 1345.7, 1327.4, 1299.7, 1275.2, 1253.4, 1222.0, 1195.7]]
    p = Picture(840, 340)

    def at(iteration, cost):
        return 80 + 14 * iteration, round(290 - 140 * (math.log10(cost) - 3), 1)

    for cost in (1000, 2000, 5000, 10000, 20000, 50000):
        x, y = at(0, cost)
        p.rect(x, y, 650, 0, stroke=OUTSIDE)
        p.text(x - 10, y, f"{cost:g}", 12, GREY, "end")
    for k, costs in enumerate(inner):
        points = [at(15 * k + i, c) for i, c in enumerate([runs[k], *costs])]
        p.line(points, DARK[0])
        for x, y in points[1:]:
            p.rect(x - 2, y - 2, 4, 4, DARK[0], DARK[0])
    for k, cost in enumerate(runs):
        x, y = at(15 * k, cost)
        p.rect(x - 5, y - 5, 10, 10, DARK[1], "white", round=5)
        p.text(x + 10, y - 14, f"run {k}: {cost:g}", 13, DARK[1], "start", bold=True)
        p.text(x, 308, 15 * k, 12, GREY)
    p.text(395, 328, "inner iterations; blue: the quadratic model of the cost, orange: the cost of a run of the model", 12, GREY)
    return p


# benchmarks/RESULTS.md, "Two hosts": predicted over measured by the number of ranks; milliseconds of the same work
PREDICTED = {"exchange": {2: 0.92, 4: 1.09, 6: 1.22, 8: 0.74}, "U-Net": {2: 1.29, 4: 0.87, 6: 0.29, 8: 0.27},
             "shallow water": {2: 0.99, 4: 0.99, 6: 0.40, 8: 0.61}, "multigrid-CG": {2: 0.84, 4: 0.87, 6: 0.34, 8: 0.60},
             "transposes": {2: 1.00, 4: 0.80, 6: 0.47, 8: 0.92}}
STRONG = {"exchange": [1.91, 3.12, 1.26, 3.21], "U-Net": [13.72, 12.12, 9.62, 24.31], "lat-lon": [2.45, 6.61, 1.91, 6.68],
          "Voronoi": [8.56, 4.98, 8.12, 8.39], "multigrid-CG": [34.49, 22.66, 22.95, 31.21], "transposes": [1.08, 24.54, 1.38, 26.35]}


def scaling_predicted():
    """Predicted over measured time of a step on two hosts, by program and number of ranks."""
    p = Picture(760, 300)

    def at(k, ratio):
        return 90 + 120 * k, round(120 - 190 * (ratio - 1), 1)

    p.rect(60, at(0, 1.15)[1], 640, at(0, 0.85)[1] - at(0, 1.15)[1], "#eef4ee", "none")
    for ratio in (0.25, 0.5, 0.85, 1, 1.15, 1.4):
        y = at(0, ratio)[1]
        p.rect(60, y, 640, 0, stroke=INK if ratio == 1 else GREY, width=0.7)
        p.text(50, y, f"{ratio:g}", 12, GREY, "end")
    for k, (name, ratios) in enumerate(PREDICTED.items()):
        for i, (ranks, ratio) in enumerate(ratios.items()):
            x, y = at(k, ratio)
            x += 22 * i
            p.rect(x - 4, y - 4, 8, 8, DARK[i], DARK[i], round=4)
            p.text(x, y - 12, ranks, 11, DARK[i])
        p.text(at(k, 1)[0] + 33, 284, name, 12)
    p.text(380, 14, "predicted / measured time of a step; the number is that of ranks on two hosts", 13)
    return p


def scaling_strong():
    """Speed-up over one rank of the same work on one host and on two."""
    p = Picture(760, 300)
    names = ["1 rank", "2 ranks on 2 hosts", "4 ranks on 1 host", "4 ranks on 2 hosts"]
    most = 2.2
    for speed in (0.5, 1, 1.5, 2):
        y = 250 - 220 * speed / most
        p.rect(50, y, 690, 0, stroke=GREY, width=0.7)
        p.text(42, y, f"{speed:g}", 12, GREY, "end")
    fills = [RANKS[0], DARK[1], RANKS[2], DARK[2]]
    for k, (name, times) in enumerate(STRONG.items()):
        for i, time in enumerate(times):
            h = 220 * times[0] / time / most
            p.rect(60 + 115 * k + 22 * i, round(250 - h, 1), 21, round(h, 1), fills[i], "none")
        p.text(104 + 115 * k, 264, name, 12)
    for i, words in enumerate(names):
        p.rect(70 + 170 * i, 281, 12, 12, fills[i], "none")
        p.text(88 + 170 * i, 287, words, 12, anchor="start")
    p.text(395, 12, "speed relative to one rank, the same work", 13)
    return p


check, folder = "--check" in sys.argv, Path(sys.argv[-1])
wrong = []
for draw in (field, boundaries, north_fold, tiles, index_space, messages, adjoint, redistribution, coupling, training, rooms, four_d_var_cost, scaling_predicted, scaling_strong):
    file, svg = folder / f"{draw.__name__}.svg", draw().svg()
    if not check:
        file.write_text(svg)
    elif not file.exists() or file.read_text() != svg:
        wrong.append(str(file))
if wrong:
    raise SystemExit(f"docs/site/pictures.py: {', '.join(wrong)}: not what this script draws; run docs/site/pictures.py {folder}")
