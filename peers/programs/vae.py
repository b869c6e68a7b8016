"""Twin of examples/vae.rs: python peers/programs/vae.py"""

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from common import DATA, check_onnx, initialize, normal, write_losses

TRAIN = 1408
BATCH = 64
STEPS = 200
LATENT = 8


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance


def loss_of(net, x, noise):
    logits, mean, log_variance = net(x, noise)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    return (reconstruction + divergence) / BATCH


pixels = torch.from_numpy(numpy.loadtxt(DATA / "digits.csv", delimiter=",", dtype=numpy.float32))[:, :64] / 16
net = Vae()
initialize(net)
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
losses = []
for step in range(STEPS):
    first = step * BATCH % TRAIN
    loss = loss_of(net, pixels[first : first + BATCH], normal(f"noise.{step}", [BATCH, LATENT]))
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
with torch.no_grad():
    images = net.decoder(normal("samples", [4, LATENT])).sigmoid().reshape(4, 8, 8)
for row in torch.cat(list(images), 1).tolist():
    print("".join(" .:-=+*#%@"[min(int(10 * pixel), 9)] for pixel in row))
write_losses("vae", losses)
check_onnx("vae", net, [pixels[:4], normal("samples", [4, LATENT])])
