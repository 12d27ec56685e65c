"""The Python side of `hone bench env`: tau-bench's own tools on the same replays.

Reads one JSON line {"domain": ..., "tasks": [[{"name", "kwargs"}, ...], ...]}, then for every further line (a number of
episodes) plays that many and prints the seconds they took. An episode is what tau-bench does for one: load the data,
run the calls, hash, load again, run the reference, hash, compare.
"""

import copy
import importlib
import json
import sys
import time
import types

try:
    import litellm  # noqa: F401
except ImportError:
    # tau-bench imports it for its simulated users. The tools ask no model.
    sys.modules["litellm"] = types.ModuleType("litellm")
    sys.modules["litellm"].completion = None

job = json.loads(sys.stdin.readline())
domain = job["domain"]
tools = importlib.import_module(f"tau_bench.envs.{domain}.tools").ALL_TOOLS
load = importlib.import_module(f"tau_bench.envs.{domain}.data").load_data
from tau_bench.envs.base import consistent_hash, to_hashable  # noqa: E402

by_name = {tool.get_info()["function"]["name"]: tool for tool in tools}


def run(calls):
    data = load()
    for call in calls:
        if call["name"] not in by_name or call["name"] == "transfer_to_human_agents":
            continue
        try:
            by_name[call["name"]].invoke(data=data, **copy.deepcopy(call["kwargs"]))
        except Exception:
            pass
    return consistent_hash(to_hashable(data))


print("ready", flush=True)
played = 0
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        calls = job["tasks"][played % len(job["tasks"])]
        assert run(calls) == run(calls)
        played += 1
    print(time.perf_counter() - start, flush=True)
