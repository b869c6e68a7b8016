"""Writes pytorch.safetensors: the state dict of a small network, inputs, and its outputs in
evaluation, under `state.`, `ids` and `outputs`.

    python ms-backends/conformance/suites/training/data/generate.py        # PyTorch 2.15.0
"""

import json
import struct
from pathlib import Path

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 4, bias=False)

    def forward(self, x):
        return x + torch.tanh(self.fc(self.norm(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


DTYPES = {torch.float32: "F32", torch.int64: "I64"}


def write(path, tensors):
    """The safetensors format: the length of the header, the header, the tensors."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        shape = list(tensor.shape)
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


torch.manual_seed(1)
net = Net()
ids = torch.randint(0, 5, (32,))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    loss = net(torch.randint(0, 5, (16,))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
net.eval()
tensors = {f"state.{name}": value for name, value in net.state_dict().items()}
write(
    Path(__file__).parent / "pytorch.safetensors",
    tensors | {"ids": ids, "outputs": net(ids).detach()},
)
