"""Twin of examples/char_gpt.rs: python peers/programs/char_gpt.py"""

import pathlib
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from common import DATA, below, check_onnx, initialize, write_losses

CONTEXT = 32
FEATURES = 64
BATCH = 16
STEPS = 200
WARM_UP = 20


class Gpt(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letters = nn.Embedding(letters, FEATURES)
        self.positions = nn.Embedding(CONTEXT, FEATURES)
        layer = nn.TransformerEncoderLayer(
            FEATURES, 4, 4 * FEATURES, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 2, nn.LayerNorm(FEATURES), enable_nested_tensor=False)
        self.head = nn.Linear(FEATURES, letters, bias=False)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = self.letters(x) + self.positions(torch.arange(x.shape[1]))
        return self.head(self.blocks(x, mask, is_causal=True))


text = (DATA / "sonnet.txt").read_text()
alphabet = sorted(set(text))
codes = torch.tensor([alphabet.index(letter) for letter in text])


def loss_of(net, x, y):
    return F.cross_entropy(net(x).flatten(0, 1), y.flatten())


def batch(step):
    at = below(f"batch.{step}", [BATCH], len(text) - CONTEXT)[:, None] + torch.arange(CONTEXT)
    return codes[at], codes[at + 1]


def train(path, first):
    net = Gpt(len(alphabet))
    initialize(net)
    matrices = [it for it in net.parameters() if it.ndim > 1]
    vectors = [it for it in net.parameters() if it.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}]
    opt = torch.optim.AdamW(groups, lr=3e-3)
    rise, fall = LinearLR(opt, 0.05, total_iters=WARM_UP), CosineAnnealingLR(opt, STEPS - WARM_UP)
    schedule = SequentialLR(opt, [rise, fall], [WARM_UP])
    state = {"net": net, "opt": opt, "schedule": schedule}
    if first > 0:
        for name, saved in torch.load(path).items():
            state[name].load_state_dict(saved)
    losses = []
    for step in range(first, STEPS):
        loss = loss_of(net, *batch(step))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        schedule.step()
        losses.append(loss.item())
        if step + 1 == STEPS // 2:
            torch.save({name: it.state_dict() for name, it in state.items()}, path)
    return net, losses


def generate(net, prompt, length):
    text = [alphabet.index(letter) for letter in prompt]
    for _ in range(length):
        with torch.no_grad():
            text.append(net(torch.tensor([text[-CONTEXT:]]))[0, -1].argmax().item())
    return "".join(alphabet[code] for code in text)


path = pathlib.Path(tempfile.mkdtemp()) / "char_gpt.pt"
net, losses = train(path, 0)
_, resumed = train(path, STEPS // 2)
assert resumed == losses[STEPS // 2 :], "the run that was resumed has the same losses"
print(generate(net, "Shall I ", 120))
write_losses("char_gpt", losses)
check_onnx("char_gpt", net, [codes[None, :CONTEXT]])
