#!/usr/bin/env python3
"""Reads what `hone export` writes back with the tools it is written for, and compares it with the run directory.

    python3 -m venv /tmp/exports && /tmp/exports/bin/pip install pandas pyarrow tensorboard inspect_ai wandb==0.21.4
    /tmp/exports/bin/python scripts/exports.py target/release/hone runs/quickstart-1

wandb 0.21 is the one that still has its reader in Python; `wandb sync` of newer versions reads the same file.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib


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
    subprocess.run([hone, "export", run, "--to", kind, "--out", out], check=True, stdout=subprocess.DEVNULL)
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


def main():
    hone, run = sys.argv[1], pathlib.Path(sys.argv[2])
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
