"""Decoding with a cache on other frameworks: the workloads `gpt_decode` and `gpt_decode_loop16` of `peers/frameworks.py`.

A GPT of eight blocks of width 512 chooses the next token from position 1,900 of a cache of 2,000, by one call, and for 16
tokens. In PyTorch eager the cache is written through a slice, and attention reads the positions so far. Compiled, the
position is a tensor, so that one graph serves all positions, and attention reads the whole cache under a mask.
"""

WIDTH, HEADS, BLOCKS, TOKENS, CAPACITY, POSITION = 512, 8, 8, 1024, 2000, 1900


def torch_calls(tokens, compiles):
    """A function that chooses so many tokens."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            shape = 1, HEADS, CAPACITY, WIDTH // HEADS
            self.register_buffer("keys", torch.zeros(shape))
            self.register_buffer("values", torch.zeros(shape))

        def forward(self, x, position, mask):
            heads = lambda it: it.reshape(1, 1, HEADS, -1).transpose(1, 2)
            q, k, v = map(heads, self.qkv(self.norm1(x)).split(WIDTH, -1))
            if mask is None:
                self.keys[:, :, position : position + 1] = k
                self.values[:, :, position : position + 1] = v
                keys, values = self.keys[:, :, : position + 1], self.values[:, :, : position + 1]
            else:
                self.keys.index_copy_(2, position, k)
                self.values.index_copy_(2, position, v)
                keys, values = self.keys, self.values
            attended = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(CAPACITY, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, token, position):
            if torch.is_tensor(position):
                x, mask = self.tokens(token) + self.places(position), torch.arange(CAPACITY) <= position
            else:
                x, mask = self.tokens(token) + self.places.weight[position], None
            for block in self.blocks:
                x = block(x, position, mask)
            return F.linear(self.norm(x), self.tokens.weight).argmax(-1)

    net = Gpt().eval()
    step = torch.compile(net, dynamic=False) if compiles else net
    place = (lambda it: torch.tensor([it])) if compiles else (lambda it: it)

    def call():
        token = torch.zeros(1, 1, dtype=torch.int64)
        with torch.inference_mode():
            for it in range(tokens):
                token = step(token, place(POSITION + it))
            return token.item()

    return call


def jax_calls(tokens, looped):
    """A function that chooses so many tokens: by calls, or in a compiled loop."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(0)
    dense = lambda inputs, outputs: (
        random.standard_normal((inputs, outputs), dtype=np.float32) / inputs**0.5, np.zeros(outputs, np.float32)
    )  # fmt: skip
    table = lambda rows: random.standard_normal((rows, WIDTH), dtype=np.float32) * 0.02
    scale = lambda: (np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32))
    block = lambda: dict(
        norm1=scale(), norm2=scale(), qkv=dense(WIDTH, 3 * WIDTH), out=dense(WIDTH, WIDTH),
        up=dense(WIDTH, 4 * WIDTH), down=dense(4 * WIDTH, WIDTH),
    )  # fmt: skip
    parameters = dict(tokens=table(TOKENS), places=table(CAPACITY), norm=scale(), blocks=[block() for _ in range(BLOCKS)])
    empty = lambda: np.zeros((HEADS, CAPACITY, WIDTH // HEADS), np.float32)
    caches = [(empty(), empty()) for _ in range(BLOCKS)]
    apply = lambda p, x: x @ p[0] + p[1]

    def norm(x, g, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b

    def step(p, token, position, caches):
        x, mask = p["tokens"][token] + p["places"][position], jnp.arange(CAPACITY) <= position
        written = []
        for b, (keys, values) in zip(p["blocks"], caches):
            q, k, v = (it.reshape(HEADS, 1, -1) for it in jnp.split(apply(b["qkv"], norm(x, *b["norm1"])), 3, -1))
            keys = jax.lax.dynamic_update_slice(keys, k, (0, position, 0))
            values = jax.lax.dynamic_update_slice(values, v, (0, position, 0))
            written.append((keys, values))
            scores = jnp.where(mask, q @ keys.transpose(0, 2, 1) / np.float32((WIDTH // HEADS) ** 0.5), -jnp.inf)
            x = x + apply(b["out"], (jax.nn.softmax(scores, -1) @ values).reshape(WIDTH))
            x = x + apply(b["down"], jax.nn.gelu(apply(b["up"], norm(x, *b["norm2"])), approximate=True))
        return jnp.argmax(norm(x, *p["norm"]) @ p["tokens"].T), written

    def loop(p, token, position, caches):
        body = lambda it, state: step(p, state[0], position + it, state[1])
        return jax.lax.fori_loop(0, tokens, body, (token, caches))

    run, count = (jax.jit(loop, donate_argnums=3), 1) if looped else (jax.jit(step, donate_argnums=3), tokens)
    parameters, state = jax.device_put(parameters), [jax.device_put(caches)]

    def call():
        token = np.int32(0)
        for it in range(count):
            token, state[0] = run(parameters, token, np.int32(POSITION + it), state[0])
        return int(token)

    return call
