"""Twin of examples/resnet18.rs: python peers/programs/resnet18.py

The module has the parameters of torchvision's resnet18; what that calls `downsample` is `shortcut` here."""

import pathlib
import tempfile

import torch
from safetensors.torch import load_file
from torch import nn

from common import check_onnx, uniform, write, write_names, write_weights


def conv(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3, 1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride > 1:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y))
        return (y + (x if self.shortcut is None else self.shortcut(x))).relu()


def stage(inputs, outputs, stride):
    return nn.Sequential(Block(inputs, outputs, stride), Block(outputs, outputs, 1))


class ResNet18(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = stage(64, 64, 1)
        self.layer2 = stage(64, 128, 2)
        self.layer3 = stage(128, 256, 2)
        self.layer4 = stage(256, 512, 2)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


net = ResNet18(1000)
write_names("resnet18", net, lambda name: name.replace("shortcut", "downsample"))
path = pathlib.Path(tempfile.mkdtemp()) / "resnet18.safetensors"
write_weights("resnet18", path)
state = {name.replace("downsample", "shortcut"): it for name, it in load_file(path).items()}
net.load_state_dict(state)
path.unlink()
print(f"{len(state)} parameters and buffers were imported")

net.eval()
images = uniform("images", [2, 3, 32, 32])
with torch.no_grad():
    logits = net(images)
write("resnet18", logits.flatten().tolist())
check_onnx("resnet18", net, [images])
