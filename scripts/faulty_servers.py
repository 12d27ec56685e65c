#!/usr/bin/env python3
"""`hone check` against OpenEnv and MCP servers with one fault each: the check that must name it, the words that must be in it.

    scripts/faulty_servers.py [HONE] [FAULT ...]        # default: target/release/hone, all faults

Installs fastapi, uvicorn and websockets into a virtual environment that is thrown away; FAULTY_PYTHON names a Python that has them
already. Prints a line a fault with its seconds; exit code 0: every fault is named within two minutes, a healthy server is not.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["fastapi", "uvicorn", "websockets"]
LIMIT = 120

# kind, fault, check that names it ("" for none), words of the finding
FAULTS = [
    ("openenv", "none", "", ""),
    ("openenv", "leak", "leaked_instances", "4 sessions"),
    ("openenv", "dies", "script_faults", "no episode opens"),
    ("openenv", "drops", "script_faults", "the connection broke"),
    ("openenv", "late", "script_faults", "no answer within 3.0 s"),
    ("openenv", "slow", "latency", "env.deadline_s"),
    ("openenv", "not_json", "script_faults", "no JSON object"),
    ("openenv", "no_observation", "script_faults", "no \"observation\""),
    ("openenv", "no_reward", "unscored", "gave a reward"),
    ("openenv", "wrong_schema", "tool_schemas", "not a usable JSON Schema"),
    ("openenv", "reset_late", "environment_opens", "no answer within"),
    ("mcp", "none", "", ""),
    ("mcp", "leak", "leaked_instances", "still answer a step"),
    ("mcp", "dies", "script_faults", "no episode opens"),
    ("mcp", "late", "script_faults", "no answer within 3.0 s"),
    ("mcp", "not_json", "script_faults", "not JSON"),
    ("mcp", "no_tools", "environment_opens", "offers no tools"),
    ("mcp", "wrong_schema", "tool_schemas", "not a usable JSON Schema"),
    ("mcp", "only_errors", "failed_answers", "database is locked"),
    ("mcp", "empty", "unanswered_calls", "without a text"),
]

SERVER = r'''
import asyncio, json, os, socket, sys, uuid
import uvicorn
from fastapi import FastAPI, Request, Response, WebSocket
kind, fault = sys.argv[1:]
app, active, sessions, MOST = FastAPI(), 0, {}, 4
value = {"type": "objekt" if fault == "wrong_schema" else "integer"}
schema = {"type": "object", "properties": {"value": value}, "required": ["value"]}

@app.get("/schema")
def schemas():
    return {"action": schema | {"title": "SetAction"}, "observation": {}, "state": {}}

@app.websocket("/ws")
async def play(ws: WebSocket):
    global active
    await ws.accept()
    if active >= MOST:
        data = {"code": "CAPACITY_REACHED", "message": "full", "active_sessions": active, "max_sessions": MOST}
        await ws.send_text(json.dumps({"type": "error", "data": data}))
        return await ws.close()
    active, steps = active + 1, 0
    say = lambda data: ws.send_text(json.dumps({"type": "observation", "data": data}))
    try:
        while (ask := json.loads(await ws.receive_text()))["type"] != "close":
            if ask["type"] == "reset":
                await asyncio.sleep(30 if fault == "reset_late" else 0)
                await say({"observation": {"text": "Set the dial."}, "reward": None, "done": False})
                continue
            steps += 1
            if fault == "dies":
                os._exit(1)
            if fault == "drops":
                break
            await asyncio.sleep({"late": 8, "slow": 1.5}.get(fault, 0))
            if fault == "not_json":
                await ws.send_text("Internal Server Error")
            elif fault == "no_observation":
                await say({"reward": 1.0, "done": True})
            else:
                reward = None if fault == "no_reward" else float(steps >= 2)
                await say({"observation": {"text": f"step {steps}"}, "reward": reward, "done": steps >= 2})
    except Exception:
        pass
    active -= fault != "leak"

@app.delete("/mcp")
def end(request: Request):
    if fault != "leak":
        sessions.pop(request.headers.get("mcp-session-id"), None)

@app.post("/mcp")
async def answer(request: Request):
    ask, session = json.loads(await request.body()), request.headers.get("mcp-session-id")
    def result(result, **headers):
        body = json.dumps({"jsonrpc": "2.0", "id": ask.get("id"), "result": result})
        return Response(body, media_type="application/json", headers=headers)
    method = ask.get("method", "")
    if method == "initialize":
        sessions[new := uuid.uuid4().hex] = True
        return result({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}, **{"mcp-session-id": new})
    if session not in sessions:
        return Response(status_code=404)
    if method == "tools/list":
        tool = {"name": "set", "description": "Sets the dial.", "inputSchema": schema}
        return result({"tools": [] if fault == "no_tools" else [tool]})
    if method != "tools/call":
        return Response(status_code=202)
    if fault == "dies":
        os._exit(1)
    await asyncio.sleep(8 if fault == "late" else 0)
    if fault == "not_json":
        return Response("Internal Server Error", media_type="text/plain")
    if fault == "only_errors":
        return result({"content": [{"type": "text", "text": "database is locked"}], "isError": True})
    return result({"content": [] if fault == "empty" else [{"type": "text", "text": "set"}]})

listening = socket.socket()
listening.bind(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]}" + ("/mcp" if kind == "mcp" else ""), flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
'''

RECIPE = """
name = "dial"
[policy]
model = "{model}"
[env]
kind = "{kind}"
name = "dial"
url = "{url}"
{tasks}
held_out = 8
deadline_s = 3.0
open_deadline_s = 5.0
[sampling]
max_new_tokens = 16
[rollout]
window = 1024
max_turns = 4
[[rubric.component]]
kind = "{reward}"
[train]
steps = 20
groups = 4
group_size = 4
[eval]
tasks = 8
"""


def checked(hone, python, scratch, kind, fault):
    """The diagnosis of one server, or the reason why there is none."""
    server = subprocess.Popen([python, "-c", SERVER, kind, fault], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        recipe, mcp = os.path.join(scratch, "recipe.toml"), kind == "mcp"
        tasks = 'task_file = "tasks.jsonl"' if mcp else "tasks = 24"
        with open(recipe, "w") as file:
            file.write(RECIPE.format(model=os.path.join(scratch, "model"), kind=kind, url=url, tasks=tasks,
                                     reward="correct" if mcp else "env_reward"))
        done = subprocess.run([hone, "check", recipe, "--json"], capture_output=True, text=True, timeout=LIMIT)
        return json.loads(done.stdout) if done.stdout else done.stderr[-500:]
    except subprocess.TimeoutExpired:
        return f"no diagnosis within {LIMIT} s"
    finally:
        server.kill()
        server.wait()


def verdict(diagnosis, check, words):
    """None where the fault is named as it should be; else what is said instead."""
    if isinstance(diagnosis, str):
        return diagnosis
    found = [one for root in diagnosis["findings"] for one in [root, *root.get("consequences", [])]]
    # The policy knows another desk: its own faults are not the server's.
    own = {"environment_opens", "tool_schemas", "script_faults", "leaked_instances", "latency", "failed_answers", "unscored",
           "unanswered_calls", "reference_fails", "determinism", "isolation", "never_done"}
    names = [one["check"] for one in found if one["check"] in own]
    if not check:
        return f"a healthy server is accused: {names}" if names else None
    texts = [" ".join([one["says"], *one["lines"], one.get("fix", "")]) for one in found if one["check"] == check]
    return None if any(words in text for text in texts) else f"{check} with {words!r} is not among {names}: {texts}"


def main():
    given = sys.argv[1:]
    hone = os.path.abspath(given[0] if given else os.path.join(HERE, "../target/release/hone"))
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        python = os.environ.get("FAULTY_PYTHON")
        if not python:
            venv.create(os.path.join(scratch, "venv"), with_pip=True)
            python = os.path.join(scratch, "venv/bin/python")
            subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        run = os.path.join(scratch, "run")
        short = ["train.steps=1", "eval.tasks=8", "eval.controls=false"]
        sets = [word for setting in short for word in ("--set", setting)]
        subprocess.run([hone, "train", "quickstart", "--run", run, "--samples", "0", *sets], check=True, capture_output=True)
        os.rename(os.path.join(run, "checkpoints/step-00000000"), os.path.join(scratch, "model"))
        with open(os.path.join(scratch, "tasks.jsonl"), "w") as file:
            for at in range(32):
                reference = [{"name": "set", "arguments": {"value": at}}]
                task = {"key": f"t{at}", "prompt": f"Set the dial to {at} and say {at}.", "answer": at,
                        "reference": reference, "says": [{"before": 1, "text": str(at)}]}
                file.write(json.dumps(task) + "\n")
        for kind, fault, check, words in FAULTS:
            if given[1:] and fault not in given[1:]:
                continue
            began = time.monotonic()
            wrong = verdict(checked(hone, python, scratch, kind, fault), check, words)
            failed += wrong is not None
            print(f"{'ok  ' if wrong is None else 'FAIL'} {kind} {fault}: {check or 'healthy'}, "
                  f"{time.monotonic() - began:.0f} s" + (f": {wrong}" if wrong else ""), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
