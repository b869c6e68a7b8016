"""The workloads of benches/steps.rs on PyTorch (`pip install torch`): python peers/steps.py [THREADS]"""

import statistics
import sys
import time

import torch


def median(calls, body, rounds=31):
    times = []
    for round in range(rounds + 3):
        start = time.perf_counter()
        for _ in range(calls):
            body()
        if round >= 3:
            times.append((time.perf_counter() - start) / calls)
    return statistics.median(times) * 1e6


torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
x, y = torch.tensor([1.0]), torch.tensor([2.0])
print(f"add, one element          eager {median(10_000, lambda: x + y):8.2f} us")


def unrolled():
    output = x
    for _ in range(200):
        output = x + x * y + output
    return output


print(f"200 iterations unrolled   eager {median(20, unrolled):8.2f} us")

net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
inputs, targets = torch.rand(64, 64), torch.randint(0, 10, (64,))


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(inputs), targets)
    loss.backward()
    optimizer.step()


print(f"digits MLP training step  eager {median(50, step):8.2f} us")
