#!/usr/bin/env python3
"""Trains small policies with the default `[train]` settings in five environments, three seeds each, and asks whether any of them is
worse on held-out tasks than its start: by more than noise, that is with the whole 95 % interval of the paired difference under 0.

    scripts/defaults.py [--hone target/release/hone] [--jobs 1] [--threads 2] [--out DIR] [--seeds 3] [--json FILE]

The environments: the garden of `hone init` and the number game of docs/examples, whose policies `hone sft` makes here; the shop and the
two ticket desks, from the policies inside the binary. Nothing under `[train]` is set but what --set says.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT_IN = {"shop": "quickstart", "triage-reader": "triage-reader", "triage-searcher": "triage-searcher"}

GUESS = """name = "guess"
[env]
name = "guess"
command = ["python3", "{script}"]
task_file = "tasks.jsonl"
held_out = 64
[policy]
model = "policy"
[policy.fresh]
vocabulary = 320
layers = 3
hidden = 128
json_tokens = true
[sampling]
max_new_tokens = 32
[rollout]
window = 512
max_turns = 8
malformed = "end"
[[rubric.component]]
kind = "correct"
otherwise = 0
[sft]
steps = 300
batch = 32
stop_at = 0.4
[eval]
tasks = 64
[doctor]
waive = {{ held_out_overlap = "600 tasks have 100 numbers between them; how to search is learned, not a number" }}
"""


def without_train(text):
    """The recipe without its `[train]` table."""
    return re.sub(r"^\[train\]\n(?:(?!\[).*\n)*", "", text, flags=re.MULTILINE)


def halves(key):
    """The calls that find the number of a task: half of what is left, again and again."""
    secret, low, high, calls = random.Random(key).randint(1, 100), 1, 100, []
    while True:
        n = (low + high) // 2
        calls.append({"name": "guess", "arguments": {"n": n}})
        if n == secret:
            return calls
        low, high = (n + 1, high) if n < secret else (low, n - 1)


def prepare(hone, out, threads, name):
    """Directory with a recipe that has no `[train]`, and its policy where the binary has none."""
    home = out / name
    home.mkdir(parents=True)
    run = lambda *command: subprocess.run([hone, *command], cwd=home, check=True, capture_output=True, text=True, timeout=3600)
    if name in BUILT_IN:
        text = (ROOT / "recipes" / f"{BUILT_IN[name]}.toml").read_text()
    elif name == "garden":
        run("init", ".")
        text = (home / "recipe.toml").read_text()
    else:
        keys = [f"{name}-{number}" for number in range(600)]
        task = lambda key: {"key": key, "env": name, "prompt": "Find the number between 1 and 100.", "reference": halves(key)}
        (home / "tasks.jsonl").write_text("".join(json.dumps(task(key)) + "\n" for key in keys))
        text = GUESS.format(script=ROOT / "docs/examples/guess_env.py")
    (home / "recipe.toml").write_text(without_train(text))
    if name not in BUILT_IN:
        run("sft", "recipe.toml", "--out", "policy", "--set", f"policy.threads={threads}")
    return home


def train(hone, home, threads, sets, seed):
    began = time.monotonic()
    given = [word for pair in [f"seed={seed}", f"policy.threads={threads}", *sets] for word in ("--set", pair)]
    command = [hone, "train", "recipe.toml", "--run", f"run-{seed}", "--json", "--samples", "0", *given]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=3600)
    if done.returncode:
        return {"environment": home.name, "seed": seed, "error": done.stderr[-1500:]}
    report = json.loads((home / f"run-{seed}" / "report.json").read_text())
    judged = report["held_out"]["judgement"]
    row = {"environment": home.name, "seed": seed, "seconds": round(time.monotonic() - began, 1), "verdict": judged["verdict"]}
    row |= {key: judged[key] for key in ("greedy", "sampled")}
    return row | {"before": report["before"]["success"], "after": report["after"]["success"]}


def worse(row):
    return "error" in row or any(row[kind] and row[kind]["ci"][1] < 0 for kind in ("greedy", "sampled"))


def line(row):
    if "error" in row:
        return f"{row['environment']:16} seed {row['seed']}: {row['error']}"
    low, high = row["sampled"]["ci"]
    said = f"{row['before']:.3f} -> {row['after']:.3f}, difference {row['sampled']['mean']:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"{row['environment']:16} seed {row['seed']}: {said}, {row['verdict']}, {row['seconds']} s{'  WORSE' if worse(row) else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--hone", default=os.environ.get("HONE", f"{target}/release/hone"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/defaults"))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("environments", nargs="*", default=["garden", "guess", *BUILT_IN])
    options = parser.parse_args()
    hone, out, rows = str(pathlib.Path(options.hone).resolve()), options.out.resolve(), []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        homes = {pool.submit(prepare, hone, out, options.threads, name) for name in options.environments}
        runs = set()
        while homes or runs:
            done, _ = concurrent.futures.wait(homes | runs, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in done & homes:
                seeds = range(1, options.seeds + 1)
                runs |= {pool.submit(train, hone, one.result(), options.threads, options.set, seed) for seed in seeds}
            for one in done & runs:
                rows.append(one.result())
                print(line(rows[-1]), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1))
            homes, runs = homes - done, runs - done
    bad = [row for row in rows if worse(row)]
    print(f"{len(rows)} runs, {len(bad)} worse than their start")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
