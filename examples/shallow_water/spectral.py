#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""spectral.py T OUT: cases 5 (day 15) and 6 (day 10) of Williamson et al. 1992 by a spectral-transform model.

Vorticity, divergence and depth, triangular truncation T, Gauss-Legendre grid without aliasing of quadratic terms, the
classical method of Runge and Kutta, no diffusion. Writes the surface's height at the centres of 72 x 144 cells, south to
north, as float32 "case5" and "case6" in a safetensors file. Needs numpy.
"""
import json
import struct
import sys

import numpy as np

A, G, OMEGA, DAY = 6371220.0, 9.80616, 7.292e-5, 86400.0
T = int(sys.argv[1])


def legendre(mu):
    """P[m][n - m, j], normalised so that the mean of its square over the sphere is 1, for n = m ... T + 1."""
    out, pmm = [], np.ones_like(mu)
    for m in range(T + 1):
        if m > 0:
            pmm = pmm * np.sqrt((2 * m + 1) / (2 * m)) * np.sqrt(1 - mu**2)
        p = [pmm, np.sqrt(2 * m + 3) * mu * pmm]
        for n in range(m + 2, T + 2):
            a = np.sqrt((4 * n**2 - 1) / (n**2 - m**2))
            b = np.sqrt((2 * n + 1) * ((n - 1)**2 - m**2) / ((2 * n - 3) * (n**2 - m**2)))
            p.append(a * mu * p[-1] - b * p[-2])
        out.append(np.array(p[:T + 2 - m]))
    return out


def derivative(p):
    """(1 - mu^2) dP/dmu for n = m ... T."""
    out = []
    for m in range(T + 1):
        n = np.arange(m, T + 1)[:, None]
        e = lambda k: np.sqrt(np.maximum(k**2 - m**2, 0) / (4 * k**2 - 1.0))
        d = -n * e(n + 1) * p[m][1:]
        d[1:] += (n[1:] + 1) * e(n[1:]) * p[m][:-2]
        out.append(d)
    return out


class Sphere:
    def __init__(self):
        self.nlat, self.nlon = (3 * T + 2) // 2 + 1, 2 ** int(np.ceil(np.log2(3 * T + 1)))
        self.mu, self.w = np.polynomial.legendre.leggauss(self.nlat)
        p = legendre(self.mu)
        self.h = derivative(p)
        self.p = [q[:T + 1 - m] for m, q in enumerate(p)]
        self.n = [np.arange(m, T + 1) for m in range(T + 1)]
        self.c2 = 1 - self.mu**2
        self.f = 2 * OMEGA * self.mu[:, None]
        self.lat = np.arcsin(self.mu)[:, None]
        self.lon = (2 * np.pi / self.nlon * np.arange(self.nlon))[None, :]

    def to_grid(self, fourier):  # [field, m, j]
        full = np.zeros((fourier.shape[0], self.nlon // 2 + 1, self.nlat), complex)
        full[:, :T + 1] = fourier
        return np.fft.irfft(full, self.nlon, axis=1).transpose(0, 2, 1) * self.nlon

    def to_fourier(self, grid):  # [field, j, i]
        return np.fft.rfft(grid, axis=2)[:, :, :T + 1].transpose(0, 2, 1) / self.nlon

    def scalars(self, grid):
        four = self.to_fourier(np.asarray(grid))
        return [four[:, m] * (self.w / 2) @ self.p[m].T for m in range(T + 1)]  # list of [field, n]

    def tendencies(self, spectrum):
        """spectrum: list over m of [3, n]: vorticity, divergence, depth."""
        four = np.zeros((5, T + 1, self.nlat), complex)
        for m, s in enumerate(spectrum):
            inverse = -A**2 / np.maximum(self.n[m] * (self.n[m] + 1.0), 1.0)  # of the Laplacian; the means are 0
            psi, chi = s[0] * inverse, s[1] * inverse
            four[0, m] = (1j * m * chi @ self.p[m] - psi @ self.h[m]) / A
            four[1, m] = (1j * m * psi @ self.p[m] + chi @ self.h[m]) / A
            four[2:, m] = s @ self.p[m]
        u, v, zeta, _, h = self.to_grid(four)
        q = zeta + self.f
        energy = (u**2 + v**2) / (2 * self.c2[:, None]) + G * (h + self.relief)
        four = self.to_fourier(np.array([q * u, q * v, h * u, h * v, energy]))
        w, out = self.w / 2 / self.c2 / A, []
        for m in range(T + 1):
            a, b, c, d = [1j * m * ((four[k, m] * w) @ self.p[m].T) for k in range(4)]  # d/dlambda
            e, f, g, k = [(four[k, m] * w) @ self.h[m].T for k in range(4)]
            lap = -self.n[m] * (self.n[m] + 1.0) / A**2
            out.append(np.array([-(a - f), (b + e) - lap * ((four[4, m] * self.w / 2) @ self.p[m].T), -(c - k)]))
        return out

    def run(self, u, v, h, relief, days, dt):
        c = np.sqrt(self.c2)[:, None]
        # the relief as the model sees it
        r = self.scalars([relief])
        self.relief = self.to_grid(np.array([np.array([r[m][0] @ self.p[m] for m in range(T + 1)])]))[0]
        four = self.to_fourier(np.array([u * c, v * c]))
        w, s, depth = self.w / 2 / self.c2 / A, [], self.scalars([h])
        for m in range(T + 1):
            a, b = [1j * m * ((four[k, m] * w) @ self.p[m].T) for k in range(2)]
            e, f = [(four[k, m] * w) @ self.h[m].T for k in range(2)]
            s.append(np.array([b + e, a - f, depth[m][0]]))
        add = lambda x, y, t: [p + t * q for p, q in zip(x, y)]
        for _ in range(round(days * DAY / dt)):
            k1 = self.tendencies(s)
            k2 = self.tendencies(add(s, k1, dt / 2))
            k3 = self.tendencies(add(s, k2, dt / 2))
            k4 = self.tendencies(add(s, k3, dt))
            s = [x + dt / 6 * (a + 2 * b + 2 * c + d) for x, a, b, c, d in zip(s, k1, k2, k3, k4)]
        rows = 72
        mu = np.sin((np.arange(rows) + 0.5) * np.pi / rows - np.pi / 2)
        lon = (np.arange(2 * rows) + 0.5) * np.pi / rows
        out = np.zeros((rows, 2 * rows))
        for m, p in enumerate(legendre(mu)):
            part = (s[m][2] + r[m][0]) @ p[:T + 1 - m]
            out += (1 if m == 0 else 2) * (part[:, None] * np.exp(1j * m * lon)).real
        return out


def wave(lat, lon):
    k, c, s = 7.848e-6, np.cos(lat), np.sin(lat)
    u = A * k * (c + c**3 * (4 * s**2 - c**2) * np.cos(4 * lon))
    v = -4 * A * k * c**3 * s * np.sin(4 * lon)
    a = k / 2 * (2 * OMEGA + k) * c**2 + k**2 / 4 * (5 * c**10 + 26 * c**8 - 32 * c**6)
    b = (OMEGA + k) * k / 15 * c**4 * (26 - 25 * c**2)
    d = k**2 / 4 * c**8 * (5 * c**2 - 6)
    return u, v, 8000 + A**2 / G * (a + b * np.cos(4 * lon) + d * np.cos(8 * lon))


def main():
    sphere = Sphere()
    one = np.ones((sphere.nlat, sphere.nlon))
    lat, lon = sphere.lat * one, sphere.lon * one
    dt = DAY / round(DAY / (38000 / T))
    relief = 2000 * (1 - np.minimum(1, np.sqrt((lon - 1.5 * np.pi)**2 + (lat - np.pi / 6)**2) / (np.pi / 9)))
    # the depth from the relief that the spectrum has: the surface is balanced
    surface = 5960 - (A * OMEGA * 20 + 200) * np.sin(lat)**2 / G
    five = sphere.run(20 * np.cos(lat), 0 * lat, surface - relief, relief, 15, dt)
    u, v, h = wave(lat, lon)
    six = sphere.run(u, v, h, 0 * lat, 10, dt)
    data = [x.astype("<f4") for x in (five, six)]
    header, at = {}, 0
    for name, x in zip(("case5", "case6"), data):
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[2], "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(x.tobytes() for x in data))
    print(f"T{T}: steps of {dt:.1f} s, {five.min():.1f} to {five.max():.1f} m, {six.min():.1f} to {six.max():.1f} m")


main()
