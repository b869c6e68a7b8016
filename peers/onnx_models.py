"""Runs ONNX models with onnxruntime, and compares their results with those of ms.

    MS_ONNX_FOLDER=FOLDER cargo test -p ms-onnx
    python peers/onnx_models.py FOLDER

Each model `NAME.onnx` has its inputs and the results of ms in `NAME.safetensors`. Needs `onnx`, `onnxruntime`, `numpy`,
`safetensors` and `torch`.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors import safe_open

# Rounding, by dtype: of results that are about one.
TOLERANCES = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}


def without_bf16(model):
    """The model with f32 in place of bf16 at its inputs and outputs, since numpy has no bf16."""
    graph, bf16 = model.graph, onnx.TensorProto.BFLOAT16
    for put, get, front in [(it, it.type.tensor_type, True) for it in graph.input] + [
        (it, it.type.tensor_type, False) for it in graph.output
    ]:
        if get.elem_type == bf16:
            get.elem_type, old = onnx.TensorProto.FLOAT, put.name
            put.name = f"f32 {old}"
            ends = (put.name, old) if front else (old, put.name)
            cast = onnx.helper.make_node("Cast", ends[:1], ends[1:], to=bf16 if front else onnx.TensorProto.FLOAT)
            graph.node.insert(0 if front else len(graph.node), cast)
    return model


def load(path):
    """The values of a file, with bf16 as f32."""
    with safe_open(path, "pt") as file:
        values = {name: file.get_tensor(name) for name in file.keys()}
    return {name: (it.float() if it.dtype == torch.bfloat16 else it).numpy() for name, it in values.items()}


def compare(path):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    values = load(path.with_suffix(".safetensors"))
    model = without_bf16(onnx.load(path))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [it.name for it in session.get_inputs()]
    results = session.run(None, {name: values[f"in {name.removeprefix('f32 ')}"] for name in names})
    for at, result in enumerate(results):
        wanted = values[f"out {at}"]
        if result.dtype != wanted.dtype or result.shape != wanted.shape:
            return f"{result.dtype}{result.shape}, and not {wanted.dtype}{wanted.shape}"
        tolerance = TOLERANCES.get(str(wanted.dtype), 0)
        if any("f32 " in it.name for it in model.graph.output):
            tolerance = 1e-2
        if not np.allclose(result, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"output {at} differs by {np.abs(result.astype('f8') - wanted.astype('f8')).max():.3g}"
    return None


def main(folder):
    counts = {"equal": 0, "not run": 0, "different": 0}
    for path in sorted(Path(folder).glob("*.onnx")):
        try:
            difference = compare(path)
            kind = "different" if difference else "equal"
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
            difference, kind = str(error).splitlines()[0], "not run"
        except Exception as error:
            difference, kind = str(error).splitlines()[0], "different"
        counts[kind] += 1
        if difference:
            print(f"{path.stem}: {kind}: {difference}")
    print(counts)
    sys.exit(counts["different"] > 0)


main(sys.argv[1])
