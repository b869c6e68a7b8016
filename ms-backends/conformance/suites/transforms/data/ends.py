"""Writes ends.txt: values and derivatives of functions at the ends of their domains, of PyTorch in f64.

    python ms-backends/conformance/suites/transforms/data/ends.py        # PyTorch 2.15.0

A line is `name dtype : operands : values : first derivatives : second ones`. Operands are numbers of the dtype, where
`any` are numbers of all dtypes. First derivatives are those of the sum of the values times 1, 2, 3 and so on, and second
ones those of the same sum of first derivatives, or nothing if PyTorch has none, or if all values are nan.
"""

import math
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F

INF, NAN = math.inf, math.nan
# The largest number, the smallest positive one, and the largest one below one.
LIMITS = {
    "f64": (1.7976931348623157e308, 5e-324, 1 - 2.0**-53),
    "f32": ((2 - 2.0**-23) * 2.0**127, 2.0**-149, 1 - 2.0**-24),
    "f16": (65504.0, 2.0**-24, 1 - 2.0**-11),
}
ALL = {}


def numbers(limits, more=()):
    """Numbers of all kinds, or those that only one dtype has."""
    if limits:
        most, least, below = limits
        return [-most, -least, least, below, most]
    return [-INF, -1.0, -0.0, 0.0, 1.0, INF, NAN, *more]


def number(*more):
    return lambda limits: [(it,) for it in numbers(limits, () if limits else more)]


def rows(*given):
    """Rows in which `M` is the largest number of the dtype, `E` the smallest and `B` the largest one below one."""

    def of(limits):
        has = lambda row: any(isinstance(it, str) for it in row)
        if not limits:
            return [row for row in given if not has(row)]
        names = dict(zip("MEB", limits))
        value = lambda it: it if not isinstance(it, str) else -names[it[1]] if it[0] == "-" else names[it]
        return [tuple(map(value, row)) for row in given if has(row)]

    return of


def pairs(first, second):
    return rows(*product(first, second))


def vectors(*more):
    return rows(
        (0.0, 0.0, 0.0), (0.0, -2.0, 0.0), (2.0, 2.0, -2.0), (1.0, 1.0, 1.0), (-1.0, 0.0, 2.0), (INF, 1.0, 2.0),
        (INF, INF, 1.0), (-INF, 1.0, 2.0), (-INF, -INF, 1.0), (-INF, -INF, -INF), (INF, -INF, 1.0), (NAN, 1.0, 2.0),
        ("M", 1.0, 2.0), ("M", "M", "M"), ("M", "-M", 0.0), ("E", 0.0, 0.0), ("E", "E", "-E"), *more,
    )


def case(name, points, f, second=True):
    def line(dtype, row):
        x = torch.tensor(row, dtype=torch.float64, requires_grad=True)
        y = f(x).reshape(-1)
        weigh = lambda it: (it * torch.arange(1, it.numel() + 1, dtype=torch.float64)).sum()
        weigh_used = lambda it: sum(it[at] * (at + 1) for at in range(it.numel()))
        first = gradient(weigh(y), x, second)
        parts = [x, y, first]
        if second:
            try:
                parts.append(gradient(weigh_used(first), x, False))
            except RuntimeError as error:  # PyTorch has no derivative of this derivative.
                assert "is not implemented" in str(error), error
        if y.isnan().all():
            parts = parts[:2]
        text = [" ".join(map(shown, it.detach().tolist())) for it in parts]
        return f"{name} {dtype} : " + " : ".join(text)

    assert name not in ALL, name
    ALL[name] = [line("any", row) for row in points(None)]
    for dtype, limits in LIMITS.items():
        ALL[name] += [line(dtype, row) for row in points(limits)]


def gradient(total, x, create):
    if not total.requires_grad:
        return torch.zeros_like(x)
    (it,) = torch.autograd.grad(total, x, create_graph=create, allow_unused=True)
    return torch.zeros_like(x) if it is None or it._is_zerotensor() else it


def shown(it):
    return repr(int(it)) if math.isfinite(it) and it == int(it) and abs(it) < 1e6 and not is_minus_zero(it) else repr(it)


def is_minus_zero(it):
    return it == 0 and math.copysign(1, it) < 0


# Functions of one number.
for name, f, more in [
    ("relu", F.relu, ()),
    ("relu6", F.relu6, (6.0,)),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.25), ()),
    ("prelu", lambda x: F.prelu(x, torch.tensor([0.25], dtype=torch.float64)), ()),
    ("elu", F.elu, ()),
    ("elu of 0.5", lambda x: F.elu(x, 0.5), ()),
    ("celu of 2", lambda x: F.celu(x, 2.0), ()),
    ("selu", F.selu, ()),
    ("sigmoid", torch.sigmoid, ()),
    ("tanh", torch.tanh, ()),
    ("softplus", F.softplus, (19.0, 20.0, 21.0)),
    ("softplus of 2", lambda x: F.softplus(x, 2.0), (10.0,)),
    ("logsigmoid", F.logsigmoid, ()),
    ("silu", F.silu, ()),
    ("mish", F.mish, (20.0, 21.0)),
    ("gelu", F.gelu, ()),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), ()),
    ("hsigmoid", F.hardsigmoid, (-3.0, 3.0)),
    ("hswish", F.hardswish, (-3.0, 3.0)),
    ("softsign", F.softsign, ()),
    ("abs", torch.abs, ()),
    ("sign", torch.sign, ()),
    ("square", torch.square, ()),
    ("sqrt", torch.sqrt, ()),
    ("rsqrt", torch.rsqrt, ()),
    ("reciprocal", torch.reciprocal, ()),
    ("exp", torch.exp, ()),
    ("exp2", torch.exp2, ()),
    ("expm1", torch.expm1, ()),
    ("log", torch.log, ()),
    ("log2", torch.log2, ()),
    ("log10", torch.log10, ()),
    ("log1p", torch.log1p, ()),
    ("sin", torch.sin, ()),
    ("cos", torch.cos, ()),
    ("tan", torch.tan, ()),
    ("asin", torch.asin, ()),
    ("acos", torch.acos, ()),
    ("atan", torch.atan, ()),
    ("sinh", torch.sinh, ()),
    ("cosh", torch.cosh, ()),
    ("asinh", torch.asinh, ()),
    ("acosh", torch.acosh, (2.0,)),
    ("atanh", torch.atanh, ()),
    ("erf", torch.erf, ()),
    ("erfc", torch.erfc, ()),
    ("floor", torch.floor, ()),
    ("round", torch.round, (0.5, 1.5, 2.5)),
    ("clamp", lambda x: torch.clamp(x, 0.0, 1.0), ()),
    ("clamp_min", lambda x: torch.clamp_min(x, 0.0), ()),
    ("clamp_max", lambda x: torch.clamp_max(x, 1.0), ()),
    ("pow 0", lambda x: x.pow(0.0), ()),
    ("pow 0.5", lambda x: x.pow(0.5), ()),
    ("pow 1", lambda x: x.pow(1.0), ()),
    ("pow 1.5", lambda x: x.pow(1.5), ()),
    ("pow 2", lambda x: x.pow(2.0), ()),
    ("pow 3", lambda x: x.pow(3.0), ()),
    ("pow -1", lambda x: x.pow(-1.0), ()),
    ("pow of 0", lambda x: torch.pow(torch.tensor(0.0, dtype=torch.float64), x), (2.0,)),
    ("pow of 1", lambda x: torch.pow(torch.tensor(1.0, dtype=torch.float64), x), (2.0,)),
    ("pow of -1", lambda x: torch.pow(torch.tensor(-1.0, dtype=torch.float64), x), (2.0,)),
]:
    case(name, number(*more), f)

# Functions of two numbers.
GRID = pairs(*[(-INF, -1.0, 0.0, 1.0, INF, NAN, "M", "E")] * 2)
for name, f in [
    ("add", torch.add),
    ("mul", torch.mul),
    ("div", torch.div),
    ("maximum", torch.maximum),
    ("minimum", torch.minimum),
    ("hypot", torch.hypot),
    ("atan2", torch.atan2),
    ("logaddexp", torch.logaddexp),
    ("remainder", torch.remainder),
    ("fmod", torch.fmod),
    ("pow", torch.pow),
]:
    case(name, GRID, lambda x, f=f: f(x[0], x[1]))

# Losses of an element and its target, which has a gradient, too.
EVERY = (-INF, "-M", -1.0, "-E", 0.0, "E", 1.0, "M", INF, NAN)
SIGNS = (-1.0, 1.0)
for name, x, targets, f in [
    ("binary_cross_entropy", (0.0, "E", 0.5, "B", 1.0), (0.0, 0.5, 1.0), F.binary_cross_entropy),
    ("bce_with_logits", EVERY, (0.0, 0.5, 1.0), F.binary_cross_entropy_with_logits),
    (
        "bce_with_logits, weighted",
        EVERY,
        (0.0, 0.5, 1.0),
        lambda x, t, reduction: F.binary_cross_entropy_with_logits(
            x, t, pos_weight=torch.tensor(3.0, dtype=torch.float64), reduction=reduction
        ),
    ),
    ("kl_div", (-INF, "-M", -1.0, "-E", 0.0), (0.0, "E", 0.5, 1.0), F.kl_div),
    (
        "kl_div of logarithms",
        (-INF, "-M", -1.0, 0.0),
        (-INF, "-M", -1.0, 0.0),
        lambda x, t, reduction: F.kl_div(x, t, log_target=True, reduction=reduction),
    ),
    ("mse_loss", EVERY, (0.0, 1.0, INF, "M"), F.mse_loss),
    ("l1_loss", EVERY, (0.0, 1.0, INF, "M"), F.l1_loss),
    ("smooth_l1_loss", (*EVERY, 0.5, 1.5), (0.0, 1.0, INF), lambda x, t, reduction: F.smooth_l1_loss(x, t, beta=0.5, reduction=reduction)),
    ("smooth_l1_loss of 0", EVERY, (0.0, 1.0, INF), lambda x, t, reduction: F.smooth_l1_loss(x, t, beta=0.0, reduction=reduction)),
    ("huber_loss", (*EVERY, 2.0, 3.0, -2.0), (0.0, 1.0, INF), lambda x, t, reduction: F.huber_loss(x, t, delta=2.0, reduction=reduction)),
    ("SoftMarginLoss", EVERY, SIGNS, F.soft_margin_loss),
    ("HingeEmbeddingLoss", (*EVERY, "B"), SIGNS, F.hinge_embedding_loss),
    ("PoissonNLLLoss", EVERY, (0.0, 1.0, 3.0), F.poisson_nll_loss),
    ("PoissonNLLLoss, full", EVERY, (0.0, 1.0, 3.0), lambda x, t, reduction: F.poisson_nll_loss(x, t, full=True, reduction=reduction)),
    (
        "PoissonNLLLoss of means",
        (0.0, "E", 1.0, "M", INF, NAN),
        (0.0, 1.0, 3.0),
        lambda x, t, reduction: F.poisson_nll_loss(x, t, log_input=False, reduction=reduction),
    ),
]:
    has_no_gradient = name in ("SoftMarginLoss", "HingeEmbeddingLoss")

    def loss(it, f=f, constant=has_no_gradient):
        target = it[1].detach() if constant else it[1]
        return f(it[0], target, reduction="none")

    case(name, pairs(x, targets), loss)

case(
    "MarginRankingLoss",
    rows(*[(*it, t) for it in product((-INF, -1.0, 0.0, 1.0, INF, "M"), repeat=2) for t in SIGNS]),
    lambda it: F.margin_ranking_loss(it[0], it[1], it[2].detach(), margin=1.0, reduction="none"),
)
GAUSSIAN = rows(*[(*it, v) for it in [(0.0, 0.0), (1.0, 0.0), (INF, 0.0), (INF, INF), ("M", 0.0), (NAN, 0.0)] for v in (0.0, "E", 1e-6, 1.0, "M", INF, NAN)])
for name, full in [("GaussianNLLLoss", False), ("GaussianNLLLoss, full", True)]:
    case(name, GAUSSIAN, lambda it, full=full: F.gaussian_nll_loss(it[0], it[1], it[2], full=full, reduction="none"))

# Functions of rows.
for p in [-INF, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF]:
    name = str(p).removesuffix(".0")
    case(f"norm {name}", vectors(), lambda x, p=p: torch.linalg.vector_norm(x, p))
POSITIVE = [torch.tensor(it, dtype=torch.float64) for it in ([3.0, 0.0, 0.0], [1.0, 1.0, 1.0])]
for name, f in [
    ("sum", lambda x: x.sum()),
    ("mean", lambda x: x.mean()),
    ("prod", lambda x: x.prod()),
    ("max", lambda x: x.amax()),
    ("min", lambda x: x.amin()),
    ("var", lambda x: x.var()),
    ("std", lambda x: x.std()),
    ("std of the whole", lambda x: x.std(correction=0)),
    ("cumsum", lambda x: x.cumsum(0)),
    ("cumprod", lambda x: x.cumprod(0)),
    ("sort", lambda x: x.sort(stable=True).values),
    ("logsumexp", lambda x: x.logsumexp(0)),
    ("softmax", lambda x: x.softmax(0)),
    ("log_softmax", lambda x: x.log_softmax(0)),
    ("cross_entropy", lambda x: F.cross_entropy(x, torch.tensor(0))),
    ("cross_entropy, smoothed", lambda x: F.cross_entropy(x, torch.tensor(0), label_smoothing=0.25)),
    ("cross_entropy of a distribution", lambda x: F.cross_entropy(x[None], torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64))),
    ("nll_loss", lambda x: F.nll_loss(x, torch.tensor(0))),
    ("layer_norm", lambda x: F.layer_norm(x, (3,))),
    ("rms_norm", lambda x: F.rms_norm(x, (3,), eps=1e-5)),
    ("cosine_similarity", lambda x: F.cosine_similarity(x, POSITIVE[0], 0)),
    ("max_pool", lambda x: F.max_pool1d(x[None], 2, 1)),
    ("max_pool, padded", lambda x: F.max_pool1d(x[None], 3, 1, 1)),
    ("max_pool, all", lambda x: F.max_pool1d(x[None], 3)),
    ("avg_pool", lambda x: F.avg_pool1d(x[None], 2, 1)),
    ("adaptive_max_pool", lambda x: F.adaptive_max_pool1d(x[None], 2)),
    ("MultiMarginLoss", lambda x: F.multi_margin_loss(x[None], torch.tensor([0]), reduction="none")),
    ("MultiMarginLoss of 2", lambda x: F.multi_margin_loss(x[None], torch.tensor([0]), p=2, reduction="none")),
    ("MultiLabelMarginLoss", lambda x: F.multilabel_margin_loss(x[None], torch.tensor([[0, 2, -1]]), reduction="none")),
    (
        "MultiLabelSoftMarginLoss",
        lambda x: F.multilabel_soft_margin_loss(x[None], torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64), reduction="none"),
    ),
    ("RMSELoss", lambda x: F.mse_loss(x, POSITIVE[1]).sqrt()),
    ("DiceLoss", lambda x: 1 - 2 * (x * POSITIVE[0]).sum() / (x.square().sum() + POSITIVE[0].square().sum() + 1e-5)),
]:
    case(name, vectors((5.0, 1.0, 1.0), (0.0, 1.0, 1.0)), f)

# Distances of an anchor, a near and a far point of two numbers each.
PLACES = rows(
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 3.0, 4.0, 3.0, 4.0), (0.0, 0.0, 3.0, 4.0, 0.0, 4.0), (0.0, 0.0, 0.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0, 0.0, 9.0, 9.0), (INF, 0.0, 0.0, 0.0, 1.0, 0.0), (0.0, 0.0, INF, 0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, INF, 0.0), (NAN, 0.0, 1.0, 0.0, 1.0, 0.0), ("M", 0.0, 0.0, 0.0, 0.0, 1.0),
    ("M", "M", "M", "M", 0.0, 0.0), ("E", 0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0, 1.0, -1.0),
)
for p, eps, swap in [(p, 1e-6, swap) for p in (0.5, 1.0, 1.5, 2.0, 3.0, INF) for swap in (False, True)] + [(p, 0.0, False) for p in (0.5, 1.0, 1.5, 2.0, 3.0, INF)]:
    name = f"TripletMarginLoss of {str(p).removesuffix('.0')}" + (", swapped" if swap else "") + (", exact" if eps == 0 else "")
    f = lambda x, p=p, eps=eps, swap=swap: F.triplet_margin_loss(x[None, :2], x[None, 2:4], x[None, 4:], p=p, eps=eps, swap=swap, reduction="none")
    # With `eps`, second derivatives are differences of large numbers.
    case(name, PLACES, f, eps == 0)

COSINES = rows(
    (0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 1.0, 0.0), (1.0, 0.0, 0.0, 1.0), (1.0, 0.0, -1.0, 0.0), (0.0, 0.0, 1.0, 0.0),
    (INF, 0.0, 1.0, 0.0), (NAN, 0.0, 1.0, 0.0), ("M", 0.0, 1.0, 0.0), ("M", "M", "M", "M"), ("E", 0.0, 1.0, 0.0),
)
case("cosine_similarity of both", COSINES, lambda x: F.cosine_similarity(x[:2], x[2:], 0))
for target, name in [(1, "alike"), (-1, "unlike")]:
    case(
        f"CosineEmbeddingLoss, {name}",
        COSINES,
        lambda x, t=target: F.cosine_embedding_loss(x[None, :2], x[None, 2:], torch.tensor([t]), reduction="none"),
    )

# Three steps of three classes, of which the first is the blank.
def steps(x, labels, zero_infinity=False):
    # PyTorch's gradient is that of logits.
    logs = x.reshape(3, 1, 3).log_softmax(2)
    return F.ctc_loss(logs, torch.tensor([labels]), torch.tensor([3]), torch.tensor([len(labels)]), reduction="none", zero_infinity=zero_infinity)


CHANCES = rows(
    tuple([-1.0] * 9), (0.0, -INF, -INF, -INF, 0.0, -INF, -INF, -INF, 0.0), (-INF, 0.0, -INF, 0.0, -INF, -INF, -INF, -INF, 0.0),
    tuple([-INF] * 9), (-1.0, -1.0, -1.0, -INF, -INF, -INF, -1.0, -1.0, -1.0), (-1.0, -INF, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0),
    tuple(["-M"] * 9), (-1.0, NAN, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0), tuple([0.0] * 9), ("-M", -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0),
)
for name, labels, zero in [("CTCLoss", [1, 2], False), ("CTCLoss of a pair", [1, 1], False), ("CTCLoss without labels", [], False), ("CTCLoss, too long", [1, 1, 2], False), ("CTCLoss, without infinities", [1, 1, 2], True)]:
    case(name, CHANCES, lambda x, labels=labels, zero=zero: steps(x, labels, zero), False)

lines = [line for it in ALL.values() for line in it]
Path(__file__).with_name("ends.txt").write_text("\n".join(lines) + "\n")
print(len(ALL), "functions,", len(lines), "points")
