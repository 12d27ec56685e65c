#!/usr/bin/env python3
"""The engine and PyTorch in bf16, both against PyTorch in f32, on random Qwen3 models of real widths: one JSON on stdout.

Needs the built `hone`, PyTorch and transformers; no Rust, no network. Passes if no error of a logprob is larger than PyTorch's own
in bf16, on average and in its 99.9th percentile, and every gradient's cosine with PyTorch's in f32 is over 0.999 or that of
PyTorch's in bf16.

    scripts/gpu_parity_torch.py [--binary target/release/hone] [--device cuda] [--torch-device cuda] [--only qwen2]

With `--device cpu` the engine computes in f32 and must be within 1e-4. Without a GPU, bf16 is compared on the emulated one, in half
an hour: `crates/cuda/emulator/run scripts/gpu_parity_torch.py --torch-device cpu`.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy
import torch
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen3Config

from gpu_parity import cosine, load, run

HEADS_OF_128 = dict(hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=8, head_dim=128)
MODELS = {
    "qwen3, 4 layers of 1,024, tied": Qwen3Config(
        **HEADS_OF_128, num_hidden_layers=4, vocab_size=32_003, tie_word_embeddings=True),
    "qwen3, 2 layers of 2,048, heads of 64": Qwen3Config(
        hidden_size=2048, intermediate_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
        num_hidden_layers=2, vocab_size=16_000, tie_word_embeddings=False),
    "qwen2, 4 layers of 896, biases": Qwen2Config(
        hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2, num_hidden_layers=4,
        vocab_size=16_000, tie_word_embeddings=True),
}
LENGTHS = [1500, 700, 129]


def made(config, folder, seed):
    """A random model with logits that differ, on disk in f32."""
    torch.manual_seed(seed)
    config.initializer_range = 0.04
    config.max_position_embeddings = 4096
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    return model


def torch_side(model, device, dtype, sequences, slopes):
    """(logprobs, gradients by name): of the sum of slope x logprob over all sequences."""
    model = model.to(device=device, dtype=dtype)
    model.zero_grad(set_to_none=True)
    logprobs = []
    for ids, slope in zip(sequences, slopes):
        ids, slope = torch.tensor([ids], device=device), torch.tensor(slope, device=device)
        logits = model(input_ids=ids).logits[0, :-1].float()
        found = torch.log_softmax(logits, -1).gather(-1, ids[0, 1:, None])[:, 0]
        (found * slope).sum().backward()
        logprobs.append(found.detach().double().cpu().numpy())
    gradients = {name: p.grad.float().cpu().numpy() for name, p in model.named_parameters()}
    return numpy.concatenate(logprobs), gradients


def hone_side(binary, folder, device, sequences, slopes):
    ids, weights, out = (folder / name for name in ("ids.json", "weights.json", "gradients.safetensors"))
    ids.write_text(json.dumps(sequences))
    weights.write_text(json.dumps(slopes))
    precision = ["--precision", "bf16"] if device == "cuda" else []
    found = run(binary, "logprobs", "--model", folder, "--device", device, *precision, ids, "--grad", weights, "--out", out, "--packed")
    gradients = {name.split(".grad.", 1)[1]: value for name, value in load(out).items()}
    return numpy.concatenate([numpy.array(one) for one in found["logprobs"]]), gradients


def errors(found, wanted):
    gap = numpy.abs(found - wanted)
    return {"mean": float(gap.mean()), "p99.9": float(numpy.quantile(gap, 0.999)), "largest": float(gap.max())}


def compare(binary, config, device, torch_device, folder, seed):
    rng = numpy.random.default_rng(seed)
    sequences = [rng.integers(0, config.vocab_size, length).tolist() for length in LENGTHS]
    slopes = [rng.normal(size=length - 1).astype(numpy.float32).tolist() for length in LENGTHS]
    model = made(config, folder, seed)
    exact, gradients = torch_side(model, torch_device, torch.float32, sequences, slopes)
    ours, our_gradients = hone_side(binary, folder, device, sequences, slopes)
    result = {"hone": errors(ours, exact)}
    least = {"hone": min((cosine(our_gradients[name], value), name) for name, value in gradients.items())}
    if device == "cpu":
        passed = result["hone"]["largest"] < 1e-4 and least["hone"][0] > 1 - 1e-6
    else:
        theirs, their_gradients = torch_side(model, torch_device, torch.bfloat16, sequences, slopes)
        result["torch bf16"] = errors(theirs, exact)
        least["torch bf16"] = min((cosine(their_gradients[name], value), name) for name, value in gradients.items())
        close = all(result["hone"][key] <= result["torch bf16"][key] for key in ("mean", "p99.9"))
        passed = close and least["hone"][0] >= min(0.999, least["torch bf16"][0])
    return {"logprob_error": result, "least_gradient_cosine": least, "pass": passed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/hone")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--torch-device", choices=["cuda", "cpu"], help="where PyTorch computes; default: --device")
    parser.add_argument("--only", default="", help="models whose name contains this")
    arguments = parser.parse_args()
    if not any(arguments.only in name for name in MODELS):
        parser.error(f"--only: no model's name contains {arguments.only!r}; there are {list(MODELS)}")
    torch.backends.cuda.matmul.allow_tf32 = False
    result = {}
    for seed, (name, config) in enumerate(MODELS.items()):
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            devices = arguments.device, arguments.torch_device or arguments.device
            result[name] = compare(arguments.binary, config, *devices, pathlib.Path(folder), seed)
        print(f"{name}: {json.dumps(result[name])}", file=sys.stderr, flush=True)
    result["pass"] = all(part["pass"] for part in result.values())
    print(json.dumps(result, indent=1))
    return 0 if result["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
