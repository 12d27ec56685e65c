#!/usr/bin/env python3
"""CUDA C++ to a library of this machine: `translate.py SOURCE OPTION...` prints the library's path.

Functions that hold inline PTX are taken out of the preprocessed source (ptx.h has their meaning), and a table of the kernels is
put behind it. The result is kept by the hash of everything it is made from.
"""

import hashlib
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FUNCTION = re.compile(r"(?:template <[^>]*>\s*)?__device__ __forceinline__ [^;{}]*?(\w+)(?:<\w+>)?\([^{};]*\) \{")
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(([^(),]+)(?:,[^()]*)?\)\s*)?(\w+)\s*\(')
COMPILER = ["g++", "-std=c++20", "-O2", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-fvisibility=hidden", "-w"]


def without_ptx(source):
    """The source without the functions that hold inline PTX, and their names."""
    names, at = set(), 0
    while found := FUNCTION.search(source, at):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            end += 1
        if re.search(r"\basm\b", source[found.start() : end]):
            names.add(found[1])
            # Lines stay where they were, for the compiler's messages.
            source, at = source[: found.start()] + "\n" * source.count("\n", found.start(), end) + source[end:], found.start()
        else:
            at = found.end()
    return source, names


def translate(text, defines):
    """The text as C++ of this machine."""
    done = subprocess.run(["g++", "-E", "-P", "-x", "c++", *defines, "-"], input=text, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    source, names = without_ptx(done.stdout)
    if left := re.search(r"\basm\b", source):
        sys.exit(f"inline PTX outside a function: {source[left.start() - 80 : left.end() + 80]}")
    meanings = (HERE / "ptx.h").read_text()
    if unknown := [name for name in names if not re.search(rf"\b{name}(<\w+>)?\(", meanings)]:
        sys.exit(f"ptx.h has no meaning for {unknown}")
    kernels = [(name, bound or "1024") for bound, name in KERNEL.findall(source)]
    source = re.sub(r"__global__|__launch_bounds__\([^)]*\)", "", source).replace("extern __shared__", "extern")
    # The dynamic shared memory is declared where it is used, under the name block.h gives it.
    source = re.sub(r"extern __align__\(\d+\) unsigned char memory\[\];", "", source)
    flags = "".join(f"#define PTX_{name} 1\n" for name in sorted(names))
    source = re.sub(r"(struct bf16 \{[^}]*\};)", r'\1\n#include "ptx.h"\n', source, count=1)
    table = "".join(f"    KERNEL({name}, {bound}),\n" for name, bound in kernels)
    visible = '__attribute__((visibility("default")))'
    return (
        f'#include "device.h"\n{flags}{source}\n'
        f'extern "C" {visible} const Kernel emulated_kernels[] = {{\n{table}}};\n'
        f'extern "C" {visible} const size_t emulated_count = {len(kernels)};\n'
    )


def main():
    text, options = pathlib.Path(sys.argv[1]).read_text(), sys.argv[2:]
    hopper = any(option.endswith("=sm_90a") for option in options)
    defines = ["-D__CUDA_ARCH__=900"] + (["-D__CUDA_ARCH_FEAT_SM90_ALL=1"] if hopper else [])
    source = translate(text, defines)
    runtime = sorted((HERE / "kernels").glob("*.o"))
    digest = hashlib.sha256(repr(COMPILER).encode() + source.encode())
    for file in [HERE / name for name in ("block.h", "device.h", "ptx.h")] + runtime:
        digest.update(file.read_bytes())
    library = HERE / "kernels" / f"{digest.hexdigest()[:20]}.so"
    if not library.exists():
        # Several processes and threads may compile the same kernel at once.
        own = sys.argv[1].rsplit("-", 1)[-1]
        file, temporary = library.with_suffix(f".{own}.cpp"), library.with_suffix(f".{own}")
        file.write_text(source)
        command = [*COMPILER, f"-I{HERE}", "-shared", str(file), *map(str, runtime), "-o", str(temporary)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        temporary.rename(library)
        file.rename(library.with_suffix(".cpp"))
    print(library)


if __name__ == "__main__":
    main()
