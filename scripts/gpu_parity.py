#!/usr/bin/env python3
"""The engine on a GPU against the recorded outputs of the reference models, and against itself on the CPU: one JSON on stdout.

Needs the built `hone`, an NVIDIA GPU and numpy; no Rust, no network.

    scripts/gpu_parity.py [--binary target/release/hone] [--references crates/testdata/data/engine]
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy

from gpu_check import library_folders

WAYS = [[], ["--recompute"], ["--packed"], ["--share-prefix"], ["--share-prefix", "--recompute"]]


def load(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    kinds = {"F32": numpy.float32, "I64": numpy.int64}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = numpy.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def run(binary, *arguments):
    environment = dict(os.environ)
    known = [path for path in environment.get("LD_LIBRARY_PATH", "").split(":") if path]
    environment["LD_LIBRARY_PATH"] = ":".join(known + library_folders())
    done = subprocess.run([binary, "engine", *map(str, arguments)], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"hone engine {' '.join(map(str, arguments))}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def numbered(reference, pattern):
    found = []
    while pattern.format(len(found)) in reference:
        found.append(reference[pattern.format(len(found))])
    return found


def cosine(a, b):
    a, b = a.astype(numpy.float64).ravel(), b.astype(numpy.float64).ravel()
    norms = numpy.linalg.norm(a) * numpy.linalg.norm(b)
    return 1.0 if norms == 0 else float(a @ b / norms)


def compare(binary, model, device, precision, folder):
    """Largest errors of one model on one device, by what was compared."""
    reference = load(model / "reference.safetensors")
    sequences = numbered(reference, "seq{}.input_ids")
    weights = numbered(reference, "seq{}.weights")
    expected = numbered(reference, "seq{}.target_logprobs")
    ids, slopes = folder / "ids.json", folder / "weights.json"
    ids.write_text(json.dumps([s.tolist() for s in sequences]))
    slopes.write_text(json.dumps([w.tolist() for w in weights]))
    where = ["--model", model, "--device", device, "--precision", precision]
    result = {"ways": {}}
    for way in WAYS:
        out, logits = folder / "gradients.safetensors", folder / "logits.safetensors"
        found = run(binary, "logprobs", *where, ids, "--logits", logits, "--grad", slopes, "--out", out, *way)
        found = found["logprobs"]
        errors = [float(numpy.abs(numpy.array(f) - e).max()) for f, e in zip(found, expected)]
        gradients, summed = load(out), "--packed" in way or "--share-prefix" in way
        cosines, relative = [], []
        for name, value in gradients.items():
            parameter = name.split(".grad.", 1)[1]
            if summed:
                wanted = sum(reference[f"seq{i}.grad.{parameter}"] for i in range(len(sequences)))
            else:
                wanted = reference[name]
            cosines.append((cosine(value, wanted), name))
            scale = numpy.linalg.norm(wanted) or 1.0
            relative.append((float(numpy.linalg.norm(value - wanted) / scale), name))
        result["ways"][" ".join(way) or "alone"] = {
            "largest_logprob_error": max(errors),
            "least_gradient_cosine": min(cosines),
            "largest_gradient_error": max(relative),
        }
        if not way:
            tensors = load(logits)
            worst = [float(numpy.abs(tensors[f"seq{i}.logits"] - reference[f"seq{i}.logits"]).max()) for i in range(len(sequences))]
            scale = max(float(numpy.abs(reference[f"seq{i}.logits"]).max()) for i in range(len(sequences)))
            result["largest_logit_error"] = max(worst)
            result["largest_logit"] = scale
    prompts, tokens = numbered(reference, "greedy{}.prompt"), numbered(reference, "greedy{}.tokens")
    path = folder / "prompts.json"
    path.write_text(json.dumps([p.tolist() for p in prompts]))
    found = run(binary, "greedy", *where, path, "--max-new", len(tokens[0]))["tokens"]
    result["greedy_tokens_equal"] = [int(sum(a == b for a, b in zip(f, t))) for f, t in zip(found, tokens)]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/hone")
    parser.add_argument("--references", default="crates/testdata/data/engine", type=pathlib.Path)
    parser.add_argument("--devices", default="cpu:bf16,cuda:f32,cuda:bf16")
    arguments = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in sorted(p for p in arguments.references.iterdir() if (p / "reference.safetensors").exists()):
            for device in arguments.devices.split(","):
                name, precision = device.split(":")
                key = f"{model.name} on {name}" + (f" in {precision}" if name == "cuda" else "")
                try:
                    result[key] = compare(arguments.binary, model, name, precision, pathlib.Path(folder))
                except (RuntimeError, KeyError) as error:
                    result[key] = {"error": str(error)}
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
