"""Writes the files that tests/training/files.rs reads: NumPy, zip, gzip and csv of Python 3 and numpy 2.4.6.

The tests know what is in them by the formulas below.
"""

import csv
import gzip
import pathlib
import struct

import numpy as np

folder = pathlib.Path(__file__).parent / "files"
folder.mkdir(exist_ok=True)


def numbers(dtype, shape):
    """0, 1, 0, 1 for bools, else 1, 4, 7, ... modulo 101."""
    count = np.arange(int(np.prod(shape)))
    values = count % 2 if dtype == "bool" else (3 * count + 1) % 101
    return values.astype(dtype).reshape(shape)


kinds = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
arrays = {kind: numbers(kind, (2, 3)) for kind in kinds}
arrays["fortran"] = np.asfortranarray(numbers("int32", (2, 3, 4)))
arrays["big"] = numbers("float64", (3, 2)).astype(">f8")
arrays["scalar"] = numbers("float32", ())
arrays["empty"] = numbers("float32", (0, 3))
arrays["large"] = numbers("int16", (300, 50))
np.savez_compressed(folder / "packed.npz", **arrays)
del arrays["large"]
np.savez(folder / "plain.npz", **arrays)
np.save(folder / "float32.npy", arrays["float32"])
with open(folder / "version3.npy", "wb") as out:
    np.lib.format.write_array(out, arrays["fortran"], version=(3, 0))
np.save(folder / "text.npy", np.array(["a", "bc"]))
np.save(folder / "complex.npy", np.array([1j]))
np.save(folder / "structure.npy", np.zeros(2, dtype=[("a", "i4"), ("b", "f4")]))
np.save(folder / "object.npy", np.array([{}], dtype=object))


def idx(array):
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


images, classes = numbers("uint8", (3, 4, 5)), np.array([7, 0, 9], dtype="uint8")
(folder / "train-images-idx3-ubyte").write_bytes(idx(images))
(folder / "train-labels-idx1-ubyte").write_bytes(idx(classes))
with gzip.GzipFile(folder / "t10k-images-idx3-ubyte.gz", "wb", mtime=0) as out:
    out.write(idx(images))
with gzip.GzipFile(folder / "t10k-labels-idx1-ubyte.gz", "wb", mtime=0) as out:
    out.write(idx(classes))

with open(folder / "quoted.csv", "w", newline="") as out:
    rows = csv.writer(out)
    rows.writerow(["number", "a \"quoted\" name", "text, with commas", "flag"])
    for at in range(4):
        text = ["plain", "with, comma", "with \"quotes\"", "with\nline\r\nends"][at]
        rows.writerow([at / 7, 10 ** at, text, at % 2 == 0])
with open(folder / "semicolons.csv", "w", newline="") as out:
    rows = csv.writer(out, delimiter=";", lineterminator="\n", quoting=csv.QUOTE_ALL)
    for at in range(3):
        rows.writerow([at, -at, 255 - at])
