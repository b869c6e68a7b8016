"""The workloads of `benches/workloads` on other frameworks, as a process that is told what to measure.

    python peers/frameworks.py (torch | torch-compile | jax) [--threads N]

Every line of standard input is a workload and a number of seconds. The answer is a line of JSON as `cargo bench --bench
workloads -- --json` prints it: the seconds of the first call, which compiles, and the median microseconds of later ones.
What is compiled is kept between lines.
"""

import argparse
import json
import os
import statistics
import sys
import time

import decoding

TOKENS, WIDTH, BLOCKS, HEADS, BATCH, LENGTH = 1024, 256, 4, 4, 4, 128
STEPS, SEQUENCES, FEATURES, HIDDEN, CLASSES = 200, 32, 64, 128, 10
ATTENDED = 8, 2048, 64
IMAGES = {"b8_32": (8, 3, 32, 32), "b1_224": (1, 3, 224, 224)}


def measured(call, seconds):
    """The median microseconds of a call."""

    def timed(calls):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls

    calls = int(min(max(20e-6 / min(timed(1) for _ in range(3)), 1), 1000))
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < seconds:
        times.append(timed(calls))
    return statistics.median(times) * 1e6


def of_torch(workload, compiles):
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(0)
    compiled = (lambda f: torch.compile(f, dynamic=False)) if compiles else (lambda f: f)
    normal = torch.randn

    def inference(f, *arguments):
        f = compiled(f)

        def call():
            with torch.inference_mode():
                return f(*arguments)

        return call

    def training(net, samples, targets, loss=F.cross_entropy, autocast=False):
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, foreach=True)

        def forward(samples, targets):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                return loss(net(samples), targets)

        forward = compiled(forward)

        def call():
            optimizer.zero_grad(set_to_none=True)
            value = forward(samples, targets)
            value.backward()
            optimizer.step()
            return value.item()

        return call

    classes = lambda count: torch.randint(0, CLASSES, (count,))

    def unrolled(x, y):
        o = x
        for _ in range(200):
            o = x + x * y + o
        return o

    def branches(x, y):
        out = torch.zeros_like(x)
        for _ in range(100):
            x = x - y if bool(x < y) else x + y
            out = out + x
        return out

    def counted(x):
        for _ in range(1000):
            x = x * 0.999 + 0.001
        return x

    def chain(x, y):
        return F.gelu(x * 1.5 + y, approximate="tanh") * torch.sigmoid(y) - torch.exp(-torch.abs(x))

    def softmax_norm(x, g, b):
        return F.layer_norm(torch.softmax(x, -1), (x.shape[-1],), g, b)

    def mlp():
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def lenet():
        convolutions = [nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
        dense = [nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
        return nn.Sequential(*convolutions, *dense)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            heads = lambda it: it.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2)
            q, k, v = map(heads, self.qkv(self.norm1(x)).split(WIDTH, -1))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, ids):
            x = self.tokens(ids) + self.places.weight
            for block in self.blocks:
                x = block(x)
            return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.fc = nn.LSTM(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)

        def forward(self, x):
            return self.fc(self.lstm(x)[1][0][-1])

    def conv(inputs, outputs, kernel, stride):
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = conv(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
            own = [conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)] if stride > 1 else []
            self.shortcut = nn.Sequential(*own)

        def forward(self, x):
            return (self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())) + self.shortcut(x)).relu()

    def resnet():
        stem = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        blocks = [it for i, o, stride in stages for it in (Residual(i, o, stride), Residual(o, o, 1))]
        return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def attention_gradients():
        operands = [normal(1, *ATTENDED).requires_grad_() for _ in range(3)]
        f = compiled(lambda *operands: attention(*operands).square().sum())
        return lambda: torch.autograd.grad(f(*operands), operands)

    ids, targets = torch.randint(0, TOKENS, (BATCH, LENGTH)), torch.randint(0, TOKENS, (BATCH * LENGTH,))
    one = lambda: (normal(1), normal(1))
    match workload:
        case "add1" | "add1_eager":
            return inference(lambda x, y: x + y, *one())
        # torch.compile takes minutes for what is unrolled.
        case "loop200" if not compiles:
            return inference(unrolled, *one())
        case "if100" if not compiles:
            return inference(branches, torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.int32))
        case "while1000" if not compiles:
            return inference(counted, normal(1))
        case "vmap_hswish":
            return inference(torch.vmap(F.hardswish), normal(100, 2) * 100)
        case "ew_chain_64k" | "ew_chain_64k_eager":
            return inference(chain, normal(1 << 16), normal(1 << 16))
        case "ew_chain_16m" | "ew_chain_16m_eager":
            return inference(chain, normal(1 << 24), normal(1 << 24))
        case "softmax_ln":
            return inference(softmax_norm, normal(4096, 1024), normal(1024), normal(1024))
        case "gemm1024":
            return inference(lambda x, y: x @ y, normal(1024, 1024), normal(1024, 1024))
        case "mlp_fwd_b1":
            return inference(mlp(), normal(1, 784))
        case "mlp_fwd_b64":
            return inference(mlp(), normal(64, 784))
        case "mlp_train_b64" | "mlp_train_b64_eager":
            return training(mlp(), normal(64, 784), classes(64))
        case "lenet_train_b32":
            return training(lenet(), normal(32, 1, 28, 28), classes(32))
        case "gpt_fwd":
            return inference(Gpt(), ids)
        case "gpt_train":
            return training(Gpt(), ids, targets)
        case "gpt_train_bf16":
            return training(Gpt(), ids, targets, autocast=True)
        case "attention_2k_fwd":
            return inference(attention, *(normal(1, *ATTENDED) for _ in range(3)))
        case "attention_2k_grad":
            return attention_gradients()
        case "lstm200_fwd":
            return inference(Recurrent(), normal(STEPS, SEQUENCES, FEATURES))
        case "lstm200_train":
            return training(Recurrent(), normal(STEPS, SEQUENCES, FEATURES), classes(SEQUENCES))
        case "resnet18_b8_32_fwd" | "resnet18_b1_224_fwd":
            return inference(resnet().eval(), normal(IMAGES[workload[9:-4]]))
        case "resnet18_b8_32_train" | "resnet18_b1_224_train":
            shape = IMAGES[workload[9:-6]]
            return training(resnet(), normal(shape), classes(shape[0]))
        case "gpt_decode" | "gpt_decode_loop16":
            return decoding.torch_calls(1 if workload == "gpt_decode" else 16, compiles)


def of_jax(workload):
    import jax
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(0)
    normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)
    classes = lambda count: random.integers(0, CLASSES, count).astype(np.int32)

    def function(f, *arguments):
        f, arguments = jax.jit(f), jax.device_put(arguments)
        return lambda: jax.block_until_ready(f(*arguments))

    def training(loss, parameters, *batch):
        """Steps of Adam, with the state donated."""
        zeros = lambda: jax.tree.map(np.zeros_like, parameters)
        state = jax.device_put([parameters, zeros(), zeros(), np.float32(0)])
        batch = jax.device_put(batch)

        def step(p, m, v, t, *batch):
            value, g = jax.value_and_grad(loss)(p, *batch)
            t = t + 1
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
            moved = lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
            return value, jax.tree.map(moved, p, m, v), m, v, t

        step = jax.jit(step, donate_argnums=(0, 1, 2, 3))

        def call():
            value, *state[:] = step(*state, *batch)
            jax.block_until_ready(state)
            return float(value)

        return call

    def cross_entropy(logits, targets):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), targets[:, None], 1).mean()

    def unrolled(x, y):
        o = x
        for _ in range(200):
            o = x + x * y + o
        return o

    def branches(x, y):
        out = jnp.zeros_like(x)
        for _ in range(100):
            x = jax.lax.cond((x < y)[0], lambda x: x - y, lambda x: x + y, x)
            out = out + x
        return out

    def counted(x):
        return jax.lax.while_loop(lambda s: s[0] < 1000, lambda s: (s[0] + 1, s[1] * 0.999 + 0.001), (0, x))[1]

    def chain(x, y):
        return jax.nn.gelu(x * 1.5 + y, approximate=True) * jax.nn.sigmoid(y) - jnp.exp(-jnp.abs(x))

    def norm(x, g, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b

    dense = lambda inputs, outputs: (normal(inputs, outputs) / inputs**0.5, np.zeros(outputs, np.float32))
    apply = lambda p, x: x @ p[0] + p[1]

    def mlp(p, x):
        return apply(p[2], jax.nn.relu(apply(p[1], jax.nn.relu(apply(p[0], x)))))

    def lenet(p, x):
        for weight, bias in p[:2]:
            x = jax.nn.relu(jax.lax.conv(x, weight, (1, 1), "VALID") + bias[None, :, None, None])
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return mlp(p[2:], x.reshape(x.shape[0], -1))

    def gpt(p, ids):
        x = p["tokens"][ids] + p["places"]
        mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        heads = lambda it: it.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
        for b in p["blocks"]:
            q, k, v = map(heads, jnp.split(apply(b["qkv"], norm(x, *b["norm1"])), 3, -1))
            scores = jnp.where(mask, q @ k.transpose(0, 1, 3, 2) / np.float32((WIDTH // HEADS) ** 0.5), -1e9)
            attended = jax.nn.softmax(scores, -1) @ v
            x = x + apply(b["out"], attended.transpose(0, 2, 1, 3).reshape(x.shape))
            x = x + apply(b["down"], jax.nn.gelu(apply(b["up"], norm(x, *b["norm2"])), approximate=True))
        return (norm(x, *p["norm"]) @ p["tokens"].T).reshape(-1, TOKENS)

    def gpt_parameters():
        scale = lambda: (np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32))
        block = lambda: dict(
            norm1=scale(), norm2=scale(), qkv=dense(WIDTH, 3 * WIDTH), out=dense(WIDTH, WIDTH),
            up=dense(WIDTH, 4 * WIDTH), down=dense(4 * WIDTH, WIDTH),
        )  # fmt: skip
        blocks = [block() for _ in range(BLOCKS)]
        return dict(tokens=normal(TOKENS, WIDTH) * 0.02, places=normal(LENGTH, WIDTH) * 0.02, norm=scale(), blocks=blocks)

    def attention(q, k, v):
        scores = q @ k.transpose(0, 2, 1) / np.float32(ATTENDED[2] ** 0.5)
        return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf), -1) @ v

    attended = lambda: [normal(*ATTENDED) for _ in range(3)]
    tokens = lambda *shape: random.integers(0, TOKENS, shape).astype(np.int32)
    layers = lambda: [dense(784, 512), dense(512, 512), dense(512, 10)]
    loss = lambda f: lambda p, x, y: cross_entropy(f(p, x), y)
    match workload:
        case "add1":
            return function(lambda x, y: x + y, normal(1), normal(1))
        case "loop200":
            return function(unrolled, normal(1), normal(1))
        case "if100":
            return function(branches, np.zeros(1, np.int32), np.ones(1, np.int32))
        case "while1000":
            return function(counted, normal(1))
        case "vmap_hswish":
            return function(jax.vmap(jax.nn.hard_swish), normal(100, 2) * 100)
        case "ew_chain_64k":
            return function(chain, normal(1 << 16), normal(1 << 16))
        case "ew_chain_16m":
            return function(chain, normal(1 << 24), normal(1 << 24))
        case "softmax_ln":
            return function(lambda x, g, b: norm(jax.nn.softmax(x, -1), g, b), normal(4096, 1024), normal(1024), normal(1024))
        case "gemm1024":
            return function(lambda x, y: x @ y, normal(1024, 1024), normal(1024, 1024))
        case "mlp_fwd_b1" | "mlp_fwd_b64":
            return function(mlp, layers(), normal(int(workload[9:]), 784))
        case "mlp_train_b64":
            return training(loss(mlp), layers(), normal(64, 784), classes(64))
        case "lenet_train_b32":
            taps = lambda outputs, inputs: (normal(outputs, inputs, 5, 5) / 5, np.zeros(outputs, np.float32))
            parameters = [taps(6, 1), taps(16, 6), dense(256, 120), dense(120, 84), dense(84, 10)]
            return training(loss(lenet), parameters, normal(32, 1, 28, 28), classes(32))
        case "gpt_fwd":
            return function(gpt, gpt_parameters(), tokens(BATCH, LENGTH))
        case "attention_2k_fwd":
            return function(attention, *attended())
        case "attention_2k_grad":
            return function(jax.grad(lambda *it: (attention(*it) ** 2).sum(), (0, 1, 2)), *attended())
        case "gpt_train":
            return training(loss(gpt), gpt_parameters(), tokens(BATCH, LENGTH), tokens(BATCH * LENGTH))
        case "gpt_decode":
            return decoding.jax_calls(1, looped=False)
        case "gpt_decode_loop16":
            return decoding.jax_calls(16, looped=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["torch", "torch-compile", "jax"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    if options.peer != "jax":
        import torch

        torch.set_num_threads(options.threads)
    elif options.threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    prepared = {}
    for line in sys.stdin:
        workload, seconds = line.split()
        answer = dict(peer=options.peer, workload=workload)
        try:
            if workload not in prepared:
                call = of_jax(workload) if options.peer == "jax" else of_torch(workload, options.peer == "torch-compile")
                start = time.perf_counter()
                if call:
                    call()
                prepared[workload] = call, time.perf_counter() - start
            call, first = prepared[workload]
            if call:
                answer |= dict(cold_s=round(first, 5), us=round(measured(call, float(seconds)), 3), threads=options.threads)
        except Exception as error:
            prepared[workload] = None, 0
            answer["error"] = f"{type(error).__name__}: {error}"[:200]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
