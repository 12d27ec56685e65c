#!/usr/bin/env python3
"""Kills `hone train` with SIGKILL at random moments, resumes it, and compares with a run that was never stopped.

    cargo build --release && scripts/crash_resume.py --kills 50
    scripts/crash_resume.py --kills 20 --staleness 2        # asynchronous: the same episodes, each trained once

A tiny model is made on the spot, so that a run takes seconds. Synchronous runs must agree in every metric but the wall
clock's, in every trace and in the last checkpoint's tensors, to the bit. In asynchronous runs the moment of a weight
update decides what is sampled, so there the episodes (task, replica, seed) must be the same, each exactly once, and no
staleness over the bound. Needs only Python; to compare traces it also needs `zstd` or the module zstandard.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = """
name = "crash"
seed = 7
[policy]
model = "{model}"
[env]
tasks = 24
held_out = 4
[sampling]
max_new_tokens = 48
[rollout]
window = 2048
max_turns = 3
[[rubric.component]]
kind = "tau_state"
[[rubric.component]]
kind = "length_cost"
max = 144
[plan]
zero_variance = "{zero_variance}"
rounds = 1
[train]
steps = {steps}
groups = 4
group_size = 4
mini_batch = 8
learning_rate = 1e-3
[eval]
tasks = 4
every = 3
[checkpoint]
every = {every}
[async]
staleness = {staleness}
"""


def decompress(path: Path) -> bytes:
    if shutil.which("zstd"):
        return subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout
    import zstandard

    with open(path, "rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()


def traces(run: Path) -> list:
    found = []
    for segment in sorted((run / "traces").glob("*.jsonl.zst")):
        for line in decompress(segment).splitlines():
            trace = json.loads(line)
            for turn in trace["turns"]:
                turn.pop("timings", None)
            found.append(trace)
    return found


def metrics(run: Path) -> list:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("timing/")} for line in lines]


def tensors(run: Path) -> dict:
    newest = max((run / "checkpoints").glob("step-*"))
    found = {}
    for file in newest.glob("*.safetensors"):
        data = file.read_bytes()
        header = int.from_bytes(data[:8], "little")
        found[file.name] = data[8 + header :]
    return found


def trained(run: Path, everything: list) -> list:
    """(task, replica, seed) of every episode that a step recorded, in order."""
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    spans = [event["traces"] for event in events if event["event"] == "step"]
    return [(t["task"], t["replica"], t["seed"]) for start, end in spans for t in everything[start:end]]


def compare(whole: Path, stopped: Path, staleness: int, have_zstd: bool) -> None:
    a, b = metrics(whole), metrics(stopped)
    assert [line["step"] for line in b] == list(range(1, len(a) + 1)), "every step once"
    if staleness == 0:
        assert a == b, "metrics differ"
        assert tensors(whole) == tensors(stopped), "the last checkpoints differ"
    else:
        worst = max(line["async/staleness_max"] for line in b)
        assert worst <= staleness, f"staleness {worst} is over the bound {staleness}"
    if have_zstd:
        x, y = traces(whole), traces(stopped)
        if staleness == 0:
            assert x == y, "traces differ"
        episodes = trained(stopped, y)
        assert len(episodes) == len(set(episodes)), "an episode was trained twice"
        assert trained(whole, x) == episodes, "other episodes were trained"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default="target/release/hone", help="the binary")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--every", type=int, default=0, help="checkpoint.every; 0: after every step")
    parser.add_argument("--staleness", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    hone = str(Path(args.hone).resolve())
    try:
        have_zstd = bool(shutil.which("zstd")) or bool(__import__("zstandard"))
    except ImportError:
        have_zstd = False
        print("no zstd here: metrics and checkpoints are compared, traces are not", file=sys.stderr)

    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        shape = "--hidden 32 --layers 2 --heads 2 --kv-heads 1 --head-dim 16 --mlp 64 --vocab 512 --tied".split()
        subprocess.run([hone, "model", "new", str(root / "model"), *shape], check=True, capture_output=True)
        recipe = root / "recipe.toml"
        recipe.write_text(
            RECIPE.format(
                model=root / "model",
                steps=args.steps,
                every=args.every,
                staleness=args.staleness,
                # Which groups are replaced depends on what was sampled, which in asynchronous runs depends on time.
                zero_variance="keep" if args.staleness else "replace",
            )
        )
        log = open(root / "log", "w")

        def start(run: Path) -> subprocess.Popen:
            resumes = (run / "recipe.toml").exists()
            how = ["--resume", str(run)] if resumes else [str(recipe), "--run", str(run)]
            return subprocess.Popen([hone, "train", *how], stdout=log, stderr=log)

        whole = root / "whole"
        clock = time.time()
        assert start(whole).wait() == 0, (root / "log").read_text()[-2000:]
        length = time.time() - clock
        print(f"an uninterrupted run takes {length:.1f} s")

        kills, runs = 0, 0
        while kills < args.kills:
            run = root / f"stopped-{runs}"
            runs += 1
            here = 0
            while True:
                process = start(run)
                # Once a run has been killed often enough it may finish.
                delay = rng.uniform(0.0, 0.6 * length) if kills < args.kills else 100 * length
                try:
                    code = process.wait(timeout=delay)
                    assert code == 0, (root / "log").read_text()[-2000:]
                    break
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    kills += 1
                    here += 1
            compare(whole, run, args.staleness, have_zstd)
            print(f"run {runs}: killed {here} times, the same as the uninterrupted one ({kills} kills in all)")
            shutil.rmtree(run)
    print(f"{kills} kills, {runs} runs, every one as if it had not been killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
