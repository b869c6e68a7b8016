"""Writes the images that tests/training/images.rs reads, with Pillow 13.0.0."""

import pathlib

import numpy as np
from PIL import Image

folder = pathlib.Path(__file__).parent / "images"


def pixels(height, width, channels, of):
    grid = [[[of(c, y, x) % 256 for c in range(channels)] for x in range(width)] for y in range(height)]
    return np.array(grid, dtype="uint8")


def save(name, array):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **({"quality": 95} if name.endswith("jpg") else {"format": "PNG"}))


def colour(c, y, x):
    return 60 * c + 20 * y + 7 * x


save("first/a.png", pixels(4, 5, 3, colour))
save("first/b.PNG", pixels(3, 2, 1, lambda c, y, x: 40 * y + 9 * x)[:, :, 0])
save("second/c.jpg", pixels(16, 8, 3, lambda c, y, x: [200, 100, 50][c]))
save("second/d.png", pixels(2, 2, 4, lambda c, y, x: 128 if c == 3 else colour(c, y, x)))
