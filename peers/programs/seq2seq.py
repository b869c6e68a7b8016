"""Twin of examples/seq2seq.rs: python peers/programs/seq2seq.py"""

import torch
from torch import nn
from torch.nn import functional as F

from common import below, check_onnx, initialize, write_losses

LENGTH = 8
SYMBOLS = 10
FEATURES = 32
BATCH = 64
STEPS = 200
START = SYMBOLS


class Reverser(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS + 1, FEATURES)
        self.positions = nn.Embedding(LENGTH, FEATURES)
        encoder = nn.TransformerEncoderLayer(FEATURES, 4, 64, dropout=0, batch_first=True)
        decoder = nn.TransformerDecoderLayer(FEATURES, 4, 64, dropout=0, batch_first=True)
        self.encoder = nn.TransformerEncoder(encoder, 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, 1)
        self.head = nn.Linear(FEATURES, SYMBOLS)

    def embed(self, x):
        return self.symbols(x) + self.positions(torch.arange(x.shape[1]))

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        memory = self.encoder(self.embed(source))
        return self.head(self.decoder(self.embed(target), memory, mask, tgt_is_causal=True))


def after_start(x):
    return torch.cat([torch.full([len(x), 1], START), x], 1)


def loss_of(net, source, target):
    logits = net(source, after_start(target[:, :-1]))
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def translate(net, source):
    result = source[:, :0]
    for _ in range(LENGTH):
        with torch.no_grad():
            result = torch.cat([result, net(source, after_start(result))[:, -1:].argmax(-1)], 1)
    return result


net = Reverser()
initialize(net)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
losses = []
for step in range(STEPS):
    source = below(f"batch.{step}", [BATCH, LENGTH], SYMBOLS)
    loss = loss_of(net, source, source.flip(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
source = below("test", [200, LENGTH], SYMBOLS)
right = (translate(net, source) == source.flip(1)).float().mean().item()
print(f"{100 * right:.1f} % of the symbols of other sequences are right")
write_losses("seq2seq", losses)
check_onnx("seq2seq", net, [source, after_start(source[:, :-1])])
