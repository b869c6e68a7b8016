"""Reads checkpoints that ms wrote with PyTorch and MindSpore, and writes them again, for ms to read.

    MS_CHECKPOINTS=FOLDER cargo test --test training files_of_pytorch checkpoints_of_mindspore
    python peers/checkpoints.py FOLDER
    MS_CHECKPOINTS=FOLDER cargo test --test training files_of_pytorch checkpoints_of_mindspore

`net.safetensors` beside `net.pt`, and `cells.safetensors` beside `cells.ckpt`, have the same values. Needs `numpy`,
`safetensors` and `torch` or `mindspore` (which needs `numpy<2`); files of the other framework are left out.
"""

import sys
from pathlib import Path

from safetensors.numpy import load_file


def same(name, got, want):
    assert got.shape == want.shape and got.dtype == want.dtype, f"{name}: {got.dtype}{got.shape}"
    assert got.tobytes() == want.tobytes(), name


def of_pytorch(folder):
    import torch
    from safetensors.torch import load_file

    state, want = torch.load(folder / "net.pt", weights_only=True), load_file(folder / "net.safetensors")
    assert state.keys() == want.keys()
    for name, it in state.items():
        assert it.dtype == want[name].dtype and it.shape == want[name].shape, name
        assert torch.equal(it, want[name]), name
    torch.save(state, folder / "back.pt")
    return f"PyTorch {torch.__version__}: {len(state)} tensors"


def of_mindspore(folder):
    import mindspore

    state, want = mindspore.load_checkpoint(str(folder / "cells.ckpt")), load_file(folder / "cells.safetensors")
    assert state.keys() == want.keys()
    for name, it in state.items():
        same(name, it.asnumpy(), want[name])
    parameters = [{"name": name, "data": it} for name, it in state.items()]
    mindspore.save_checkpoint(parameters, str(folder / "back.ckpt"))
    return f"MindSpore {mindspore.__version__}: {len(state)} tensors"


for check in [of_pytorch, of_mindspore]:
    try:
        print(check(Path(sys.argv[1])))
    except ModuleNotFoundError as error:
        print(f"left out: {error}")
