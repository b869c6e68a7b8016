"""Writes phrases.json: what PyTorch computes for each row of docs/from_pytorch.md.

usage: python phrases.py (with PyTorch; the rows are read from ../phrases.rs)
"""

import json
import re
from pathlib import Path

import torch
import torch.nn.functional as F

HERE = Path(__file__).parent


def arange(count, *shape):
    return torch.arange(count, dtype=torch.float32).reshape(shape)


NAMES = {
    "torch": torch,
    "F": F,
    "x": torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "y": torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -2.0]]),
    "v": torch.tensor([1.0, -2.0, 3.0]),
    "w": torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [-0.1, -0.2, -0.3], [0.7, 0.0, -0.7]]),
    "b": torch.tensor([0.5, -0.5, 0.25, 0.0]),
    "i": torch.tensor([2, 0, 1]),
    "c": torch.tensor([2, 0]),
    "p": torch.tensor([[0.1, 0.7, 0.2], [0.6, 0.3, 0.9]]),
    "m": arange(24, 2, 3, 4) / 8,
    "z": arange(32, 1, 2, 4, 4) / 16,
    "k": arange(54, 3, 2, 3, 3) / 27 - 1,
}


def results(value):
    values = [value] if isinstance(value, torch.Tensor) else list(value)
    return [{"shape": list(it.shape), "elements": it.double().flatten().tolist()} for it in values]


rows = re.findall(r'^            "(.*)" => ', (HERE.parent / "phrases.rs").read_text(), re.MULTILINE)
lines = [f"{json.dumps(row)}: {json.dumps(results(eval(row, dict(NAMES))))}" for row in rows]
(HERE / "phrases.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
