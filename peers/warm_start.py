"""First results of fresh processes, with an empty compile cache and a full one, of this project and its peers.

    python peers/warm_start.py [--jax PYTHON] [--torch PYTHON] [--mindspore PYTHON] [--rounds N]

Each option names the interpreter of an environment that has the peer (`pip install jax`, `torch`, and
`"numpy<2" mindspore`; torch.compile needs g++); peers without one are left out. Builds `benches/warm_start`
and runs everything by turns, each time in a process of its own, and prints medians as a table. What takes
over `SLOW` seconds is run `FEW` times.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

SLOW, FEW = 10.0, 3
WORKLOADS = {"loop200": "200 iterations unrolled", "gpt": "training step of a GPT"}
NAMES = {"ms": "ms", "ms pure": "ms, `#[jit(pure)]`", "jax": "JAX", "torch": "torch.compile", "mindspore": "MindSpore"}

# ------------------------------------------------------------------------------------------------------------------
# The process of a peer: one workload, from the start of its first call to the result.


def gpt_values():
    """Parameters by name, tokens and targets: those of `benches/warm_start/gpt.rs`, by their shapes."""
    import numpy as np

    random = np.random.default_rng(0)
    vocabulary, width, blocks, batch, length = 1024, 256, 4, 4, 128
    weight = lambda *shape: random.standard_normal(shape, dtype=np.float32) * 0.02
    zeros = lambda size: np.zeros(size, np.float32)
    ones = lambda size: np.ones(size, np.float32)
    values = dict(tokens=weight(vocabulary, width), places=weight(length, width), g=ones(width), b=zeros(width))
    for i in range(blocks):
        shapes = dict(qkv=(width, 3 * width), out=(width, width), up=(width, 4 * width), down=(4 * width, width))
        for norm in ("norm1", "norm2"):
            values |= {f"{i}.{norm}.g": ones(width), f"{i}.{norm}.b": zeros(width)}
        for name, shape in shapes.items():
            values |= {f"{i}.{name}.w": weight(*shape), f"{i}.{name}.b": zeros(shape[1])}
    tokens = lambda: random.integers(0, vocabulary, (batch, length)).astype(np.int32)
    return values, tokens(), tokens()


HEADS, BLOCKS = 4, 4


def unrolled(x, y):
    output = x
    for _ in range(200):
        output = x + x * y + output
    return output


def of_jax(workload, cache):
    import jax
    import jax.numpy as jnp
    import numpy as np

    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    if workload == "loop200":
        compiled = jax.jit(unrolled)
        x, y = jax.device_put((np.ones(1, np.float32), np.full(1, 2, np.float32)))
        return lambda: compiled(x, y).item()

    def norm(x, g, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b

    def loss(p, ids, targets):
        batch, length = ids.shape
        width = p["tokens"].shape[1]
        mask = jnp.tril(jnp.ones((length, length), bool))
        x = p["tokens"][ids] + p["places"]
        for i in range(BLOCKS):
            of = lambda name: (p[f"{i}.{name}.g" if "norm" in name else f"{i}.{name}.w"], p[f"{i}.{name}.b"])
            dense = lambda x, name: x @ of(name)[0] + of(name)[1]
            parts = jnp.split(dense(norm(x, *of("norm1")), "qkv"), 3, -1)
            q, k, v = [it.reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3) for it in parts]
            scores = q @ k.transpose(0, 1, 3, 2) / np.float32((width // HEADS) ** 0.5)
            attended = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1) @ v
            x = x + dense(attended.transpose(0, 2, 1, 3).reshape(batch, length, width), "out")
            x = x + dense(jax.nn.gelu(dense(norm(x, *of("norm2")), "up"), approximate=True), "down")
        logits = (norm(x, p["g"], p["b"]) @ p["tokens"].T).reshape(-1, p["tokens"].shape[0])
        return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), targets.reshape(-1, 1), 1).mean()

    def step(p, m, v, t, ids, targets):
        value, g = jax.value_and_grad(loss)(p, ids, targets)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        moved = lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return value, jax.tree.map(moved, p, m, v), m, v, t

    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    values, ids, targets = gpt_values()
    zeros = lambda: {name: np.zeros_like(it) for name, it in values.items()}
    state = jax.block_until_ready(jax.device_put([values, zeros(), zeros(), np.float32(0)]))
    ids, targets = jax.block_until_ready(jax.device_put((ids, targets)))

    def call():
        value, *state[:] = compiled(*state, ids, targets)
        jax.block_until_ready(state)
        return float(value)

    return call


def of_torch(workload, cache):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "1"
    os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "1"
    import torch
    import torch.nn.functional as F

    if workload == "loop200":
        compiled = torch.compile(unrolled, dynamic=False)
        x, y = torch.tensor([1.0]), torch.tensor([2.0])
        return lambda: compiled(x, y).item()

    values, ids, targets = gpt_values()
    p = {name: torch.nn.Parameter(torch.from_numpy(it)) for name, it in values.items()}
    ids, targets = torch.from_numpy(ids).long(), torch.from_numpy(targets).long()
    optimizer = torch.optim.Adam(p.values(), lr=1e-3, foreach=True)

    @torch.compile(dynamic=False)
    def loss(ids, targets):
        batch, length = ids.shape
        width = p["tokens"].shape[1]
        norm = lambda x, g, b: F.layer_norm(x, (width,), g, b)
        x = F.embedding(ids, p["tokens"]) + p["places"]
        for i in range(BLOCKS):
            dense = lambda x, name: x @ p[f"{i}.{name}.w"] + p[f"{i}.{name}.b"]
            parts = dense(norm(x, p[f"{i}.norm1.g"], p[f"{i}.norm1.b"]), "qkv").split(width, -1)
            q, k, v = [it.reshape(batch, length, HEADS, -1).transpose(1, 2) for it in parts]
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + dense(attended.transpose(1, 2).reshape(batch, length, width), "out")
            up = dense(norm(x, p[f"{i}.norm2.g"], p[f"{i}.norm2.b"]), "up")
            x = x + dense(F.gelu(up, approximate="tanh"), "down")
        logits = norm(x, p["g"], p["b"]) @ p["tokens"].t()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def call():
        optimizer.zero_grad(set_to_none=True)
        value = loss(ids, targets)
        value.backward()
        optimizer.step()
        return value.item()

    return call


def of_mindspore(workload, cache):
    os.environ["MS_COMPILER_CACHE_ENABLE"] = "1"
    os.environ["MS_COMPILER_CACHE_PATH"] = cache
    import mindspore
    import numpy as np
    from mindspore import Parameter, Tensor, nn, ops

    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_device("CPU")
    if workload == "loop200":
        compiled = mindspore.jit(unrolled)
        x, y = Tensor(np.ones(1, np.float32)), Tensor(np.full(1, 2, np.float32))
        return lambda: compiled(x, y).asnumpy().item()

    values, ids, targets = gpt_values()

    def norm(x, g, b):
        mean = x.mean(-1, True)
        return (x - mean) * ops.rsqrt(((x - mean) * (x - mean)).mean(-1, True) + 1e-5) * g + b

    class Block(nn.Cell):
        def __init__(self, i):
            super().__init__()
            of = lambda name: Parameter(Tensor(values[f"{i}.{name}"]), name=f"block{i}.{name}")
            self.g1, self.b1, self.g2, self.b2 = of("norm1.g"), of("norm1.b"), of("norm2.g"), of("norm2.b")
            self.qkv, self.qkv_b, self.out, self.out_b = of("qkv.w"), of("qkv.b"), of("out.w"), of("out.b")
            self.up, self.up_b, self.down, self.down_b = of("up.w"), of("up.b"), of("down.w"), of("down.b")

        def construct(self, x, mask):
            batch, length, width = x.shape
            split = lambda it, order: it.reshape(batch, length, HEADS, width // HEADS).transpose(*order)
            q, k, v = ops.split(ops.matmul(norm(x, self.g1, self.b1), self.qkv) + self.qkv_b, width, -1)
            q, k, v = split(q, (0, 2, 1, 3)), split(k, (0, 2, 3, 1)), split(v, (0, 2, 1, 3))
            scores = ops.matmul(q, k) * (1.0 / (width // HEADS) ** 0.5) + mask
            attended = ops.matmul(ops.softmax(scores, -1), v).transpose(0, 2, 1, 3).reshape(batch, length, width)
            x = x + ops.matmul(attended, self.out) + self.out_b
            up = ops.gelu(ops.matmul(norm(x, self.g2, self.b2), self.up) + self.up_b, approximate="tanh")
            return x + ops.matmul(up, self.down) + self.down_b

    class Gpt(nn.Cell):
        def __init__(self):
            super().__init__()
            of = lambda name: Parameter(Tensor(values[name]), name=name)
            self.tokens, self.places, self.g, self.b = of("tokens"), of("places"), of("g"), of("b")
            self.blocks = nn.CellList([Block(i) for i in range(BLOCKS)])
            length = values["places"].shape[0]
            self.mask = Tensor(np.triu(np.full((length, length), -1e9, np.float32), 1))

        def construct(self, ids):
            x = ops.gather(self.tokens, ids, 0) + self.places
            for block in self.blocks:
                x = block(x, self.mask)
            return ops.matmul(norm(x, self.g, self.b), self.tokens.T)

    net = Gpt()
    optimizer = nn.Adam(net.trainable_params(), 1e-3)

    def loss(ids, targets):
        logits = net(ids)
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    gradients = mindspore.value_and_grad(loss, None, optimizer.parameters)

    @mindspore.jit
    def step(ids, targets):
        value, found = gradients(ids, targets)
        optimizer(found)
        return value

    ids, targets = Tensor(ids), Tensor(targets)
    return lambda: float(step(ids, targets).asnumpy())


PEERS = {"jax": of_jax, "torch": of_torch, "mindspore": of_mindspore}


def child(peer, workload, cache):
    call = PEERS[peer](workload, cache)
    start = time.perf_counter()
    value = call()
    first = time.perf_counter() - start
    assert abs(value - 601) < 1e-3 if workload == "loop200" else 6 < value < 8, value
    later = []
    begin = time.perf_counter()
    # As long as benches/warm_start does.
    while len(later) < 3 or time.perf_counter() < begin + 0.2:
        start = time.perf_counter()
        call()
        later.append(time.perf_counter() - start)
    from importlib.metadata import version

    print(json.dumps(dict(first=first * 1e3, later=statistics.median(later) * 1e3, version=version(peer))))


# ------------------------------------------------------------------------------------------------------------------
# The table.


def build():
    """The executable of benches/warm_start."""
    command = ["cargo", "bench", "--bench", "warm_start", "--no-run", "--message-format=json"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    made = [it.get("executable") for it in map(json.loads, lines) if it.get("target", {}).get("name") == "warm_start"]
    return next(filter(None, made))


def run_ms(executable, workload, cache):
    setting = dict(MS_WARM_START_WORKLOAD=workload, MS_COMPILER_CACHE_ENABLE="1", MS_COMPILER_CACHE_PATH=cache)
    output = subprocess.run([executable], env=os.environ | setting, check=True, stdout=subprocess.PIPE, text=True)
    numbers, steps = output.stdout.splitlines()
    first, later = (float(it) / 1e3 for it in numbers.split()[:2])
    times = {}
    for name, us in (it.rsplit(" ", 1) for it in steps.split(", ")):
        times[name] = times.get(name, 0) + float(us) / 1e3
    return dict(first=first, later=later, steps=times)


def run_peer(python, peer, workload, cache):
    command = [python, __file__, "child", peer, workload, cache]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if output.returncode != 0:
        sys.exit(f"{peer}, {workload}: {output.stderr}")
    return json.loads(output.stdout.splitlines()[-1])


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((it.split(":")[1].strip() for it in file if it.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for peer in PEERS:
        parser.add_argument(f"--{peer}", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=9)
    options = vars(parser.parse_args())
    executable = build()
    runs = {}
    for workload in WORKLOADS:
        runs["ms", workload] = lambda cache, it=workload: run_ms(executable, it, cache)
        if workload == "loop200":
            runs["ms pure", workload] = lambda cache: run_ms(executable, "loop200 pure", cache)
        for peer in PEERS:
            if options[peer]:
                python = options[peer]
                runs[peer, workload] = lambda cache, at=(python, peer, workload): run_peer(*at, cache)

    cold, warm, caches, loads = {at: [] for at in runs}, {at: [] for at in runs}, {}, []
    with tempfile.TemporaryDirectory() as scratch:
        for round in range(options["rounds"]):
            for at, run in runs.items():
                loads.append(os.getloadavg()[0])
                if len(cold[at]) < FEW or cold[at][0]["first"] < SLOW * 1e3:
                    caches[at] = os.path.join(scratch, f"{round} {' '.join(at)}".replace(" ", "-"))
                    cold[at].append(run(caches[at]))
                if len(warm[at]) < FEW or warm[at][0]["first"] < SLOW * 1e3:
                    warm[at].append(run(caches[at]))
                print(f"round {round}: {' '.join(at)}", file=sys.stderr, flush=True)

    median = lambda all, of: statistics.median(map(of, all))
    digits = lambda it: f"{it:,.0f}" if it >= 100 else f"{it:.1f}" if it >= 10 else f"{it:.2f}"
    number = lambda it: f"{digits(it)} ms" if it >= 0.1 else f"{digits(it * 1e3)} µs"
    print(f"{machine()}; load {min(loads):.1f} to {max(loads):.1f}, median {statistics.median(loads):.1f}\n")
    print("| | cold cache | warm cache (fastest) | a later call | warm, above a later call | processes |")
    print("|---|---|---|---|---|---|")
    for workload, title in WORKLOADS.items():
        print(f"| **{title}** | | | | | |")
        for (who, of), all in warm.items():
            if of != workload:
                continue
            first = lambda it: it["first"]
            above = lambda it: it["first"] - it["later"]
            version = all[0].get("version", "")
            cells = [
                f"{NAMES[who]} {version}".strip(),
                number(median(cold[who, of], first)),
                f"**{number(median(all, first))}** ({number(min(map(first, all)))})",
                number(median(all, lambda it: it["later"])),
                number(median(all, above)),
                f"{len(cold[who, of])} + {len(all)}",
            ]
            print(f"| {' | '.join(cells)} |")
    print("\nSteps of the warm calls of ms, medians in ms; `run` is what no step has: the first run and the result.\n")
    print("| | stages |\n|---|---|")
    for (who, of), all in warm.items():
        if not who.startswith("ms"):
            continue
        steps = [f"{name} {median(all, lambda it: it['steps'][name]):.3f}" for name in all[0]["steps"]]
        rest = median(all, lambda it: it["first"] - sum(it["steps"].values()))
        print(f"| {WORKLOADS[of]}, {NAMES[who]} | {', '.join(steps)}, run {rest:.3f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        main()
