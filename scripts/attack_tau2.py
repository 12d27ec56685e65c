#!/usr/bin/env python3
"""Random and hostile tool calls through tau2-bench's own Python and through `hone replay`: answers and states must agree.

Worlds are those of record_tau.py and record_telecom.py. Arguments are sensible ones with numbers as strings in every
spelling, wide integers, odd types at any depth, and fields that are missing, misspelt or too many. Texts that are no
Unicode (lone surrogates) and lists deeper than Hone reads are left out: those lines fail alone, by design.

    git clone https://github.com/sierra-research/tau2-bench && git -C tau2-bench checkout a2c0247
    python3.11 scripts/attack_tau2.py --tau2 tau2-bench --hone target/release/hone --seed 1 --calls 3000

Needs pydantic 2.12 and addict. Ends with 1 where a call differs.
"""

import argparse
import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import record_tau
import record_telecom

NUMBERS = (
    "152.0 1_000 1__0 _1 1_ 1_0.0 1_0.5 0x10 007 -0 +5 1e3 1E3 1e400 -1e400 nan NaN inf -inf Infinity infinity 1. .5 -.5 - + "
    "--1 5.00 5.0000000001 99999999999999999999 99999999999999999999.0 9007199254740993.0 1e5_0 1_0e1 1.0_0 1._0 1_.0 0_0 00 "
    "-00 +0.0 true True yes on off no y n t f None null 0.0 -0.0 2_0_0.0 1,000 1e-400 4.0e0 1e+2 18446744073709551616 "
    "9223372036854775808 -9223372036854775809 9223372036854775808.0 \u0665 \uff11\uff12 \u00b2 \u00bd \u2167 \u0663.\u0660"
).split()
NUMBERS += ["", "  ", " 5 ", "\t5\n", "5\u00a0", "5\u2003", "\u200b5", "5\x00", "+ 5", "1 0", "1" * 400, "9" * 4301]
VALUES = [None, True, False, 0, 1, -1, 1.0, 2.5, -0.0, 1e16, 1e300, 2**63, -(2**63), 2**64, 10**30, 10**400, 1e-7]
VALUES += [float("nan"), float("inf"), -float("inf"), "x", "é'\"", "😀", "'", '"', "\\", "\n\t", "\x00\x1b[31m\x7f", "\u2028\x85"]
VALUES += ["x" * 50, "x" * 51, "é" * 60, "😀" * 49, "a'\"" * 30, [], ["x"], [None], {}, {"a": 1}, [{}], [["x"]], {"é": "ü"}]
VALUES += [{"a": {"b": [1, "x", None, True, 2.5, 1e22]}}, list(range(20)), {str(i): i for i in range(40)}]
FIELDS = ["extra", "self", "price", "dob", "amount", "limit", "data", "tool_name", "requestor", "é"]


def value(rng):
    return rng.choice(NUMBERS) if rng.random() < 0.5 else copy.deepcopy(rng.choice(VALUES))


def places(it):
    """Every container inside with each of its keys."""
    keys = list(it) if isinstance(it, dict) else range(len(it)) if isinstance(it, list) else ()
    for key in keys:
        yield it, key
        yield from places(it[key])


def spelt(rng, number):
    if abs(number) > 1e300:
        return str(number)
    ways = [str(number), f"{number}.0", f" {number} ", f"+{number}", float(number), f"{number}e0", f"0{number}", f"{number}_0"]
    return rng.choice(ways + [f"{float(number):.3f}"])


def mutated(rng, arguments):
    arguments = copy.deepcopy(arguments)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        found = list(places(arguments))
        if not found:
            arguments[rng.choice(FIELDS)] = value(rng)
            continue
        (inside, key), way = rng.choice(found), rng.random()
        now = inside[key]
        if way < 0.65:
            number = isinstance(now, (int, float)) and not isinstance(now, bool) and rng.random() < 0.6
            inside[key] = spelt(rng, now) if number else value(rng)
        elif way < 0.75:
            del inside[key]
        elif isinstance(inside, list):
            inside.insert(rng.randrange(len(inside) + 1), value(rng))
        elif way < 0.9:
            inside[rng.choice(FIELDS)] = value(rng)
        else:
            inside[f"{key}s"] = inside.pop(key)
    return arguments


def shop(kind, seed, folder):
    """Retail or airline: files, a fresh environment, and a draw of a call."""
    world = json.loads(json.dumps(getattr(record_tau, kind)(random.Random(seed))))
    stored = copy.deepcopy(world)
    for key, user in stored["users"].items():
        user["user_id"] = key
    (folder / "db.json").write_text(json.dumps(stored))

    def fresh():
        call, state = record_tau.tau2_env(kind, world)
        draw = getattr(record_tau, f"{kind}_call")
        return lambda rng: ("assistant", *draw(rng, world)), lambda by, *it: call(*it), lambda: {"state_sha256": state()}

    return fresh


def telecom(seed, folder):
    db, phone = record_telecom.telecom(random.Random(seed))
    (folder / "db.toml").write_text(record_telecom.toml(db))
    (folder / "user_db.toml").write_text(record_telecom.toml(phone))

    def fresh():
        env = record_telecom.environment(db, phone)

        def draw(rng):
            by = rng.choice(["assistant", "user"])
            return by, *(record_telecom.draw_agent(rng, db) if by == "assistant" else record_telecom.draw_user(rng, env))

        state = lambda: {"state_sha256": env.get_db_hash(), "user_state_sha256": env.get_user_db_hash()}
        return draw, lambda by, *it: record_telecom.call(env, by, *it), state

    return fresh


def attack(kind, args):
    rng = random.Random(args.seed * 7 + len(kind))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fresh = telecom(args.seed, folder) if kind == "telecom" else shop(kind, args.seed, folder)
        lines, expected = [], []
        while len(expected) < args.calls:
            draw, call, state = fresh()
            lines.append({"reset": True})
            for _ in range(rng.choice([1, 2, 4, 8])):
                by, tool, arguments = draw(rng)
                arguments = mutated(rng, arguments) if rng.random() < 0.7 else arguments
                lines.append({"requestor": by, "name": tool, "kwargs": copy.deepcopy(arguments)})
                expected.append({"observation": call(by, tool, copy.deepcopy(arguments)), **state()})
        (folder / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [args.hone, "replay", "--domain", kind, "--profile", "tau2", "--data", name, str(folder / "calls.jsonl")]
        done = subprocess.run(command, capture_output=True, check=True, timeout=1800)
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    calls = [line for line in lines if "name" in line]
    differ = [at for at, want in enumerate(expected) if any(answers[at].get(key) != said for key, said in want.items())]
    for at in differ[:10]:
        print(f"{json.dumps(calls[at])[:400]}\n  tau2 {expected[at]['observation']!r:.400}\n  hone {answers[at]['observation']!r:.400}")
    refused = sum(str(want["observation"]).startswith("Error") for want in expected)
    print(f"{kind}: {len(expected)} calls, {refused} refused, {len(differ)} differ")
    return len(differ) + abs(len(answers) - len(expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tau2", type=pathlib.Path, required=True)
    parser.add_argument("--hone", default="target/release/hone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=3000)
    args = parser.parse_args()
    sys.meta_path.append(record_tau.Stubs())
    record_tau.package("tau2", args.tau2 / "src/tau2")
    import loguru

    loguru.logger.remove()
    sys.exit(1 if sum([attack(kind, args) for kind in ("retail", "airline", "telecom")]) else 0)


if __name__ == "__main__":
    main()
