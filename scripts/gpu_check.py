#!/usr/bin/env python3
"""Checks and benchmarks of the engine on a GPU machine, with PyTorch beside them: one JSON object.

Needs the built `hone` and `hone-cuda-check`, an NVIDIA GPU and Python; no Rust, no network. numpy (parity) and PyTorch with
transformers (comparison) are used where python3 can import them.

    scripts/gpu_check.py [--bin target/release] [--out FILE] [--only PART]... [--skip PART]... [--seconds 480] [--list]

Every part has a budget of seconds and ends at it; a part that fails or is cut off is recorded and does not stop the others. The
result so far is written after every part. The folders of NVRTC and cuBLASLt are looked up in the usual places (the toolkit, the
wheels PyTorch brings) and put on LD_LIBRARY_PATH of the programs; what is already on it comes first.
"""

import argparse
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LORA = ["--shape", "8b", "--lora", "16", "--recompute", "--sequences", "1"]
DEVICE = ["hone", "bench", "device"]
SANITIZER = ["compute-sanitizer", "--error-exitcode", "9", "--tool"]
# Cache of kernels and tuning choices for the part that starts without any.
EMPTY = pathlib.Path(tempfile.gettempdir()) / f"hone-check-{os.getpid()}"
# Part, seconds it may take, command.
PARTS = [
    ("checks", 90, ["hone-cuda-check", "--no-bench"]),
    ("parity", 60, ["python", HERE / "gpu_parity.py", "--binary", "hone"]),
    ("parity torch", 90, ["python", HERE / "gpu_parity_torch.py", "--binary", "hone"]),
    ("laws", 40, [*DEVICE, "--laws"]),
    ("train 0.6b", 40, [*DEVICE, "--train-only", "--groups", "0", "--steps", "10"]),
    ("train 4b", 60, [*DEVICE, "--shape", "4b", "--sequences", "4", "--moments", "8bit", "--memory", "60", "--train-only", "--groups", "0"]),
    ("sample 0.6b", 60, [*DEVICE, "--generate-only"]),
    ("conversations 0.6b", 60, [*DEVICE, "--train-only", "--generate-only", "--groups", "0", "--turns", "6"]),
    ("sample 4b", 50, [*DEVICE, "--shape", "4b", "--generate-only", "--groups", "0"]),
    ("train 0.6b, 8-bit moments", 30, [*DEVICE, "--train-only", "--groups", "0", "--moments", "8bit"]),
    ("train 0.6b, moments in host memory", 40, [*DEVICE, "--train-only", "--groups", "0", "--moments", "host"]),
    ("lora 8b 16k", 120, [*DEVICE, *LORA, "--tokens", "16384", "--steps", "2", "--groups", "1", "--prompt", "15872", "--reply", "256", "--together", "1"]),
    ("yarn 8b 65k", 90, [*DEVICE, *LORA, "--tokens", "65536", "--yarn", "--train-only", "--steps", "1", "--groups", "0"]),
    ("first step, nothing cached", 60, ["env", f"XDG_CACHE_HOME={EMPTY}", *DEVICE, "--train-only", "--groups", "0", "--steps", "1"]),
    ("soak", 60, [*DEVICE, "--train-only", "--steps", "1", "--groups", "0", "--soak", "1000"]),
    ("sanitizer", 120, [*SANITIZER, "memcheck", *DEVICE, "--laws"]),
    ("sanitizer of kernel checks", 120, [*SANITIZER, "memcheck", "hone-cuda-check", "--no-bench"]),
    ("sanitizer of races", 120, [*SANITIZER, "racecheck", *DEVICE, "--laws"]),
    ("kernels", 100, ["hone-cuda-check", "--bench-only"]),
    ("torch kernels", 40, ["python", HERE / "gpu_torch.py", "kernels"]),
    ("torch eager", 40, ["python", HERE / "gpu_torch.py", "eager"]),
    ("torch compiled", 120, ["python", HERE / "gpu_torch.py", "compiled"]),
]


def library_folders():
    """Folders that may hold libnvrtc.so and libcublasLt.so, in the order they are tried."""
    packages = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    packages.update(path for path in sys.path if path.endswith("-packages"))
    patterns = [f"{path}/nvidia/*/lib" for path in sorted(packages)]
    patterns += ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/*/lib", "/usr/local/nvidia/lib64"]
    return [folder for pattern in patterns for folder in sorted(glob.glob(pattern)) if glob.glob(f"{folder}/lib*.so*")]


def environment():
    env = dict(os.environ)
    known = [path for path in env.get("LD_LIBRARY_PATH", "").split(":") if path]
    env["LD_LIBRARY_PATH"] = ":".join(known + library_folders())
    return env


def found(word, folder):
    """The program a command means: one of ours, this Python, or one on the PATH or in the CUDA toolkit."""
    if word in ("hone", "hone-cuda-check"):
        return str(folder / word)
    if word == "python":
        return sys.executable
    if word == "compute-sanitizer":
        return shutil.which(word) or "/usr/local/cuda/bin/compute-sanitizer"
    return str(word)


def last_json(text):
    """The JSON object that a program printed, after whatever else it or a tool around it wrote."""
    for at in [i for i, c in enumerate(text) if c == "{" and (i == 0 or text[i - 1] == "\n")]:
        try:
            return json.JSONDecoder().raw_decode(text[at:])[0]
        except json.JSONDecodeError:
            continue
    return None


def run(command, seconds, folder):
    command = [found(word, folder) for word in command]
    start = time.time()
    try:
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        return {"error": str(error)}
    try:
        out, err = process.communicate(timeout=seconds)
        result = last_json(out)
        if result is None:
            result = {"error": "no result", "output": out[-2000:]}
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        result = {"error": f"not finished after {seconds:.0f} s", "output": out[-2000:]}
    if process.returncode != 0 or "error" in result:
        result["stderr"] = err[-3000:]
    summary = [line.strip("= ") for line in (out + err).splitlines() if "ERROR SUMMARY" in line]
    if summary:
        result = {"summary": summary[-1], "laws": result.get("pass"), **({"output": (out + err)[-4000:]} if process.returncode else {})}
    return {"exit": process.returncode, "seconds": round(time.time() - start, 1), **result}


def ratios(parts):
    """Our rate over PyTorch's, wherever both were measured."""
    ours, peer = parts.get("kernels", {}).get("bench", {}), parts.get("torch kernels", {})
    out = {}
    for name, theirs in peer.get("attention", {}).items():
        for way in ("forward", "backward"):
            mine = ours.get("attention", {}).get(name, {}).get(way)
            if mine:
                out[f"attention {way}, {name}"] = theirs[way]["ms"] / mine["ms"]
    for group in ("matmul", "elementwise"):
        for name, theirs in peer.get(group, {}).items():
            mine = ours.get(group, {}).get(name)
            if mine:
                out[f"{group}, {name}"] = theirs["ms"] / mine["ms"]
    for name in ("eager", "compiled"):
        theirs = parts.get(f"torch {name}", {}).get("tokens_per_s")
        for what, mine in (("kernels alone", ours.get("step", {})), ("engine", parts.get("train 0.6b", {}).get("train", {}))):
            if theirs and mine.get("tokens_per_s"):
                out[f"training step of the {what} over {name}"] = mine["tokens_per_s"] / theirs
    return out


def brief(result):
    """One line of a part for the end of the output."""
    words = [f"exit {result.get('exit')}", f"{result.get('seconds')} s"]
    if "pass" in result:
        words.append("passed" if result["pass"] else "FAILED")
    for key in ("error", "summary"):
        if key in result:
            words.append(str(result[key])[:160])
    for name, part in result.items():
        if isinstance(part, dict):
            rates = [f"{key} {part[key]:.6g}" for key in ("tokens_per_s", "peak_gb", "step_s", "learn_s") if isinstance(part.get(key), float)]
            rates += [f"{key} {part[key]}" for key in ("grew", "error") if key in part]
            words += [f"{name}: {', '.join(rates)}"] if rates else []
    if "tokens_per_s" in result:
        words.append(f"tokens_per_s {result['tokens_per_s']:.6g}, peak_gb {result.get('peak_gb', 0):.4g}")
    return "; ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="target/release", type=pathlib.Path, help="folder of hone and hone-cuda-check")
    parser.add_argument("--out", type=pathlib.Path, help="also write the JSON to this file, after every part")
    parser.add_argument("--only", action="append", default=[], help="part to run; all of them otherwise")
    parser.add_argument("--skip", action="append", default=[], help="part to leave out")
    parser.add_argument("--seconds", type=float, default=480, help="seconds for everything")
    parser.add_argument("--list", action="store_true", help="print the parts and their budgets")
    args = parser.parse_args()
    names = [name for name, _, _ in PARTS]
    for name in args.only + args.skip:
        if name not in names:
            parser.error(f"there is no part {name!r}; there are: {', '.join(names)}")
    if args.list:
        print("\n".join(f"{seconds:4} s  {name}" for name, seconds, _ in PARTS))
        return 0
    start, parts = time.time(), {}
    report = {"libraries": library_folders(), "parts": parts}
    for name, seconds, command in PARTS:
        if (args.only and name not in args.only) or name in args.skip:
            continue
        left = args.seconds - (time.time() - start)
        parts[name] = {"error": "no time was left"} if left < 5 else run(command, min(seconds, left), args.bin.resolve())
        print(f"{name}: {brief(parts[name])}", file=sys.stderr, flush=True)
        report["ratios"] = ratios(parts)
        report["seconds"] = round(time.time() - start, 1)
        if args.out:
            args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1) if not args.out else "\n".join(f"{name}: {brief(part)}" for name, part in parts.items()))
    bad = [name for name, part in parts.items() if "error" in part or part.get("pass") is False or part.get("exit")]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
