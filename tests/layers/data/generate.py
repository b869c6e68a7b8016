"""Writes layers.safetensors: layers of PyTorch with their weights, inputs, results and gradients,
computed in f64 from f32 numbers and rounded once.

    python tests/layers/data/generate.py        # PyTorch 2.15.0

For each case, under its name: `state.*` is the state dict, `in.0` and so on the operands that have
gradients, `by.0` those that have none, `out.0` the results, `ct.0` the factors by which the results
are summed, `grad.in.0` and `grad.state.*` the gradients of that sum, and `after.*` the buffers after the
call.
"""

import json
import struct
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

DTYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
ALL = {}


def flat(results):
    if isinstance(results, torch.Tensor):
        return [results]
    return [] if results is None else [leaf for it in results for leaf in flat(it)]


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float32)


def case(name, module, inputs, by=(), call=None):
    state = {}
    for key, value in module.state_dict().items():
        if value.dtype == torch.int64:
            continue
        state[key] = (value + 0.3 * torch.randn_like(value)).float()
        if key.endswith("running_var"):
            state[key] = state[key].abs() + 0.5
    module.double()
    module.load_state_dict({key: value.double() for key, value in state.items()}, strict=False)
    operands = [it.double().requires_grad_(True) for it in inputs]
    others = [it.double() if it.is_floating_point() else it for it in by]
    results = flat((call or (lambda m, x, by: m(*x, *by)))(module, operands, others))
    factors = [torch.randn_like(it).float() for it in results]
    total = sum((it * factor.double()).sum() for it, factor in zip(results, factors))
    parameters = dict(module.named_parameters())
    wanted = operands + list(parameters.values())
    gradients = torch.autograd.grad(total, wanted, allow_unused=True) if wanted else []
    gradients = [torch.zeros_like(it) if g is None else g for it, g in zip(wanted, gradients)]
    put = lambda key, value: ALL.__setitem__(f"{name}.{key}", value.detach())
    for key, value in state.items():
        put(f"state.{key}", value)
    for key, values in [("in", inputs), ("by", by), ("out", results), ("ct", factors)]:
        for at, value in enumerate(values):
            put(f"{key}.{at}", value)
    for at, gradient in enumerate(gradients[: len(operands)]):
        put(f"grad.in.{at}", gradient)
    for key, gradient in zip(parameters, gradients[len(operands) :]):
        put(f"grad.state.{key}", gradient)
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        for key, value in module.named_buffers():
            if value.is_floating_point():
                put(f"after.{key}", value)


def write(path, tensors):
    """The safetensors format: the length of the header, the header, the tensors."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        tensor = tensor.float() if tensor.is_floating_point() else tensor
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def norms():
    case("batch_norm", nn.BatchNorm2d(3), [randn(4, 3, 2, 2)])
    case("batch_norm_vectors", nn.BatchNorm1d(3, momentum=0.3, eps=1e-3), [randn(5, 3)])
    case("batch_norm_eval", nn.BatchNorm1d(3).eval(), [randn(2, 3, 4)])
    case("batch_norm_plain", nn.BatchNorm3d(2, affine=False), [randn(2, 2, 2, 2, 2)])
    case("layer_norm", nn.LayerNorm(5), [randn(3, 4, 5)])
    case("layer_norm_axes", nn.LayerNorm([4, 5], eps=1e-3), [randn(3, 4, 5)])
    case("layer_norm_without_bias", nn.LayerNorm(5, bias=False), [randn(3, 5)])
    case("rms_norm", nn.RMSNorm(5, eps=1e-6), [randn(3, 4, 5)])
    case("rms_norm_axes", nn.RMSNorm([4, 5], eps=1e-3), [randn(3, 4, 5)])
    case("group_norm", nn.GroupNorm(2, 6), [randn(2, 6, 3, 2)])
    case("group_norm_plain", nn.GroupNorm(3, 6, affine=False), [randn(2, 6, 4)])
    case("instance_norm", nn.InstanceNorm2d(3, affine=True), [randn(2, 3, 3, 2)])
    case("instance_norm_plain", nn.InstanceNorm1d(3), [randn(2, 3, 5)])


def plain():
    case("prelu", nn.PReLU(3), [randn(2, 3, 4)])
    case("prelu_single", nn.PReLU(), [randn(2, 3)])
    case("elu", nn.ELU(0.7), [randn(6)])
    case("celu", nn.CELU(0.7), [randn(6)])
    case("leaky_relu", nn.LeakyReLU(0.3), [randn(6)])
    case("softplus", nn.Softplus(2.0), [randn(6)])
    case("selu", nn.SELU(), [randn(6)])
    case("mish", nn.Mish(), [randn(6)])
    case("hsigmoid", nn.Hardsigmoid(), [4 * randn(6)])
    case("hswish", nn.Hardswish(), [4 * randn(6)])
    case("embedding", nn.Embedding(5, 3, padding_idx=1), [], by=[torch.tensor([[0, 1, 4], [4, 4, 2]])])
    case("dense", nn.Linear(4, 3), [randn(2, 5, 4)])
    case("bilinear", nn.Bilinear(3, 4, 2), [randn(5, 3), randn(5, 4)])


def pools():
    case("max_pool1d", nn.MaxPool1d(3, 2, padding=1), [randn(2, 3, 8)])
    case("max_pool2d", nn.MaxPool2d((3, 2), (2, 1), padding=(1, 0), dilation=(1, 2)), [randn(1, 2, 7, 6)])
    case("max_pool2d_ceil", nn.MaxPool2d(2, 2, ceil_mode=True), [randn(1, 2, 5, 7)])
    case("max_pool3d", nn.MaxPool3d(2, 1), [randn(1, 2, 3, 4, 3)])
    case("avg_pool1d", nn.AvgPool1d(3, 2, padding=1), [randn(2, 3, 8)])
    case("avg_pool2d", nn.AvgPool2d((3, 2), (2, 1), padding=(1, 1), count_include_pad=False), [randn(1, 2, 7, 5)])
    case("avg_pool2d_ceil", nn.AvgPool2d(2, 2, ceil_mode=True), [randn(1, 2, 5, 7)])
    case("avg_pool3d", nn.AvgPool3d(2, 1), [randn(1, 2, 3, 4, 3)])
    case("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), [randn(2, 2, 7)])
    case("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 3)), [randn(1, 2, 5, 7)])
    case("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d((1, 2, 3)), [randn(1, 2, 2, 3, 4)])
    case("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3), [randn(2, 2, 7)])
    case("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((2, 3)), [randn(1, 2, 5, 7)])
    case("adaptive_max_pool2d_even", nn.AdaptiveMaxPool2d((2, 2)), [randn(1, 2, 4, 6)])
    case("adaptive_max_pool3d", nn.AdaptiveMaxPool3d((1, 2, 3)), [randn(1, 2, 2, 3, 4)])


def convolutions():
    case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), [randn(2, 4, 9)])
    case("conv1d_circular", nn.Conv1d(2, 3, 3, padding=2, padding_mode="circular"), [randn(2, 2, 5)])
    case("conv2d", nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0)), [randn(2, 2, 6, 5)])
    case("conv2d_same", nn.Conv2d(2, 3, (4, 3), padding="same", dilation=(1, 2), bias=False), [randn(1, 2, 6, 6)])
    case("conv2d_depthwise", nn.Conv2d(3, 6, 3, padding=1, groups=3), [randn(1, 3, 4, 4)])
    case("conv2d_reflect", nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode="reflect"), [randn(1, 2, 4, 5)])
    case("conv2d_replicate", nn.Conv2d(2, 2, 3, stride=2, padding=1, padding_mode="replicate"), [randn(1, 2, 4, 5)])
    case("conv3d", nn.Conv3d(2, 3, (1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1)), [randn(1, 2, 2, 4, 4)])
    case("conv3d_groups", nn.Conv3d(2, 4, 2, dilation=(1, 2, 1), groups=2, bias=False), [randn(1, 2, 3, 4, 3)])
    # The asymmetric padding of `same` with a stride.
    strided = nn.Conv2d(2, 3, 3, stride=2)
    case("conv2d_same_stride", strided, [randn(1, 2, 6, 5)], call=lambda m, x, _: m(F.pad(x[0], (1, 1, 0, 1))))
    case(
        "conv1d_transpose",
        nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
        [randn(2, 4, 5)],
    )
    case("conv2d_transpose", nn.ConvTranspose2d(2, 3, (3, 2), stride=(2, 3), padding=(1, 0)), [randn(2, 2, 3, 4)])
    case("conv3d_transpose", nn.ConvTranspose3d(2, 2, 2, stride=(1, 2, 1), bias=False), [randn(1, 2, 2, 3, 2)])
    same = nn.ConvTranspose2d(2, 3, 4, stride=(1, 2))
    case("conv2d_transpose_same", same, [randn(1, 2, 4, 3)], call=lambda m, x, _: m(x[0])[:, :, 1:5, 1:7])


def losses():
    target = torch.tensor([0, 2, 1, 2])
    probabilities = torch.rand(4, 3)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0])
    bits = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    weight = torch.tensor([0.5, 2.0, 1.5])
    x = lambda: randn(4, 3)
    case("mse_loss", nn.MSELoss(), [x(), x()])
    case("l1_loss", nn.L1Loss(reduction="sum"), [x(), x()])
    case("smooth_l1_loss", nn.SmoothL1Loss(beta=0.5), [x(), x()])
    case("huber_loss", nn.HuberLoss(delta=0.7, reduction="none"), [x(), x()])
    case("bce_loss", nn.BCELoss(weight), [probabilities], by=[bits])
    case("bce_with_logits_loss", nn.BCEWithLogitsLoss(weight, pos_weight=weight), [x()], by=[bits])
    case("kl_div_loss", nn.KLDivLoss(reduction="batchmean"), [F.log_softmax(x(), 1)], by=[F.softmax(x(), 1)])
    case("poisson_nll_loss", nn.PoissonNLLLoss(full=True), [x()], by=[torch.tensor([[0.0, 1, 2], [3, 4, 0], [1, 1, 7], [2, 0, 1]])])
    case("poisson_nll_loss_mean", nn.PoissonNLLLoss(log_input=False), [probabilities], by=[bits])
    case("gaussian_nll_loss", nn.GaussianNLLLoss(full=True), [x(), x(), torch.rand(4, 1) + 0.1])
    case("soft_margin_loss", nn.SoftMarginLoss(), [randn(4)], by=[signs])
    case("hinge_embedding_loss", nn.HingeEmbeddingLoss(margin=0.5), [randn(4)], by=[signs])
    case("cosine_embedding_loss", nn.CosineEmbeddingLoss(margin=0.1), [x(), x()], by=[signs])
    case("margin_ranking_loss", nn.MarginRankingLoss(margin=0.3), [randn(4), randn(4)], by=[signs])
    case("triplet_margin_loss", nn.TripletMarginLoss(margin=0.8, swap=True), [x(), x(), x()])
    case("triplet_margin_loss_p1", nn.TripletMarginLoss(p=1.0, reduction="sum"), [x(), x(), x()])
    case("cross_entropy_loss", nn.CrossEntropyLoss(weight, ignore_index=0, label_smoothing=0.1), [x()], by=[target])
    case("nll_loss", nn.NLLLoss(weight), [F.log_softmax(x(), 1)], by=[target])
    case("multi_label_soft_margin_loss", nn.MultiLabelSoftMarginLoss(weight), [x()], by=[bits])
    case("multi_margin_loss", nn.MultiMarginLoss(p=2, margin=0.7, weight=weight), [x()], by=[target])
    lists = torch.tensor([[0, -1, 1], [2, 1, -1], [-1, 0, 0], [1, -1, -1]])
    case("multi_label_margin_loss", nn.MultiLabelMarginLoss(), [x()], by=[lists])


def recurrent():
    lengths = torch.tensor([5, 2, 3])
    x = lambda: randn(5, 3, 2)
    case("rnn_cell", nn.RNNCell(2, 4, nonlinearity="relu"), [randn(3, 2), randn(3, 4)])
    case("lstm_cell", nn.LSTMCell(2, 4), [randn(3, 2), randn(3, 4), randn(3, 4)], call=lambda m, x, _: m(x[0], (x[1], x[2])))
    case("gru_cell", nn.GRUCell(2, 4, bias=False), [randn(3, 2), randn(3, 4)])
    case("rnn", nn.RNN(2, 4, 2, bidirectional=True), [x()])
    case("rnn_relu", nn.RNN(2, 4, nonlinearity="relu", bias=False), [x(), randn(1, 3, 4)])
    lstm = lambda m, x, _: m(x[0], (x[1], x[2]))
    case("lstm", nn.LSTM(2, 4, 2, bidirectional=True), [x(), randn(4, 3, 4), randn(4, 3, 4)], call=lstm)
    case("lstm_batch_first", nn.LSTM(2, 4, batch_first=True), [randn(3, 5, 2)])
    case("gru", nn.GRU(2, 4, 2, bidirectional=True), [x(), randn(4, 3, 4)])

    def packed(m, x, by):
        # Lengths in any order, as the layers here take them.
        sequence = nn.utils.rnn.pack_padded_sequence(x[0], by[0], enforce_sorted=False)
        y, states = m(sequence, *([(x[1], x[2])] if len(x) == 3 else x[1:]))
        return nn.utils.rnn.pad_packed_sequence(y, total_length=5)[0], states

    case("rnn_lengths", nn.RNN(2, 4, bidirectional=True), [x()], by=[lengths], call=packed)
    case("lstm_lengths", nn.LSTM(2, 4, 2, bidirectional=True), [x(), randn(4, 3, 4), randn(4, 3, 4)], by=[lengths], call=packed)
    case("gru_lengths", nn.GRU(2, 4, 2, bidirectional=True), [x(), randn(4, 3, 4)], by=[lengths], call=packed)


class Rotary(nn.Module):
    """Su et al. 2021, in complex numbers."""

    def __init__(self, dim, interleaved):
        super().__init__()
        self.dim, self.interleaved = dim, interleaved

    def forward(self, x, positions):
        half = self.dim // 2
        rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        turns = torch.polar(torch.ones(1, dtype=torch.float64), positions[:, None] * rates)
        own, rest = x[..., : self.dim], x[..., self.dim :]
        a, b = (own[..., 0::2], own[..., 1::2]) if self.interleaved else (own[..., :half], own[..., half:])
        y = torch.complex(a, b) * turns
        axis = -1 if self.interleaved else -2
        return torch.cat([torch.stack([y.real, y.imag], axis).flatten(-2), rest], -1)


def attention():
    options = dict(need_weights=False)
    one = lambda m, x, by, **more: m(x[0], x[0], x[0], **options, **more)[0]
    causal = nn.Transformer.generate_square_subsequent_mask
    padding = torch.tensor([[False, False, True], [False, False, False]])
    pairs = torch.tensor([[False, True, False], [False, False, True], [True, False, False]])
    case("attention", nn.MultiheadAttention(4, 2), [randn(3, 2, 4)], call=one)
    three = lambda m, x, by: m(*x, key_padding_mask=by[0], attn_mask=by[1].repeat(4, 1, 1), average_attn_weights=False)
    case("attention_masks", nn.MultiheadAttention(4, 2, batch_first=True), [randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4)], by=[padding, pairs], call=three)
    added = lambda m, x, by: m(*x, attn_mask=by[0], **options)[0]
    sizes = nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False)
    case("attention_sizes", sizes, [randn(2, 2, 4), randn(3, 2, 3), randn(3, 2, 5)], by=[randn(2, 3)], call=added)
    square = lambda m, x, by: one(m, x, by, attn_mask=causal(3, dtype=torch.float64))
    case("attention_causal", nn.MultiheadAttention(4, 2, batch_first=True), [randn(2, 3, 4)], call=square)
    encode = lambda m, x, by: m(x[0], src_key_padding_mask=by[0])
    make = lambda **more: nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, **more)
    case("encoder_layer", make(batch_first=True), [randn(2, 3, 4)], by=[padding], call=encode)
    case("encoder_layer_norm_first", make(norm_first=True, activation="gelu", layer_norm_eps=1e-3), [randn(3, 2, 4)], by=[padding], call=encode)
    encoder = nn.TransformerEncoder(make(batch_first=True), 2, nn.LayerNorm(4), enable_nested_tensor=False)
    case("encoder", encoder, [randn(2, 3, 4)], call=lambda m, x, _: m(x[0], mask=causal(3, dtype=torch.float64)))
    decode = lambda m, x, by: m(*x, tgt_mask=causal(3, dtype=torch.float64), memory_key_padding_mask=by[0])
    make = lambda **more: nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, **more)
    case("decoder_layer", make(), [randn(3, 2, 4), randn(3, 2, 4)], by=[padding], call=decode)
    case("decoder_layer_norm_first", make(norm_first=True, batch_first=True), [randn(2, 3, 4), randn(2, 3, 4)], by=[padding], call=decode)
    decoder = nn.TransformerDecoder(make(batch_first=True), 2, nn.LayerNorm(4))
    case("decoder", decoder, [randn(2, 3, 4), randn(2, 3, 4)], by=[padding], call=decode)
    whole = nn.Transformer(4, 2, 1, 1, 6, dropout=0.0)
    case("transformer", whole, [randn(3, 2, 4), randn(2, 2, 4)], call=lambda m, x, _: m(*x, tgt_mask=causal(2, dtype=torch.float64)))
    case("rotary", Rotary(4, False), [randn(2, 3, 4)], by=[torch.tensor([0, 1, 7])])
    case("rotary_interleaved", Rotary(4, True), [randn(2, 3, 6)], by=[torch.tensor([3, 4, 5])])


def sequences():
    labels, steps, counts = torch.tensor([[1, 1, 3], [2, 3, 0], [3, 0, 0]]), torch.tensor([6, 4, 2]), torch.tensor([3, 2, 0])
    ctc = lambda m, x, by: m(F.log_softmax(x[0], -1), *by)
    case("ctc_loss", nn.CTCLoss(), [randn(6, 3, 4)], by=[labels, steps, counts], call=ctc)
    # The blank is the last class; the first sequence has too few steps for two equal labels and a third.
    labels, steps, counts = torch.tensor([[1, 1, 0], [2, 0, 0]]), torch.tensor([3, 4]), torch.tensor([3, 2])
    none = nn.CTCLoss(blank=3, reduction="none", zero_infinity=True)
    case("ctc_loss_zero_infinity", none, [randn(4, 2, 4)], by=[labels, steps, counts], call=ctc)


FAMILIES = [norms, plain, pools, convolutions, losses, recurrent, attention, sequences]

if __name__ == "__main__":
    torch.manual_seed(1)
    for family in FAMILIES:
        family()
    write(Path(__file__).parent / "layers.safetensors", ALL)
