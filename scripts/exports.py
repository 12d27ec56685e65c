#!/usr/bin/env python3
"""Reads what `hone export` writes back with the tools it is written for, and compares it with the run directory; then what
`hone train` sends to W&B with what W&B's own client sends, both to a stand-in for its server. Makes a small run of its own and
a throw-away virtual environment.

    scripts/exports.py [target/release/hone [RUN]]

wandb 0.21 is the one that still has its reader in Python; `wandb sync` of newer versions reads the same file.
"""

import gzip
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import tomllib

PACKAGES = ["pandas", "pyarrow", "tensorboard", "inspect_ai", "wandb==0.21.4"]
QUICKLY = ["train.steps=3", "train.groups=4", "train.group_size=4", "eval.tasks=16", "env.tasks=64", "env.held_out=16"]
KEY = "0123456789" * 4


def same(name, got, want):
    if isinstance(want, float) and isinstance(got, float):
        ok = abs(got - want) <= 1e-6 * max(1.0, abs(want))
    else:
        ok = got == want
    if not ok:
        sys.exit(f"{name}: read {got!r}, recorded {want!r}")
    print(f"ok  {name}: {got}")


def export(hone, run, into, kind):
    out = into / kind
    subprocess.run([hone, "export", run, "--to", kind, "--out", out], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"WANDB_MODE": "offline"})
    return out


def wandb_records(path):
    """Records of an offline run, read by W&B's own reader."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    store = DataStore()
    store.open_for_scan(str(path))
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        yield record


def check_wandb(out, run, metrics, events):
    [path] = out.glob("offline-run-*/run-*.wandb")
    records = list(wandb_records(path))
    same("wandb: numbers of the records", [record.num for record in records], list(range(1, len(records) + 1)))
    kinds = [record.WhichOneof("record_type") for record in records]
    same("wandb: first and last record", (kinds[0], kinds[1], kinds[-1]), ("header", "run", "exit"))
    began = records[1].run
    same("wandb: id, project and name", (began.run_id, began.project, began.display_name), (path.stem[4:], "exports", run.resolve().name))
    config = {item.key: json.loads(item.value_json) for item in began.config.update}
    same("wandb: a setting", config["train"]["group_size"], tomllib.load(open(run / "recipe.toml", "rb"))["train"]["group_size"])
    rows = {}
    for record in records:
        if record.HasField("history"):
            row = {item.key: json.loads(item.value_json) for item in record.history.item}
            same("wandb: a row's step, once", (row["_step"], row["_step"] in rows), (record.history.step.num, False))
            rows[row["_step"]] = row
    for line in metrics:
        for name, value in line.items():
            if name != "step" and value is not None and rows[line["step"]][name] != value:
                sys.exit(f"wandb: {name} of step {line['step']}: {rows[line['step']][name]}, recorded {value}")
    evals = [event for event in events if event["event"] == "eval" and event["result"]["success"] is not None]
    for event in evals:
        name = f"eval/{event['kind']}/success"
        same(f"wandb: {name} of step {event['step']}", rows[event["step"]][name], event["result"]["success"])
    summary = {}
    for record in records:
        summary.update((item.key, json.loads(item.value_json)) for item in record.summary.update)
    same("wandb: the summary's step", summary["_step"], metrics[-1]["step"])


class Stand(http.server.BaseHTTPRequestHandler):
    """A stand-in for W&B's server: makes every run, takes every row, remembers what it was asked."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
        self.server.asked.append((self.path, self.headers.get("authorization"), body))
        query = body.get("query", "")
        project = {"id": "p", "name": "exports", "entity": {"id": "e", "name": "me"}}
        name = body.get("variables", {}).get("name") if "upsertBucket" in query else None
        run = {"id": "r", "name": name, "displayName": "x", "config": "{}", "historyLineCount": 0, "project": project}
        answers = {"upsertBucket": {"bucket": run, "inserted": True}, "serverInfo": {"features": []},
                   "createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}, "project": {"run": None}}
        answer = json.dumps({"data": {name: value for name, value in answers.items() if name in query}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


CLIENT = """
import wandb
quiet = wandb.Settings(console="off", x_disable_stats=True, x_disable_meta=True, disable_git=True, disable_code=True)
run = wandb.init(id="abcd1234", name="peer", config={"train": {"steps": 2}}, settings=quiet)
for step in range(3):
    run.log({"a/b": step + 0.5}, step=step)
run.finish()
"""


def asked(command, directory):
    """What a command asks the stand-in: how it says who it is, the run's variables, its address, its rows, its end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stand)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    variables = {"WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": KEY, "WANDB_PROJECT": "exports",
                 "WANDB_SILENT": "true", "WANDB_DIR": str(directory), "PYTHONWARNINGS": "ignore"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run(command, cwd=directory, env=environment | variables, timeout=300, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    server.shutdown()
    if done.returncode > 1 or KEY in done.stdout:
        sys.exit(f"{command[0]}: exit code {done.returncode}\n{done.stdout.replace(KEY, 'THE KEY')}")
    who = {authorization for _, authorization, _ in server.asked}
    [begin, *_] = [body["variables"] for path, _, body in server.asked if "upsertBucket" in body.get("query", "")]
    streams = [(path, body) for path, _, body in server.asked if path.endswith("/file_stream")]
    rows, ends = [], [body for _, body in streams if body.get("complete")]
    for _, body in streams:
        if history := body.get("files", {}).get("wandb-history.jsonl"):
            same("wandb live: offset of rows", history["offset"], len(rows))
            rows.extend(json.loads(line) for line in history["content"])
    [address] = {path for path, _ in streams}
    return who, begin, address, rows, [(end["complete"], end["exitcode"]) for end in ends]


def check_live(hone, directory):
    """Hone asks W&B's server as its own client does."""
    peer = asked([sys.executable, "-c", CLIENT], directory)
    settings = [word for setting in [*QUICKLY, "log.wandb=logs"] for word in ("--set", setting)]
    mine = asked([hone, "train", *settings, "--run", "live", "--samples", "0"], directory)
    same("wandb live: who asks", mine[0], peer[0])
    for name in ["project", "entity"]:
        same(f"wandb live: {name}", mine[1][name], peer[1][name])
    shape = lambda begin: {type(value).__name__ for value in json.loads(begin["config"])["train"].values()}
    same("wandb live: a setting is under `value`", shape(mine[1]), shape(peer[1]))
    address = lambda one: one[2].replace(one[1]["name"], "ID")
    same("wandb live: address of the rows", address(mine), address(peer))
    same("wandb live: steps", [row["_step"] for row in mine[3]], [0, 1, 2, 3])
    own = lambda rows: {name for row in rows for name in row if name.startswith("_")}
    same("wandb live: what every row has", own(mine[3]), own(peer[3]))
    same("wandb live: the end", mine[4], peer[4])
    [path] = directory.glob("logs/offline-run-*/run-*.wandb")
    written = [{item.key: json.loads(item.value_json) for item in record.history.item}
               for record in wandb_records(path) if record.HasField("history")]
    same("wandb live: the rows are those of the offline run", mine[3] == written, True)
    sent = asked([hone, "export", "live", "--to", "wandb", "--out", "sent"], directory)
    same("wandb: an export sends what the run sent", sent[0] == mine[0] and sent[2:] == mine[2:], True)


def begin(hone, scratch):
    """Everything again in a virtual environment that has the tools, with a run of its own."""
    venv = scratch / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin/pip", "--disable-pip-version-check", "-q", "install", *PACKAGES], check=True)
    settings = [word for setting in QUICKLY for word in ("--set", setting)]
    made = subprocess.run([hone, "train", *settings, "--run", "run", "--samples", "0"], cwd=scratch, stdout=subprocess.DEVNULL)
    if made.returncode > 1:
        sys.exit("hone train failed")
    subprocess.run([venv / "bin/python", __file__, hone, scratch / "run"], check=True)


def main():
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    hone = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else f"{target}/release/hone").resolve())
    if len(sys.argv) < 3:
        with tempfile.TemporaryDirectory() as scratch:
            return begin(hone, pathlib.Path(scratch))
    run = pathlib.Path(sys.argv[2])
    metrics = [json.loads(line) for line in open(run / "metrics.jsonl")]
    events = [json.loads(line) for line in open(run / "events.jsonl")]
    reward = "batch_reward/total"
    with tempfile.TemporaryDirectory() as directory:
        into = pathlib.Path(directory)

        import pandas

        tables = export(hone, run, into, "parquet")
        table = pandas.read_parquet(tables / "metrics.parquet")
        same("parquet: steps", len(table), len(metrics))
        same("parquet: last reward", float(table[reward].iloc[-1]), metrics[-1][reward])
        rollouts = pandas.read_parquet(tables / "rollouts.parquet")
        traces = max(event["traces"][1] for event in events if event.get("traces"))
        same("parquet: rollouts", len(rollouts), traces)
        last = rollouts[rollouts.part == f"step-{metrics[-1]['step']}"]
        same("parquet: mean reward of the last step's rollouts", float(last.reward.mean()), metrics[-1][reward])
        same("parquet: trained tokens", int(last.trained_tokens.sum()), int(metrics[-1]["tokens/trained"]))
        rewards = pandas.read_parquet(tables / "rewards.parquet")
        same("parquet: rewards of totals", int((rewards.component == "total").sum()), len(rollouts))

        table = pandas.read_csv(export(hone, run, into, "csv") / "rollouts.csv")
        same("csv: rollouts", len(table), traces)
        same("csv: mean reward", float(table.reward.mean()), float(rollouts.reward.mean()))

        completions = export(hone, run, into, "trl")
        files = sorted(completions.glob("completions_*.jsonl"))
        same("trl: files", len(files), len(metrics))
        table = pandas.read_json(files[-1], lines=True)
        same("trl: mean reward", float(table.reward.mean()), metrics[-1][reward])
        same("trl: first role of a completion", table.completion.iloc[0][0]["role"], "assistant")

        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        loaded = EventAccumulator(str(export(hone, run, into, "tensorboard")), size_guidance={"scalars": 0})
        loaded.Reload()
        scalars = loaded.Scalars(reward)
        same("tensorboard: steps", [scalar.step for scalar in scalars], [line["step"] for line in metrics])
        same("tensorboard: last reward", float(scalars[-1].value), float(metrics[-1][reward]))

        os.environ["WANDB_PROJECT"] = "exports"
        check_wandb(export(hone, run, into, "wandb"), run, metrics, events)
        check_live(hone, into)

        from inspect_ai.log import read_eval_log

        evals = [event for event in events if event["event"] == "eval"]
        for event in evals[-2:]:
            path = export(hone, run, into, "inspect") / f"eval-{event['step']}-{event['kind']}.json"
            log = read_eval_log(str(path))
            name = f"inspect: {path.stem}"
            same(f"{name}: samples", len(log.samples), event["traces"][1] - event["traces"][0])
            same(f"{name}: accuracy", log.results.scores[0].metrics["accuracy"].value, event["result"]["success"])
            mean = sum(sample.scores["success"].value for sample in log.samples) / len(log.samples)
            same(f"{name}: mean of the samples", float(mean), float(event["result"]["success"]))

        spans = json.load(open(export(hone, run, into, "otlp") / "traces.json"))["resourceSpans"][0]["scopeSpans"][0]["spans"]
        roots = [span for span in spans if "parentSpanId" not in span]
        same("otlp: a root for each rollout", len(roots), traces)
        same("otlp: span ids are unique", len({(span["traceId"], span["spanId"]) for span in spans}), len(spans))


main()
