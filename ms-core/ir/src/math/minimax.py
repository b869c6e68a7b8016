#!/usr/bin/env python3
"""Prints `coefficients.rs`.

Each polynomial is the minimax approximation, weighted so that the function built on it has the
least relative error, found by Remez' exchange in 60 digits and rounded to f32 and f64.

    python minimax.py > coefficients.rs
"""
import struct
from mpmath import mp, mpf, matrix, lu_solve, cos, sin, pi, sqrt, exp, log, atan, asin, sinh, erf, erfc, expm1, log1p, taylor

mp.dps = 60


def remez(g, weight, a, b, degree, rounds=8):
    """The polynomial P of `degree` with the least max |weight (P - g)| on [a, b]."""
    a, b = mpf(a), mpf(b)
    n = degree + 2
    nodes = [(a + b) / 2 - (b - a) / 2 * cos(pi * i / (n - 1)) for i in range(n)]
    grid = [(a + b) / 2 - (b - a) / 2 * cos(pi * i / (30 * n)) for i in range(30 * n + 1)]
    values = [(x, g(x), weight(x)) for x in grid]
    for _ in range(rounds):
        system, right = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(nodes):
            for j in range(degree + 1):
                system[i, j] = x ** j
            system[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = g(x)
        solution = lu_solve(system, right)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = [(x, w * (mp.polyval(coefficients[::-1], x) - y)) for x, y, w in values]
        # The extremum of each run of one sign.
        extrema = []
        for x, e in errors:
            if extrema and (e > 0) == (extrema[-1][1] > 0):
                if abs(e) > abs(extrema[-1][1]):
                    extrema[-1] = (x, e)
            else:
                extrema.append((x, e))
        while len(extrema) > n:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < n:
            break
        nodes = [x for x, _ in extrema]
    return coefficients, max(abs(e) for _, e in errors)


def at(z, f, limit):
    """f away from zero, its limit there."""
    return limit if abs(z) < mpf(10) ** -25 else f(z)


def erfcx(x):
    return exp(x * x) * erfc(x)


def tail(k):
    """(1 + 2x) erfcx(x) as a function of t = (x - k) / (x + k); Shepherd and Laframboise 1981."""
    def f(t):
        x = k * (1 + t) / (1 - t)
        return (1 + 2 * x) * erfcx(x)
    return f


HALF_LN2 = log(mpf(2)) / 2 * mpf('1.0001')
ONE = lambda z: mpf(1)

DOCS = {
    "EXP": "`(e^r - 1 - r) / r^2` in `r`, for `|r| <= ln 2 / 2`",
    "LOG": "`(ln((1 + s) / (1 - s)) / s - 2) / z` in `z = s^2`, for `|s| <= 3 - 2 sqrt 2`",
    "LOG_TAIL": "the series of `LOG` after its first term: `(LOG(z) - 2/3) / z`",
    "SIN": "`(sin r / r - 1) / z` in `z = r^2`, for `|r| <= pi / 4`",
    "COS": "`(cos r - 1 + z / 2) / z^2` in `z = r^2`, for `|r| <= pi / 4`",
    "ATAN": "`(atan t / t - 1) / z` in `z = t^2`, for `|t| <= sqrt 2 - 1`",
    "ASIN": "`(asin x / x - 1) / z` in `z = x^2`, for `|x| <= 1 / 2`",
    "SINH": "`(sinh x / x - 1) / z` in `z = x^2`, for `|x| <= 1`",
    "ERF": "`erf x / x - 1` in `z = x^2`, for `|x| <= 1 / 2`",
    "ERFCX": "`(1 + 2x) e^(x^2) erfc x` in `t = (x - 4) / (x + 4)`, for `x >= 1 / 2` where `erfc` does not vanish",
}

TABLE = [
    ("EXP", lambda r: at(r, lambda r: (expm1(r) - r) / r ** 2, mpf(1) / 2), lambda r: r ** 2 + mpf('1e-30'), (-HALF_LN2, HALF_LN2), (4, 9)),
    ("LOG", lambda z: at(z, lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z, mpf(2) / 3), lambda z: z + mpf('1e-30'), (0, (3 - 2 * sqrt(mpf(2))) ** 2 * mpf('1.0005')), (2, 6)),
    ("LOG_TAIL", lambda z: at(z, lambda z: ((log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z - mpf(2) / 3) / z, mpf(2) / 5), lambda z: z ** 2 + mpf('1e-30'), (0, (3 - 2 * sqrt(mpf(2))) ** 2 * mpf('1.0005')), (1, 7)),
    ("SIN", lambda z: at(z, lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, mpf(-1) / 6), lambda z: z + mpf('1e-30'), (0, (pi / 4) ** 2 * mpf('1.0002')), (2, 5)),
    ("COS", lambda z: at(z, lambda z: (cos(sqrt(z)) - 1 + z / 2) / z ** 2, mpf(1) / 24), lambda z: z ** 2 + mpf('1e-30'), (0, (pi / 4) ** 2 * mpf('1.0002')), (2, 5)),
    ("ATAN", lambda z: at(z, lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, mpf(-1) / 3), lambda z: z + mpf('1e-30'), (0, (sqrt(mpf(2)) - 1) ** 2 * mpf('1.0002')), (4, 10)),
    ("ASIN", lambda z: at(z, lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, mpf(1) / 6), lambda z: z + mpf('1e-30'), (0, mpf(1) / 4), (4, 12)),
    ("SINH", lambda z: at(z, lambda z: (sinh(sqrt(z)) / sqrt(z) - 1) / z, mpf(1) / 6), lambda z: z + mpf('1e-30'), (0, 1), (3, 6)),
    ("ERF", lambda z: at(z, lambda z: erf(sqrt(z)) / sqrt(z) - 1, 2 / sqrt(pi) - 1), ONE, (0, mpf(1) / 4), (4, 9)),
    ("ERFCX", tail(4), ONE, None, (9, 22)),
]


def shortest(value, wide):
    """The shortest decimal that reads back as the nearest value of the format."""
    if wide:
        return repr(float(value))
    to_f32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]
    nearest = to_f32(float(value))
    return next(s for s in (repr(float("%.*g" % (n, nearest))) for n in range(1, 10)) if to_f32(float(s)) == nearest)


if __name__ == "__main__":
    print("//! Polynomial coefficients, lowest power first: made by `minimax.py`, not by hand.")
    print()
    print("use super::Series;")
    for name, g, weight, interval, degrees in TABLE:
        fits = []
        for wide in (False, True):
            span = interval
            if span is None:
                top = mpf(27.3) if wide else mpf(10.1)
                span = ((mpf("0.5") - 4) / (mpf("0.5") + 4), (top - 4) / (top + 4))
            fits.append(remez(g, weight, *span, degrees[wide]))
        errors = ["2^%.1f" % mp.log(error, 2) for _, error in fits]
        print()
        print(f"/// {DOCS[name]};")
        print(f"/// relative error {errors[0]} (f32), {errors[1]} (f64) before rounding.")
        print(f"pub(super) const {name}: Series = Series {{")
        for wide, (coefficients, _) in enumerate(fits):
            print(f"    f{32 << wide}: &[")
            for c in coefficients:
                print(f"        {shortest(c, wide)},")
            print("    ],")
        print("};")
