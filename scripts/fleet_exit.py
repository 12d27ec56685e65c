#!/usr/bin/env python3
"""No rented instance outlives a command, however it ends. A stand-in of Fleet's REST and MCP surface counts instances while
`hone train`, `hone eval` and `hone env play` end in order, by one SIGTERM and by two. Exit code 0: none is left.

    scripts/fleet_exit.py [HONE]        # default: target/release/hone
"""
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
HONE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else HERE / "../target/release/hone")
KEY = "a-secret-key"
SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}


class Fleet(http.server.BaseHTTPRequestHandler):
    """Instances by id with their run; tools that take a moment; a model that always calls one."""

    protocol_version = "HTTP/1.1"
    instances, created, calls, lock, root = {}, 0, 0, threading.Lock(), ""

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(OSError):  # Who asked may be gone.
            self.wfile.write(text)

    def handle_any(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        url = urllib.parse.urlsplit(self.path)
        path = url.path.strip("/")
        if path == "v1/chat/completions":
            call = {"id": "c", "type": "function", "function": {"name": "book", "arguments": "{}"}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            return self.answer({"id": "x", "object": "chat.completion", "model": "stub", "choices": [choice]})
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            return self.answer({"detail": "no key"}, 401)
        if path == "v1/env/instances":
            with Fleet.lock:
                name = f"i{Fleet.created}"
                Fleet.created += 1
                Fleet.instances[name] = {"instance_id": name, "run_id": body.get("run_id"), "status": "running",
                                         "urls": {"root": f"{Fleet.root}/instance/{name}/"}}
            return self.answer(Fleet.instances[name])
        if path == "v1/env/instances/batch" and self.command == "DELETE":
            run = urllib.parse.parse_qs(url.query)["run_id"][0]
            with Fleet.lock:
                for name in [name for name, one in Fleet.instances.items() if one["run_id"] == run]:
                    del Fleet.instances[name]
            return self.answer([])
        if one := re.fullmatch(r"v1/env/instances/(\w+)", path):
            if self.command == "DELETE":
                with Fleet.lock:
                    Fleet.instances.pop(one[1], None)
            return self.answer(Fleet.instances.get(one[1], {}))
        if path.endswith("execute_verifier_function"):
            return self.answer({"success": True, "result": 1, "stdout": ""})
        return self.answer(self.mcp(body) if path.endswith("mcp") else {})

    def mcp(self, body):
        method = body.get("method")
        if method == "tools/list":
            result = {"tools": [{"name": "book", "description": "Book a room", "inputSchema": SCHEMA}]}
        elif method == "tools/call":
            Fleet.calls += 1
            time.sleep(0.2)
            result = {"content": [{"type": "text", "text": "booked"}]}
        else:
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "fleet", "version": "1"}}
        return {"jsonrpc": "2.0", "id": body.get("id"), "result": result}

    do_GET = do_POST = do_DELETE = handle_any


def recipe(at, model):
    tasks = [{"key": f"t{n}", "prompt": "Book a room.", "env_id": "booking", "verifier_func": "def validate(env): return 1",
              "env_variables": {"CURRENT_DATE": "2026-01-01"}} for n in range(16)]
    (at / "tasks.json").write_text(json.dumps(tasks))
    policy = f'[policy]\nmodel = "{model}"\n' if model else ""
    (at / "fleet.toml").write_text(f"""
name = "fleet"
{policy}
[env]
kind = "fleet"
url = "{Fleet.root}"
task_file = "tasks.json"
held_out = 4
instances = 8
[[rubric.component]]
kind = "env_reward"
[rollout]
window = 2048
max_turns = 20
[train]
steps = 2
groups = 2
group_size = 4
[eval]
tasks = 2
controls = false
""")


def ended(name, command, at, signals=(), stdin=None, after=1):
    """Runs a command, sends it signals while instances are rented (`after`: so many in all), and counts what is left."""
    began = Fleet.created
    env = dict(os.environ, FLEET_API_KEY=KEY)
    child = subprocess.Popen([HONE, *map(str, command)], cwd=at, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    if stdin:
        child.stdin.write(stdin)
        child.stdin.flush()
    deadline = time.monotonic() + 60
    for number in signals:
        while not (Fleet.created >= began + after and Fleet.instances) and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5)
        child.send_signal(number)
    try:
        said, _ = child.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        child.kill()
        said, _ = child.communicate()
    rented, left = Fleet.created - began, len(Fleet.instances)
    good = rented > 0 and left == 0 and KEY not in said
    print(f"{'ok  ' if good else 'FAIL'} {name}: exit {child.returncode}, {rented} rented, {left} left", flush=True)
    if not good:
        print(said[-3000:])
    Fleet.instances.clear()
    return good


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fleet)
    server.daemon_threads = True
    Fleet.root = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        at = pathlib.Path(directory)
        start = ["train", "quickstart", "--set", "train.steps=1", "--set", "eval.controls=false", "--set", "eval.tasks=2", "--run", "start"]
        subprocess.run([HONE, *start], cwd=at, check=True, capture_output=True)
        recipe(at, "start")
        term = signal.SIGTERM
        model = ["eval", f"{Fleet.root}/v1#stub", "--recipe", "fleet.toml", "--samples", "2"]
        results = [
            ended("train to its end", ["train", "fleet.toml", "--run", "a"], at),
            ended("train, SIGTERM before its first step", ["train", "fleet.toml", "--run", "b"], at, [term]),
            ended("train, one SIGTERM", ["train", "fleet.toml", "--run", "c", "--set", "train.steps=50"], at, [term], after=20),
            ended("train, two SIGTERMs", ["train", "fleet.toml", "--run", "d", "--set", "train.steps=50"], at, [term, term], after=20),
            ended("eval to its end", [*model, "--out", "e"], at),
            ended("eval, SIGTERM", [*model, "--out", "f"], at, [term]),
            ended("env play, SIGTERM", ["env", "play", "fleet.toml"], at, [term], stdin="book {}\n"),
        ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
