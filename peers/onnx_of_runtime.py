"""Writes ONNX models that PyTorch does not write, with inputs and the results of onnxruntime, for the tests of
`ms-onnx`: quantised networks, data in other files, loops, and operators of their own. Bytes are multiplied with
unsigned ones, since onnxruntime saturates sums of two products of unsigned and signed ones on some processors.

    python peers/onnx_of_runtime.py tests/data/onnx

Needs `onnx`, `onnxruntime`, `safetensors` and `torch`.
"""

import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from safetensors.numpy import save_file
from torch import nn

FLOAT, I64, BOOL, U64 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT64
random = np.random.default_rng(0)
torch.manual_seed(0)
logging.disable()


def model(nodes, inputs, outputs, constants={}, version=18):
    """A model of these nodes; `(name, kind, shape)` for each input and output."""
    values = [[helper.make_tensor_value_info(*it) for it in all] for all in (inputs, outputs)]
    tensors = [numpy_helper.from_array(it, name) for name, it in constants.items()]
    graph = helper.make_graph(nodes, "graph", *values, initializer=tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", version)])


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(" "), outputs.split(" "), **attributes)


def loop():
    """x, 2 x, 4 x, ... and the sums of the numbers of iterations up to each."""
    carry = [("x", FLOAT, ["n"]), ("sum", I64, [])]
    body = helper.make_graph(
        [
            node("Identity", "goes", "goes_"),
            node("Add", "x x", "x_"),
            node("Add", "sum at", "sum_"),
            node("Neg", "x", "row"),
            node("Identity", "sum_", "total"),
        ],
        "body",
        [helper.make_tensor_value_info(*it) for it in [("at", I64, []), ("goes", BOOL, []), *carry]],
        [helper.make_tensor_value_info(f"{name}_", *it) for name, *it in [("goes", BOOL, []), *carry]]
        + [helper.make_tensor_value_info(*it) for it in [("row", FLOAT, ["n"]), ("total", I64, [])]],
    )
    nodes = [node("Loop", "count true first zero", "last sum_last rows totals", body=body)]
    outputs = [("last", FLOAT, ["n"]), ("sum_last", I64, []), ("rows", FLOAT, [5, "n"]), ("totals", I64, [5])]
    constants = {"count": np.array(5), "true": np.array(True), "zero": np.array(0)}
    return model(nodes, [("first", FLOAT, ["n"])], outputs, constants), {"first": random.normal(size=3).astype("f4")}


def positions():
    """Elements at positions, and the positions of the largest."""
    x = random.normal(size=(2, 3, 5, 4)).astype("f4")
    nodes = [
        node("MaxPool", "x", "largest at", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0]),
        node("ScatterND", "x rows row", "written"),
        node("ScatterND", "x rows row", "added", reduction="add"),
        node("Reshape", "at all", "list"),
        node("Cast", "list", "bits", to=U64),
        node("BitShift", "bits one", "shifted", direction="LEFT"),
        node("BitShift", "shifted three", "halved", direction="RIGHT"),
    ]
    outputs = [("largest", FLOAT, None), ("at", I64, None), ("written", FLOAT, None), ("added", FLOAT, None)]
    constants = {
        "rows": np.array([[1, 2], [0, -1]]),
        "row": random.normal(size=(2, 5, 4)).astype("f4"),
        "all": np.array([-1]),
        "one": np.array([1], "u8"),
        "three": np.array([3], "u8"),
    }
    inputs = [("x", FLOAT, ["batch", 3, 5, 4])]
    return model(nodes, inputs, [*outputs, ("halved", U64, None)], constants), {"x": x}


def integers():
    """Products and convolutions of integers with zeros of rows and columns, and numbers of 16 bits."""
    u8 = lambda *shape: random.integers(0, 256, shape).astype("u1")
    nodes = [
        node("MatMulInteger", "a b a_zero b_zero", "product"),
        node("ConvInteger", "image taps a_zero", "convolved", pads=[1, 1, 1, 1], strides=[2, 1], group=2),
        node("QLinearMatMul", "a a_scale a_zero b b_scale b_zero y_scale y_zero", "quantised"),
        node("QuantizeLinear", "x rows zeros", "words", axis=0),
        node("DequantizeLinear", "words rows zeros", "back", axis=0),
        node("DynamicQuantizeLinear", "x", "bytes scale zero"),
    ]
    constants = {
        "b": u8(5, 3),
        "a_zero": np.array(117, "u1"),
        "b_zero": np.array([3, 250, 0], "u1"),
        "image": u8(2, 4, 5, 6),
        "taps": u8(6, 2, 3, 3),
        "a_scale": np.array(0.02, "f4"),
        "b_scale": np.array([0.01, 0.03, 0.02], "f4"),
        "y_scale": np.array(0.5, "f4"),
        "y_zero": np.array(100, "u1"),
        "rows": np.array([1e-4, 3e-5], "f4"),
        "zeros": np.array([30000, 100], "u2"),
    }
    results = [("product", TensorProto.INT32), ("convolved", TensorProto.INT32), ("quantised", TensorProto.UINT8)]
    results += [("words", TensorProto.UINT16), ("back", FLOAT), ("bytes", TensorProto.UINT8)]
    results += [("scale", FLOAT), ("zero", TensorProto.UINT8)]
    inputs = [("a", TensorProto.UINT8, ["rows", 5]), ("x", FLOAT, [2, "n"])]
    made = model(nodes, inputs, [(name, kind, None) for name, kind in results], constants, version=21)
    return made, {"a": u8(4, 5), "x": random.normal(size=(2, 7)).astype("f4")}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, 2, 1)
        self.head = nn.Linear(4 * 3 * 3, 5, bias=False)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).flatten(1))


def quantised(folder, how):
    """A network that onnxruntime has quantised."""
    x = torch.randn(3, 2, 6, 6)
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    before, after = folder / "float.onnx", folder / f"{how}.onnx"
    torch.onnx.export(Network().eval(), (x,), before, opset_version=17, dynamo=False, **names)

    class Samples(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [{"x": random.normal(size=(3, 2, 6, 6)).astype("f4")} for _ in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    if how == "dynamic":
        quantization.quantize_dynamic(before, after, weight_type=quantization.QuantType.QUInt8)
    else:
        form = quantization.QuantFormat.QDQ if how == "pairs" else quantization.QuantFormat.QOperator
        kinds = [quantization.QuantType.QUInt8] * 2
        if how == "pairs":
            kinds[1] = quantization.QuantType.QInt8
        options = {"quant_format": form, "per_channel": how == "pairs"}
        quantization.quantize_static(before, after, Samples(), activation_type=kinds[0], weight_type=kinds[1], **options)
    return onnx.load(after), {"x": x.numpy()}


def main(folder):
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        models = {"loop": loop(), "positions": positions(), "integers": integers()}
        for how in ["dynamic", "pairs", "operators"]:
            models[f"quantised_{how}"] = quantised(Path(scratch), how)
        outside = onnx.load(Path(scratch) / "float.onnx")
    x = {"x": random.normal(size=(2, 2, 6, 6)).astype("f4")}
    data = {"save_as_external_data": True, "location": "external.bin", "size_threshold": 0}
    models["external"] = outside, x
    for name, (made, inputs) in models.items():
        path = folder / f"{name}.onnx"
        path.with_name("external.bin").unlink(missing_ok=True)
        onnx.save(made, path, **(data if name == "external" else {}))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        # As the standard says, without products of other operators.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        results = session.run(None, inputs)
        values = {f"in {key}": it for key, it in inputs.items()}
        values |= {f"out {at}": np.array(it, order="C") for at, it in enumerate(results)}
        save_file(values, path.with_suffix(".safetensors"))
        print(name, sorted({it.op_type for it in onnx.load(path).graph.node}), sep=": ")


main(Path(sys.argv[1]))
