"""Twin of examples/lstm_classifier.rs: python peers/programs/lstm_classifier.py"""

import torch
from torch import nn
from torch.nn import functional as F

from common import below, check_onnx, initialize, uniform, write_losses

TIME = 200
TRAIN = 512
TEST = 128
BATCH = 32
STEPS = 200
DRIFT = 0.5


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 32)
        self.fc = nn.Linear(32, 3)

    def forward(self, x):
        _, (h, _) = self.lstm(x)
        return self.fc(h[-1])


def drifts(name, count):
    kind = below(f"{name}.class", [count], 3)
    return uniform(f"{name}.noise", [TIME, count, 3]) + DRIFT * F.one_hot(kind, 3), kind


(x, y), (test_x, test_y) = drifts("train", TRAIN), drifts("test", TEST)
net = Classifier()
initialize(net)
opt = torch.optim.Adam(net.parameters(), lr=5e-4)
losses = []
for step in range(STEPS):
    first = step * BATCH % TRAIN
    loss = F.cross_entropy(net(x[:, first : first + BATCH]), y[first : first + BATCH])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    losses.append(loss.item())
with torch.no_grad():
    accuracy = (net(test_x).argmax(-1) == test_y).float().mean().item()
print(f"accuracy on other sequences: {100 * accuracy:.1f} %")
write_losses("lstm_classifier", losses)
check_onnx("lstm_classifier", net, [test_x])
