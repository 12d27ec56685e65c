#!/usr/bin/env python3
"""Trains recipes over seeds and asks the doctor about every run: one line a run, exit 1 where a finding is an error.

    scripts/healthy_runs.py [--hone target/release/hone] [--jobs 1] [--threads 2] [--part 1/3] [--out DIR] [RECIPE:FIRST-LAST ...]

A run is healthy by construction here: nothing was broken on purpose, so an error-level finding is a false alarm. Without recipes: the
quickstart and both ticket desks, 20 runs in all. `RECIPE` may be followed by `,KEY=VALUE` pairs: quickstart,train.steps=50:1-3.
`--part 2/3` makes the second third of the list, longest runs spread over the parts. A run that lies in DIR and is done is not made
again, only asked about; one that was stopped goes on. Needs Python and the binary, nothing else.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

DEFAULT = ["quickstart:1-8", "triage-searcher:1-6", "triage-reader:1-6"]


def jobs(given):
    for one in given:
        recipe, _, seeds = one.rpartition(":")
        first, _, last = seeds.partition("-")
        name, *settings = recipe.split(",")
        yield from ((name, seed, settings) for seed in range(int(first), int(last or first) + 1))


def part(of, todo):
    """Every n-th job, so that each part has some of every recipe."""
    number, _, count = of.partition("/")
    return todo[int(number) - 1 :: int(count)]


def done_before(directory):
    """The result of a run that lies there and reached its end; None where there is none."""
    if not (directory / "report.json").is_file():
        return None
    report = json.loads((directory / "report.json").read_text())
    return {"report": report["name"]} if report["steps"] >= report["planned"] and report.get("after") else None


def run(hone, out, threads, limit, job):
    recipe, seed, settings = job
    name = "-".join([pathlib.Path(recipe).stem, *(s.replace("=", "") for s in settings), str(seed)])
    directory = out / name
    sets = [f"seed={seed}", f"policy.threads={threads}", *settings]
    command = [hone, "train", recipe, "--run", str(directory), "--json", "--samples", "0"]
    command += [word for setting in sets for word in ("--set", setting)]
    began = time.monotonic()
    result = done_before(directory)
    if directory.exists() and result is None:
        command = [hone, "train", "--resume", str(directory), "--json", "--samples", "0"]
    try:
        if result is None:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"run": name, "error": f"not done after {limit} s"}
    seconds = round(time.monotonic() - began, 1)
    if result is None:
        if done.returncode:
            return {"run": name, "seconds": seconds, "error": done.stderr[-2000:]}
        result = json.loads(done.stdout.splitlines()[-1])
    doctor = subprocess.run([hone, "doctor", str(directory), "--json"], stdout=subprocess.PIPE, text=True, timeout=limit)
    told = json.loads(doctor.stdout)
    return {
        "run": name,
        "seconds": seconds,
        "result": result,
        "findings": [{key: f[key] for key in ("check", "severity", "says", "lines")} for f in told["findings"]],
        "healthy": len(told["healthy"]),
        "skipped": len(told["skipped"]),
    }


def line(one):
    if "error" in one:
        return f"{one['run']:32} {one['error']}"
    found = ", ".join(f"{f['severity']} {f['check']}" for f in one["findings"]) or "nothing wrong"
    return f"{one['run']:32} {one['seconds']:7.1f} s  {one['healthy']} checks healthy, {one['skipped']} skipped: {found}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--hone", default=os.environ.get("HONE", f"{target}/release/hone"))
    parser.add_argument("--jobs", type=int, default=1, help="runs at one time")
    parser.add_argument("--threads", type=int, default=2, help="threads of a run")
    parser.add_argument("--part", default="1/1", help="this part of the list: 1/3, 2/3, 3/3")
    parser.add_argument("--limit", type=int, default=3600, help="seconds a run may take")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/healthy"))
    parser.add_argument("--json", type=pathlib.Path, help="write every result here, too")
    parser.add_argument("recipes", nargs="*", default=DEFAULT)
    options = parser.parse_args()
    hone = str(pathlib.Path(options.hone).resolve())
    options.out.mkdir(parents=True, exist_ok=True)
    results, began = [], time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        todo = [pool.submit(run, hone, options.out, options.threads, options.limit, job) for job in part(options.part, list(jobs(options.recipes)))]
        for done in concurrent.futures.as_completed(todo):
            results.append(done.result())
            print(line(results[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    bad = [r for r in results if "error" in r or any(f["severity"] == "error" for f in r["findings"])]
    print(f"{len(results)} runs, {len(bad)} with an error or an error-level finding, {time.monotonic() - began:.0f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
