"""Writes phrases_NAME.json: what PyTorch or MindSpore computes for each row of docs/from_NAME.md.

usage: python phrases.py pytorch|mindspore (with that framework; the rows are read from ../phrases/NAME.rs)
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAME = sys.argv[1]


def names(tensor):
    """The operands of rows, made from nested lists of floats or integers."""

    def arange(count, shape, divisor, offset=0.0):
        return tensor([it / divisor - offset for it in range(count)]).reshape(shape)

    return {
        "x": tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "y": tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -2.0]]),
        "v": tensor([1.0, -2.0, 3.0]),
        "w": tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [-0.1, -0.2, -0.3], [0.7, 0.0, -0.7]]),
        "b": tensor([0.5, -0.5, 0.25, 0.0]),
        "i": tensor([2, 0, 1]),
        "c": tensor([2, 0]),
        "p": tensor([[0.1, 0.7, 0.2], [0.6, 0.3, 0.9]]),
        "m": arange(24, (2, 3, 4), 8),
        "z": arange(32, (1, 2, 4, 4), 16),
        "k": arange(54, (3, 2, 3, 3), 27, 1.0),
    }


if NAME == "pytorch":
    import torch
    import torch.nn.functional as F

    SCOPE = {"torch": torch, "F": F, **names(torch.tensor)}
    TENSOR = torch.Tensor

    def elements(it):
        return it.double().flatten().tolist()
else:
    import mindspore as ms
    from mindspore import Tensor, nn, ops

    def tensor(numbers):
        flat = str(numbers)
        return Tensor(numbers, ms.float32 if "." in flat else ms.int32)

    SCOPE = {"ms": ms, "Tensor": Tensor, "nn": nn, "ops": ops, **names(tensor)}
    TENSOR = Tensor

    def elements(it):
        return it.asnumpy().astype("float64").flatten().tolist()


def results(value):
    values = [value] if isinstance(value, TENSOR) else list(value)
    return [{"shape": list(it.shape), "elements": elements(it)} for it in values]


rows = re.findall(r'^            "(.*)" =>', (HERE.parent / "phrases" / f"{NAME}.rs").read_text(), re.MULTILINE)
lines = [f"{json.dumps(row)}: {json.dumps(results(eval(row, dict(SCOPE))))}" for row in rows]
(HERE / f"phrases_{NAME}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
