"""Prints the expected numbers of optimisers.rs (the last four) and steps.rs and schedules.rs: PyTorch's in f64, and
for Lion and Lamb, which PyTorch does not have, those of their formulas.

    python ms-backends/conformance/suites/training/pytorch.py        # PyTorch 2.15.0
"""

import torch

torch.set_default_dtype(torch.float64)
START = [0.0, 1.0, -2.0, 0.5]


def gradients(steps):
    """Constant, random, random and small, and mostly zero."""
    state, rows = 1, []

    def uniform():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        return (state >> 40) / 8388608.0 - 1.0

    for t in range(steps):
        rows.append([1.0, uniform(), uniform() / 4096.0, uniform() if t % 3 == 0 else 0.0])
    return torch.tensor(rows)


GRADIENTS = gradients(1000)


def show(name, rows):
    print(f"{name}:")
    for row in rows:
        print("    [" + ", ".join(map(repr, row)) + "],")


def follow(name, make, shape=(4,)):
    """A parameter after 1, 10 and 1000 steps."""
    p = torch.tensor(START).reshape(shape).clone().requires_grad_(True)
    optimizer, rows = make([p]), []
    for t, gradient in enumerate(GRADIENTS, 1):
        p.grad = gradient.reshape(shape).clone()
        optimizer.step()
        if t in (1, 10, 1000):
            rows.append(p.detach().reshape(-1).tolist())
    show(name, rows)


def formula(name, step):
    p, m, v, rows = torch.tensor(START), torch.zeros(4), torch.zeros(4), []
    for t, gradient in enumerate(GRADIENTS, 1):
        p, m, v = step(p, m, v, gradient, t)
        if t in (1, 10, 1000):
            rows.append(p.tolist())
    show(name, rows)


def lion(p, m, v, g, t, lr=0.001, b1=0.9, b2=0.99, decay=0.1):
    u = torch.sign(b1 * m + (1 - b1) * g)
    return p - lr * (u + decay * p), b2 * m + (1 - b2) * g, v


def lamb(p, m, v, g, t, lr=0.003, b1=0.9, b2=0.999, eps=1e-6, decay=0.1):
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    r = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + eps) + decay * p
    trust = p.norm() / r.norm() if p.norm() > 0 and r.norm() > 0 else 1.0
    return p - lr * trust * r, m, v


def pair(name, make, scale=1.0, clip=lambda parameters: None):
    """Two parameters of two elements each, after one step and after ten."""
    parameters = [torch.tensor(it, requires_grad=True) for it in (START[:2], START[2:])]
    optimizer, rows = make(parameters), []
    for t, gradient in enumerate(scale * GRADIENTS[:10], 1):
        parameters[0].grad, parameters[1].grad = gradient[:2].clone(), gradient[2:].clone()
        clip(parameters)
        optimizer.step()
        if t in (1, 10):
            rows.append([x for it in parameters for x in it.tolist()])
    show(name, rows)


def schedule(name, make, rate=0.1):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
    it, rates = make(optimizer), []
    for _ in range(12):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        it.step()
    show(name, [rates])


def plateau(metrics):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    it = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=1, cooldown=2, min_lr=0.03, threshold=0.01
    )
    rates = []
    for metric in metrics:
        it.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    show("plateau", [rates])


def lbfgs(history):
    """Iterations on a function with a narrow valley."""
    p = torch.tensor([-1.2, 1.0], requires_grad=True)
    q = torch.tensor([[0.5]], requires_grad=True)
    optimizer = torch.optim.LBFGS([p, q], lr=0.5, max_iter=1, history_size=history)

    def loss():
        optimizer.zero_grad()
        value = (1 - p[0]) ** 2 + 10 * (p[1] - p[0] ** 2) ** 2 + (q[0, 0] - p[0]) ** 2
        value.backward()
        return value

    rows = []
    for t in range(1, 41):
        optimizer.step(loss)
        if t in (1, 2, 5, 10, 40):
            rows.append(p.tolist() + q.reshape(-1).tolist())
    show(f"LBFGS with a history of {history}", rows)


formula("Lion", lion)
formula("Lamb", lamb)
follow("Adafactor", lambda p: torch.optim.Adafactor(p, lr=0.01, weight_decay=0.1))
follow(
    "Adafactor of a matrix",
    lambda p: torch.optim.Adafactor(p, lr=0.01, d=1.05, beta2_decay=-0.6, eps=(None, 0.2)),
    shape=(2, 2),
)

momentum = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)
pair("clipped by value", momentum, 3.0, lambda p: torch.nn.utils.clip_grad_value_(p, 0.75))
pair("clipped by the global norm", momentum, 3.0, lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5))
pair(
    "groups",
    lambda p: torch.optim.AdamW(
        [
            {"params": p[:1], "weight_decay": 0.1},
            {"params": p[1:], "lr": 0.02, "weight_decay": 0.0, "betas": (0.8, 0.9)},
        ],
        lr=0.01,
    ),
)

L = torch.optim.lr_scheduler
schedule("StepLR(4, 0.5)", lambda o: L.StepLR(o, 4, 0.5))
schedule("MultiStepLR([2, 3, 8], 0.1)", lambda o: L.MultiStepLR(o, [2, 3, 8], 0.1))
schedule("ExponentialLR(0.8)", lambda o: L.ExponentialLR(o, 0.8))
schedule("CosineAnnealingLR(11, eta_min=0.02)", lambda o: L.CosineAnnealingLR(o, 11, eta_min=0.02))
schedule("PolynomialLR(8, power=1.5)", lambda o: L.PolynomialLR(o, 8, power=1.5))
schedule("OneCycleLR(0.1, total_steps=12)", lambda o: L.OneCycleLR(o, 0.1, total_steps=12))
schedule(
    "OneCycleLR(0.1, total_steps=12, pct_start=0.5, div_factor=4, final_div_factor=10)",
    lambda o: L.OneCycleLR(o, 0.1, total_steps=12, pct_start=0.5, div_factor=4, final_div_factor=10),
)
schedule(
    "SequentialLR([LinearLR(0.25, total_iters=4), CosineAnnealingLR(7)], [4])",
    lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.25, total_iters=4), L.CosineAnnealingLR(o, 7)], [4]),
)
plateau([5.0, 4.0, 3.99, 3.98, 3.97, 3.9] + [4.0] * 9 + [3.0] * 5)
lbfgs(3)
lbfgs(10)
