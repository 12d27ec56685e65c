#!/usr/bin/env python3
"""PyTorch and transformers beside Hone on the same GPU, for gpu_check.py: one JSON object on stdout.

    scripts/gpu_torch.py kernels | eager | compiled
"""

import json
import sys
import time


def median_ms(body, repeats=10):
    import torch

    for _ in range(3):
        body()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        body()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def torch_kernels():
    import torch
    import torch.nn.functional as F

    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    result = {"matmul": {}, "attention": {}, "elementwise": {}}
    shapes = {
        "8192 cubed": (8192, 8192, 8192),
        "qkv forward": (16384, 4096, 1024),
        "gate_up forward": (16384, 6144, 1024),
        "down forward": (16384, 1024, 3072),
    }
    for name, (m, n, k) in shapes.items():
        a, b = torch.randn(m, k, **bf16), torch.randn(n, k, **bf16)
        ms = median_ms(lambda a=a, b=b: F.linear(a, b))
        result["matmul"][name] = {"ms": ms, "tflop_per_s": 2 * m * n * k / ms / 1e9}
    for count, length, heads, kv, dim in [(8, 2048, 16, 8, 128), (2, 8192, 16, 8, 128), (8, 2048, 32, 8, 64)]:
        q = torch.randn(count, heads, length, dim, **bf16, requires_grad=True)
        k = torch.randn(count, kv, length, dim, **bf16, requires_grad=True)
        v = torch.randn(count, kv, length, dim, **bf16, requires_grad=True)
        attend = lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        with torch.no_grad():
            forward = median_ms(attend)
        out = attend()
        grad = torch.randn_like(out)
        backward = median_ms(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
        flops = 4 * count * length * (length + 1) / 2 * heads * dim
        result["attention"][f"{count}x{length}, {heads}/{kv} heads of {dim}"] = {
            "forward": {"ms": forward, "tflop_per_s": flops / forward / 1e9},
            "backward": {"ms": backward, "tflop_per_s": 2.5 * flops / backward / 1e9},
        }
    x, w = torch.randn(16384, 1024, **bf16), torch.randn(1024, **bf16)
    result["elementwise"]["rms_norm forward (no residual)"] = {"ms": median_ms(lambda: F.rms_norm(x, (1024,), w))}
    gate_up = torch.randn(16384, 6144, **bf16)
    silu = lambda: F.silu(gate_up[:, :3072]) * gate_up[:, 3072:]
    result["elementwise"]["swiglu forward"] = {"ms": median_ms(silu)}
    return result


def torch_step(compiled):
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, rope_theta=1e6, tie_word_embeddings=True,
        use_cache=False, attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    start = time.time()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.train()
    if compiled:
        for layer in model.model.layers:
            layer.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    ids = torch.randint(0, config.vocab_size, (8, 2048), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    times = []
    first = None
    for _ in range(8):
        torch.cuda.synchronize()
        began = time.time()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.time() - began)
        first = first or time.time() - start
    seconds = sorted(times[3:])[len(times[3:]) // 2]
    return {
        "what": "transformers, AdamW on bf16 weights" + (", layers compiled" if compiled else ", eager"),
        "tokens_per_s": 8 * 2048 / seconds,
        "ms": seconds * 1e3,
        "all_ms": [t * 1e3 for t in times],
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9,
        "first_step_s": first,
        "loss": loss.item(),
    }


def main():
    name = sys.argv[1]
    try:
        result = torch_kernels() if name == "kernels" else torch_step(name == "compiled")
    except Exception as error:  # a missing package or a failing peer must not lose our own figures
        result = {"error": f"{type(error).__name__}: {error}"[:2000]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
