#!/usr/bin/env python3
"""A task set of a million lines through `hone data stats` and `hone data split`: seconds, and the most memory either held.
Exit code 0: both stayed under 1 GiB resident and every task is on one side.

    scripts/million_tasks.py [HONE] [TASKS]        # default: target/release/hone 1000000
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
HONE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else HERE / "../target/release/hone")
TASKS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
LIMIT = 1 << 20  # KiB
WORDS = [a + b for a in "ba do fi ge hu jo ka le mi no pu ra so ti ve wa xi yo zu".split() for b in "ran lek mos tir vun".split()]


def write(path):
    """Prompts of 30 words, one in a hundred a near-duplicate of the line before."""
    rng, words = random.Random(7), []
    with open(path, "w") as file:
        for at in range(TASKS):
            if at % 100 != 99:
                words = rng.choices(WORDS, k=30)
            else:
                words = [*words[:15], "again", *words[16:]]
            env = f"app-{at % 12}"
            file.write(json.dumps({"key": f"{env}-{at}", "env_id": env, "prompt": " ".join(words), "difficulty": at % 3 + 1,
                                   "env_variables": {"CURRENT_DATE": "2026-01-01"}}) + "\n")


def measured(name, *arguments):
    """Seconds, and the peak resident memory of this child alone."""
    clock = time.monotonic()
    child = subprocess.Popen([HONE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    seconds, mib = time.monotonic() - clock, used.ru_maxrss / 1024
    print(f"hone data {name}: {TASKS:,} tasks in {seconds:.1f} s ({TASKS / seconds:,.0f} a second), {mib:.0f} MiB resident at most",
          flush=True)
    if status or used.ru_maxrss >= LIMIT:
        sys.exit(f"FAIL hone data {name}: status {status}, {mib:.0f} MiB\n{said[-2000:]}")
    return said


def main():
    with tempfile.TemporaryDirectory() as directory:
        tasks, out = pathlib.Path(directory, "tasks.jsonl"), pathlib.Path(directory, "set")
        write(tasks)
        print(f"{tasks.stat().st_size / 2**20:.0f} MiB of JSON lines")
        stats = json.loads(measured("stats", "data", "stats", tasks, "--json"))
        assert stats["stats"]["all"]["total"] == TASKS, stats
        measured("split", "data", "split", tasks, "--out", out, "--eval", "0.1", "--hold-out", "app-3")
        sides = {name: sum(1 for _ in open(out / f"{name}.jsonl")) for name in ("train", "eval", "unused") if (out / f"{name}.jsonl").exists()}
        print("lines of each side:", sides)
        assert sum(sides.values()) == TASKS, sides
        assert TASKS // 6 < sides["eval"] < TASKS // 5, "a twelfth held out whole, and a tenth of the rest"


if __name__ == "__main__":
    main()
