"""What the programs share with examples/*.rs: numbers that both sides compute alike from names and positions, and the
file of losses, against which the example is compared."""

import io
import pathlib

import numpy
import onnxruntime
import torch
from safetensors.torch import save_file

torch.set_num_threads(2)
DATA = pathlib.Path(__file__).parents[2] / "examples" / "data"


def bits(name, count):
    """The random integers of a name: SplitMix64, seeded by the FNV-1a hash of the name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = numpy.uint64(seed) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def uniform(name, shape):
    """f32 numbers from -1 to 1, multiples of 2^-23."""
    numbers = (bits(name, int(numpy.prod(shape))) >> numpy.uint64(40)).astype(numpy.float32) / 8388608 - 1
    return torch.from_numpy(numbers.reshape(shape))


def normal(name, shape):
    """f32 numbers of variance one and nearly normal: half the sum of 12 uniform ones."""
    total = uniform(f"{name}.0", shape)
    for part in range(1, 12):
        total = total + uniform(f"{name}.{part}", shape)
    return total / 2


def below(name, shape, limit):
    """Integers from 0 to limit - 1."""
    numbers = (bits(name, int(numpy.prod(shape))) >> numpy.uint64(33)) % numpy.uint64(limit)
    return torch.from_numpy(numbers.astype(numpy.int64).reshape(shape))


def initial(name, shape):
    """The first value of a parameter or buffer: matrices of variance 1 / inputs, scales near one, biases near zero."""
    numbers = uniform(name, shape)
    if len(shape) > 1:
        return numbers * float(numpy.float32((3 / numpy.prod(shape[1:])) ** 0.5))
    return 1 + 0.1 * numbers if name.endswith(("weight", "running_var")) else 0.1 * numbers


def initialize(net):
    """Sets all parameters and buffers to their initial values."""
    state = {name: initial(name, it.shape) for name, it in net.state_dict().items() if it.is_floating_point()}
    net.load_state_dict(state, strict=False)


def write_names(program, net, rename=str):
    """Writes the names and shapes of the parameters and buffers, from which both sides make a file of weights."""
    state = net.state_dict().items()
    lines = [f"{rename(name)} {' '.join(map(str, it.shape))}".strip() + "\n" for name, it in state]
    (DATA / f"{program}_state.txt").write_text("".join(lines))


def write_weights(program, path):
    """Writes a file of weights with these names and shapes, and initial values."""
    lines = [line.split() for line in (DATA / f"{program}_state.txt").read_text().splitlines()]
    shapes = {name: [int(size) for size in shape] for name, *shape in lines}
    # The only values without axes count batches.
    state = {name: initial(name, it) if it else torch.tensor(0) for name, it in shapes.items()}
    save_file(state, path)


def check_onnx(program, net, inputs):
    """Exports a module, and compares what onnxruntime computes."""
    model = io.BytesIO()
    torch.onnx.export(net, tuple(inputs), model, opset_version=18, dynamo=False)
    session = onnxruntime.InferenceSession(model.getvalue(), providers=["CPUExecutionProvider"])
    names = [it.name for it in session.get_inputs()]
    results = session.run(None, {name: it.detach().numpy() for name, it in zip(names, inputs)})
    with torch.no_grad():
        wanted = net(*inputs)
    for result, it in zip(results, wanted if isinstance(wanted, tuple) else (wanted,)):
        difference = (torch.from_numpy(result) - it).abs().max() / it.abs().max()
        assert difference <= 1e-5, f"{program}: the results of onnxruntime differ by {difference:.1e}"


def write(program, numbers):
    """Writes the numbers with which the example is compared."""
    (DATA / "curves" / f"{program}.txt").write_text("".join(f"{number:.9g}\n" for number in numbers))


def write_losses(program, losses):
    """Writes the losses with which those of the example are compared."""
    write(program, losses)
    print(f"{program}: the loss goes from {losses[0]:.4f} to {losses[-1]:.4f} in {len(losses)} steps")
