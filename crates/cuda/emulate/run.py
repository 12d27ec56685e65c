#!/usr/bin/env python3
"""Kernels on the CPU: compiles kernels/*.cu with a C++ compiler and checks them against plain loops. Needs g++, no GPU.

Threads of a block are fibers; functions that hold inline PTX are taken out and replaced by their meaning (emulate.cpp). The
asynchronous ones run twice: as early as they may (when issued) and as late (when waited for), with the accumulators in
flight poisoned, so that a missing wait, a missing barrier or a tile overwritten too soon gives a wrong result. Covers
indexing and synchronisation; timing, memory fences and the device's own rounding it cannot.

    crates/cuda/emulate/run.py [attention_hopper | attention | attention_f32 | decode | rope | rms_norm | adamw | head |
                             sample | heads | draw | decode_f32]...
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE.parent / "src" / "kernels"
TILES = dict(KV_WARPS=8, KV_QUERIES=64, Q_WARPS=8, Q_KEYS=64, FORWARD_WARPS=8)
# Headers a kernel is compiled behind, as compile.rs puts them.
HEADERS = dict(attention=["attention.cuh"], attention_hopper=["attention.cuh", "wgmma.cuh", "tma.cuh"])


def without_ptx(source):
    """The source without the functions that hold inline PTX, and their names."""
    names = []
    pattern = re.compile(r"(?:template <[^>]*>\s*)?__device__ __forceinline__ [^;{}]*?(\w+)(?:<\w+>)?\([^{};]*\) \{")
    at = 0
    while found := pattern.search(source, at):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            end += 1
        if re.search(r"\basm\b", source[found.start():end]):
            names.append(found[1])
            source, at = source[: found.start()] + source[end:], found.start()
        else:
            at = found.end()
    return source, names


def build(folder, name, kernel, defines):
    files = ["prelude.cuh", *HEADERS.get(kernel, []), f"{kernel}.cu"]
    source = "".join((KERNELS / file).read_text() for file in files)
    source, names = without_ptx(source)
    # The meanings go where the first type they need is known.
    source = source.replace("struct bf16 {\n    u16 bits;\n};", "struct bf16 {\n    u16 bits;\n};\n#include \"ptx.inc\"\n", 1)
    unknown = set(names) - set(re.findall(r"// PTX: (.*)", (HERE / "ptx.inc").read_text())[0].split())
    if unknown:
        sys.exit(f"{kernel}.cu: no meaning in ptx.inc for {sorted(unknown)}")
    (folder / "kernel.inc").write_text(source.replace("#pragma unroll\n", "").replace("extern __shared__", "extern"))
    binary = folder / name
    flags = [f"-D{key}={value}" for key, value in defines.items()]
    command = ["g++", "-O1", "-std=c++17", "-w", f"-I{folder}", f"-I{HERE}", f"-DKERNEL_{kernel}", *flags]
    subprocess.run([*command, str(HERE / "emulate.cpp"), "-o", str(binary)], check=True)
    return binary


def main():
    failed, only = 0, sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, kernel, defines in [
            ("attention_hopper", "attention_hopper", dict(TILES, FORWARD_KEYS=128, __CUDA_ARCH_FEAT_SM90_ALL=1)),
            ("attention", "attention", dict(TILES, FORWARD_KEYS=64)),
            ("attention_f32", "attention_f32", dict(TILES, FORWARD_KEYS=64)),
            ("decode", "decode", {}),
            ("rope", "rope", {}),
            ("rms_norm", "rms_norm", {}),
            ("adamw", "adamw", {}),
            ("head", "head", {}),
            ("sample", "sample", {}),
            ("heads", "heads", {}),
            ("draw", "draw", {}),
            ("decode_f32", "decode_f32", {}),
        ]:
            if only and name not in only:
                continue
            binary = build(folder, name, kernel, defines)
            for late in ("0", "1"):
                done = subprocess.run([str(binary), late], stdout=subprocess.PIPE, text=True, check=False)
                print(f"{name}, asynchronous work {'late' if late == '1' else 'early'}\n{done.stdout}", end="", flush=True)
                failed += done.returncode != 0
    print("FAILED" if failed else "all right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
