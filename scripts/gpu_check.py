#!/usr/bin/env python3
"""Kernel checks and benchmarks on a GPU machine, with PyTorch beside them: one JSON object on stdout.

Needs the built `hone-cuda-check` and an NVIDIA GPU; no Rust, no network. PyTorch (and transformers, for the training step)
are measured where python3 can import them, in the same run on the same GPU, and left out of the result otherwise.

    scripts/gpu_check.py [--binary target/release/hone-cuda-check] [--out FILE] [--compile] [--no-torch] [--timeout 120]

The folders of NVRTC and cuBLASLt are looked up in the usual places (the toolkit, the wheels PyTorch brings) and put on
LD_LIBRARY_PATH of the binary; what is already on it comes first.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import sysconfig
import time


def library_folders():
    """Folders that may hold libnvrtc.so and libcublasLt.so, in the order they are tried."""
    packages = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    packages.update(path for path in sys.path if path.endswith("-packages"))
    patterns = [f"{path}/nvidia/*/lib" for path in sorted(packages)]
    patterns += ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/*/lib", "/usr/local/nvidia/lib64"]
    return [folder for pattern in patterns for folder in sorted(glob.glob(pattern)) if glob.glob(f"{folder}/lib*.so*")]


def run_binary(binary, timeout, extra):
    env = dict(os.environ)
    known = [path for path in env.get("LD_LIBRARY_PATH", "").split(":") if path]
    env["LD_LIBRARY_PATH"] = ":".join(known + library_folders())
    process = subprocess.Popen([binary, *extra], env=env, stdout=subprocess.PIPE, text=True)
    try:
        out, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        return {"error": f"not finished after {timeout:.0f} s (its progress is on stderr)", "output": out[-4000:]}
    try:
        return json.loads(out)
    except json.JSONDecodeError:
        return {"error": f"exit status {process.returncode}", "output": out[-4000:]}


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


def torch_part(name):
    try:
        result = torch_kernels() if name == "kernels" else torch_step(name == "compiled")
    except Exception as error:  # a missing package or a failing peer must not lose our own figures
        result = {"error": f"{type(error).__name__}: {error}"[:2000]}
    print(json.dumps(result))


def run_torch(name, timeout):
    command = [sys.executable, os.path.abspath(__file__), "--torch-part", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=timeout, check=False)
        return json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {timeout} s"}
    except (json.JSONDecodeError, IndexError):
        return {"error": f"exit status {done.returncode}: {done.stdout[-500:]}"}


def ratios(report):
    """Our rate over PyTorch's, wherever both were measured."""
    ours, peer = report["hone"].get("bench", {}), report.get("torch", {})
    out = {}
    kernels = peer.get("kernels", {})
    for name, theirs in kernels.get("attention", {}).items():
        for way in ("forward", "backward"):
            mine = ours.get("attention", {}).get(name, {}).get(way)
            if mine:
                out[f"attention {way}, {name}"] = theirs[way]["ms"] / mine["ms"]
    for group in ("matmul", "elementwise"):
        for name, theirs in kernels.get(group, {}).items():
            mine = ours.get(group, {}).get(name)
            if mine:
                out[f"{group}, {name}"] = theirs["ms"] / mine["ms"]
    for name in ("eager", "compiled"):
        theirs = peer.get(name, {}).get("tokens_per_s")
        mine = ours.get("step", {}).get("tokens_per_s")
        if theirs and mine:
            out[f"training step over {name}"] = mine / theirs
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default="target/release/hone-cuda-check")
    parser.add_argument("--out", help="also write the JSON to this file")
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile, layer by layer")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for everything")
    parser.add_argument("--only", action="append", default=[], help="check or benchmark of the binary to run")
    parser.add_argument("--torch-part", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch_part:
        return torch_part(args.torch_part)

    start = time.time()
    left = lambda: max(5.0, args.timeout - (time.time() - start))
    extra = [word for name in args.only for word in ("--only", name)]
    binary = os.path.abspath(args.binary)
    report = {"libraries": library_folders(), "hone": run_binary(binary, min(left(), args.timeout * 0.45), extra)}
    if not report["hone"].get("pass"):
        # A kernel that faults takes the whole process with it: the rest is measured without Hopper's own instructions.
        again = run_binary(binary, min(left(), args.timeout * 0.35), extra + ["--portable"])
        report["hone_portable"] = again
    if not args.no_torch:
        report["torch"] = {}
        for name in ["kernels", "eager"] + (["compiled"] if args.compile else []):
            report["torch"][name] = run_torch(name, left())
        report["ratios"] = ratios(report)
    text = json.dumps(report, indent=1)
    if args.out:
        with open(args.out, "w") as file:
            file.write(text + "\n")
    print(text)
    return 0 if report["hone"].get("pass") else 1


if __name__ == "__main__":
    sys.exit(main())
