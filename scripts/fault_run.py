#!/usr/bin/env python3
"""A run among faults: an environment and a judge that misbehave at random, and the books of the run afterwards.

    cargo build --release && scripts/fault_run.py
    scripts/fault_run.py --steps 4        # a short one

The environment (scripts/hostile_env.py) knows 49 ways to misbehave, the judge below 33. Honest answers of the environment
never call an episode right, and honest scores of the judge are 0.5: any other mean is an invented reward. Held:
the run ends by itself; no process of it is left; no reward is invented; sampled tokens are all accounted for; Hone's
resident memory stays under 1 GiB. Needs only Python.
"""

import argparse
import collections
import http.server
import json
import os
import pathlib
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPE = """
name = "faults"
seed = 11
credit = "grpo"
loss = "dapo"
[policy]
model = "{root}/crates/hone/policies/shop"
[env]
name = "hostile"
command = ["{python}", "{root}/scripts/hostile_env.py"]
workers = 4
deadline_s = 1.0
start_deadline_s = 10.0
variables = ["HONE_FAULT_MARK", "HONE_FAULT_LOG"]
prompt = "I am \\"Dorn\\". Please cancel my order of the \\"lamp\\"."
tasks = 512
held_out = 16
[sampling]
temperature = 1.0
max_new_tokens = 48
[rollout]
window = 2048
max_turns = 4
attempts = 2
[[rubric.component]]
kind = "correct"
[[rubric.component]]
kind = "parse_penalty"
[[rubric.component]]
kind = "judge"
url = "http://127.0.0.1:{port}/v1"
model = "judge"
criteria = "Is the answer polite?"
deadline_s = 2.0
retries = 1
[train]
steps = {steps}
groups = 16
group_size = 8
learning_rate = 1e-5
patience = 1000
[eval]
tasks = 16
controls = false
success = "correct"
[doctor]
waive = {{ script_faults = "it misbehaves at random", environment_opens = "it misbehaves at random" }}
"""


def completion(content):
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()


def score(value, **more):
    return completion(json.dumps({"reason": "polite", "score": value, **more}))


class Judge(http.server.BaseHTTPRequestHandler):
    """Two answers in three are honest: 0.5."""

    protocol_version = "HTTP/1.1"
    seen = collections.Counter()
    rng = random.Random(3)

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, kind="application/json", length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def drop(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def drip(self):
        body = score(0.5)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for byte in body:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.1)

    WAYS = {
        "500": lambda self: self.answer(b"oops", 500),
        "503": lambda self: self.answer(b"later", 503, Retry_After="1"),
        "503 for an hour": lambda self: self.answer(b"later", 503, Retry_After="3600"),
        "429": lambda self: self.answer(b"slow down", 429),
        "401": lambda self: self.answer(b'{"error": "no key"}', 401),
        "404": lambda self: self.answer(b"", 404),
        "302 in a circle": lambda self: self.answer(b"", 302, Location=self.path),
        "302 to a file": lambda self: self.answer(b"", 302, Location="file:///etc/passwd"),
        "204": lambda self: self.answer(b"", 204),
        "silence": lambda self: time.sleep(3),
        "dropped": lambda self: self.drop(),
        "half a body": lambda self: (self.answer(score(0.5)[:20], length=9999), self.drop()),
        "drip": lambda self: self.drip(),
        "garbage": lambda self: self.wfile.write(b"\x00\x16\x03\x01 not http\r\n\r\n"),
        "html": lambda self: self.answer(b"<html>Bad gateway</html>", kind="text/html"),
        "not JSON": lambda self: self.answer(b"{"),
        "null": lambda self: self.answer(b"null"),
        "no choices": lambda self: self.answer(b'{"choices": []}'),
        "content is null": lambda self: self.answer(completion(None)),
        "content is empty": lambda self: self.answer(completion("")),
        "prose": lambda self: self.answer(completion("It was very polite, I would say 9 of 10.")),
        "score as text": lambda self: self.answer(score("0.9")),
        "score missing": lambda self: self.answer(completion('{"reason": "polite"}')),
        "score null": lambda self: self.answer(score(None)),
        "score NaN": lambda self: self.answer(completion('{"reason": "x", "score": NaN}')),
        "score 1e308": lambda self: self.answer(score(1e308)),
        "score -4": lambda self: self.answer(score(-4)),
        "score 7": lambda self: self.answer(score(7)),
        "score true": lambda self: self.answer(score(True)),
        "score a list": lambda self: self.answer(score([0.5])),
        "50 MB": lambda self: self.answer(completion("x" * 50_000_000)),
        "nested too deep": lambda self: self.answer(b"[" * 100_000),
        "refusal": lambda self: self.answer(json.dumps({"choices": [{"message": {"refusal": "no"}}]}).encode()),
    }

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = self.rng.choice(list(self.WAYS)) if self.rng.random() < 1 / 3 else "honest"
        self.seen[name] += 1
        try:
            self.answer(score(0.5)) if name == "honest" else self.WAYS[name](self)
        except OSError:
            self.close_connection = True


def left_running(mark):
    """Processes with the mark among their variables."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes()
            if int(folder.name) != os.getpid() and mark.encode() in variables:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def accounts(metrics):
    """What is wrong with the books of the steps."""
    wrong = []
    for line in metrics:
        step = line["step"]
        places = {name: value for name, value in line.items() if name.startswith("tokens/") and name != "tokens/sampled"}
        if abs(line["tokens/sampled"] - sum(places.values())) > 0.5:
            wrong.append(f"step {step}: {line['tokens/sampled']} tokens sampled, accounted for {places}")
        for name, honest in [("batch_reward/correct", 0.0), ("batch_reward/judge", 0.5)]:
            if line.get(name) is not None and abs(line[name] - honest) > 1e-9:
                wrong.append(f"step {step}: {name} is {line[name]}, and honest answers are {honest}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=str(ROOT / "target/release/hone"))
    parser.add_argument("--steps", type=int, default=16, help="128 episodes each")
    parser.add_argument("--minutes", type=float, default=20, help="the run must end by itself within this time")
    arguments = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        recipe, run, log = folder / "faults.toml", folder / "run", folder / "ways.log"
        text = RECIPE.format(root=ROOT, python=sys.executable, port=server.server_port, steps=arguments.steps)
        recipe.write_text(text)
        log.touch()
        mark = f"hone-fault-{os.getpid()}"
        variables = {**os.environ, "HONE_FAULT_MARK": mark, "HONE_FAULT_LOG": str(log)}
        command = [arguments.hone, "train", str(recipe), "--run", str(run), "--samples", "0"]
        began = time.monotonic()
        ended = subprocess.run(command, env=variables, timeout=arguments.minutes * 60, stdout=subprocess.PIPE)
        seconds = time.monotonic() - began
        ways = collections.Counter(log.read_text().splitlines())
        metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        left = left_running(mark)
        wrong = accounts(metrics)
    # Of Hone itself; the largest child of it counts for itself.
    gib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20)
    episodes = sum(line["rollouts/total"] for line in metrics)
    faulted = sum(line["rollouts/faulted"] for line in metrics)
    trained = sum(line["tokens/trained"] for line in metrics)
    wrong += [f"still running: {process}" for process in left]
    if ended.returncode != 0:
        wrong.append(f"hone train ended with {ended.returncode}")
    if len(metrics) != arguments.steps:
        wrong.append(f"{len(metrics)} of {arguments.steps} steps are recorded")
    if gib >= 1:
        wrong.append(f"{gib:.2f} GiB resident")
    print(f"{episodes:.0f} episodes in {seconds:.0f} s, {faulted:.0f} of them broken, {trained:.0f} tokens trained, {gib:.2f} GiB")
    judged = {name: count for name, count in Judge.seen.items() if name != "honest"}
    print(f"the environment misbehaved {sum(ways.values())} times in {len(ways)} ways,")
    print(f"the judge {sum(judged.values())} of {sum(Judge.seen.values())} times in {len(judged)} ways")
    for what in wrong:
        print("WRONG:", what)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
