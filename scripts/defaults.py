#!/usr/bin/env python3
"""Trains small policies with the default `[train]` settings in five environments, three seeds each, and asks whether any of them is
worse on held-out tasks than its start: by more than noise, that is with the whole 95 % interval of the paired difference under 0.

    scripts/defaults.py [--hone target/release/hone] [--only shop,searcher] [--seeds 1,2,3] [--jobs 1] [--threads 2] [--out DIR] [--json FILE]

The environments: the garden of `hone init` and the number game of docs/examples (guess), whose policies `hone sft` makes here; the shop
and the two ticket desks (reader, searcher), from the policies inside the binary. Nothing under `[train]` is set but what --set says.
`--jobs` runs go side by side, `--threads` cores each. Asked again with the same --out it goes on: runs that ended are not run again.
Needs this file, the binary and Python 3; guess also needs docs/examples/guess_env.py where the checkout has it.
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
BUILT_IN = {"shop": "quickstart", "reader": "triage-reader", "searcher": "triage-searcher"}
ENVIRONMENTS = ["garden", "guess", *BUILT_IN]
LIMIT = 3 * 3600  # seconds for one command, on a machine that is busy

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
    home.mkdir(parents=True, exist_ok=True)
    run = lambda *command: subprocess.run([hone, *command], cwd=home, check=True, capture_output=True, text=True, timeout=LIMIT)
    ready = home / "recipe.toml"
    if ready.exists() and (name in BUILT_IN or (home / "policy/model.safetensors").exists()):
        return home
    if name in BUILT_IN:
        text = run("recipe", "show", BUILT_IN[name]).stdout
    elif name == "garden":
        if not ready.exists():
            run("init", ".")
        text = ready.read_text()
    else:
        keys = [f"{name}-{number}" for number in range(600)]
        task = lambda key: {"key": key, "env": name, "prompt": "Find the number between 1 and 100.", "reference": halves(key)}
        (home / "tasks.jsonl").write_text("".join(json.dumps(task(key)) + "\n" for key in keys))
        text = GUESS.format(script=ROOT / "docs/examples/guess_env.py")
    ready.write_text(without_train(text))
    if name not in BUILT_IN:
        run("sft", "recipe.toml", "--out", "policy", "--set", f"policy.threads={threads}")
    return home


def train(hone, home, threads, sets, seed):
    """A row about the run of a seed, which is made, or continued, where it has not ended yet."""
    began, run = time.monotonic(), home / f"run-{seed}"
    given = [word for pair in [f"seed={seed}", f"policy.threads={threads}", *sets] for word in ("--set", pair)]
    command = ["train", "recipe.toml", "--run", run.name, "--samples", "0", *given]
    if (run / "recipe.toml").exists():
        command = ["train", "--resume", run.name, "--samples", "0"]
    done = subprocess.run([hone, *command], cwd=home, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        return {"environment": home.name, "seed": seed, "error": done.stderr[-1500:]}
    report = json.loads((run / "report.json").read_text())
    judged = report["held_out"]["judgement"]
    if judged is None:
        return {"environment": home.name, "seed": seed, "error": "no verdict: eval.controls must stay on"}
    row = {"environment": home.name, "seed": seed, "seconds": round(time.monotonic() - began, 1), "verdict": judged["verdict"]}
    row |= {key: judged[key] for key in ("greedy", "sampled")}
    return row | {"before": report["before"]["success"], "after": report["after"]["success"]}


def worse(row):
    return "error" in row or any(row[kind] and row[kind]["ci"][1] < 0 for kind in ("greedy", "sampled"))


def listed(of):
    """Reads a list with commas."""
    return lambda text: [of(word) for word in text.split(",") if word]


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
    parser.add_argument("--only", type=listed(str), default=ENVIRONMENTS, metavar="NAME,…", help=", ".join(ENVIRONMENTS))
    parser.add_argument("--seeds", type=listed(int), default=[1, 2, 3], metavar="SEED,…")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/defaults"))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    unknown = sorted(set(options.only) - set(ENVIRONMENTS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(ENVIRONMENTS)}")
    hone, out, rows = str(pathlib.Path(options.hone).resolve()), options.out.resolve(), []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        homes = {pool.submit(prepare, hone, out, options.threads, name) for name in options.only}
        runs = set()
        while homes or runs:
            done, _ = concurrent.futures.wait(homes | runs, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in done & homes:
                runs |= {pool.submit(train, hone, one.result(), options.threads, options.set, seed) for seed in options.seeds}
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
