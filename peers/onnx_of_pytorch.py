"""Writes ONNX models of PyTorch, with inputs and results, for the tests of `ms-onnx`.

    python peers/onnx_of_pytorch.py tests/data/onnx

Needs `torch`, `onnx` and `safetensors`. Models of `torch.export` (`--dynamo`, with `onnxscript`) are read as well, and
have the paths of the program in them, so that they are not kept.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x)).mean(1))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, 1, 1, groups=4)
        self.norm2 = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8 * 4 * 4, 7)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = x + F.silu(self.norm2(self.conv2(x)))
        x = F.avg_pool2d(F.max_pool2d(x, 3, 2, 1), 1)
        return torch.log_softmax(self.head(x.flatten(1)), -1)


class Sizes(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = x.reshape(rows, 2, columns // 2).transpose(1, 2).contiguous().view(rows, -1)
        y = torch.cat([y[:, 1:], x[:, :1]], 1)
        expanded = x.sum(1, keepdim=True).expand(rows, columns) * torch.arange(columns)
        return torch.where(y > 0, y, y.exp() - 1).clamp(-0.5, 2.0), expanded, torch.topk(x, 2, dim=1).values


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True)
        self.gru = nn.GRU(6, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h, c


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.tanh = nn.RNN(4, 3, num_layers=2, bidirectional=True)
        self.relu = nn.RNN(6, 5, nonlinearity="relu", bias=False)

    def forward(self, x):
        y, h = self.tanh(x)
        z, last = self.relu(y)
        return z, h, last


MODELS = {
    "mlp": (
        nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, 3), nn.Softmax(-1)),
        torch.randn(3, 6),
    ),
    "text": (Text(), torch.randint(0, 11, (3, 7))),
    "images": (Images(), torch.randn(2, 3, 16, 16)),
    "recurrent": (Recurrent(), torch.randn(7, 2, 4)),
    "rnn": (Plain(), torch.randn(7, 2, 4)),
    "sizes": (Sizes(), torch.randn(3, 6)),
    "transposed": (
        nn.Sequential(nn.ConvTranspose2d(2, 3, 3, 2, 1, 1), nn.ELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        torch.randn(2, 2, 5, 5),
    ),
}


def main(folder, dynamo):
    folder.mkdir(exist_ok=True)
    for name, (model, x) in MODELS.items():
        model.eval()
        with torch.no_grad():
            results = model(x)
        axis = 1 if name in ("recurrent", "rnn") else 0
        results = results if isinstance(results, tuple) else (results,)
        if dynamo:
            batch = {"dynamic_shapes": ({axis: torch.export.Dim("batch")},), "external_data": False}
        else:
            batch = {"dynamic_axes": {"x": {axis: "batch"}}}
        path = folder / f"{name}.onnx"
        torch.onnx.export(model, (x,), path, input_names=["x"], opset_version=18, dynamo=dynamo, **batch)
        values = {"in x": x} | {f"out {at}": it.contiguous() for at, it in enumerate(results)}
        save_file(values, path.with_suffix(".safetensors"))


main(Path(sys.argv[1]), "--dynamo" in sys.argv)
