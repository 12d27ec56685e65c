"""Reference for `hone bench parse`: Hermes calls with json and jsonschema, as a Python trainer would parse them.

Reads {"replies": [str], "tools": [OpenAI function schema]} on stdin, prints the median nanoseconds per reply.
"""

import json
import re
import statistics
import sys
import time

import jsonschema

TAG = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
THINK = re.compile(r"<think>.*?</think>", re.DOTALL)


def parse(text, validators):
    text = THINK.sub("", text.removesuffix("<|im_end|>"))
    calls = []
    for body in TAG.findall(text):
        try:
            call = json.loads(body)
        except ValueError:
            return None
        name, arguments = call.get("name"), call.get("arguments", {})
        validator = validators.get(name)
        if validator is None or not validator.is_valid(arguments):
            return None
        calls.append((name, arguments))
    return calls


def main():
    job = json.load(sys.stdin)
    validators = {
        tool["function"]["name"]: jsonschema.Draft202012Validator(tool["function"].get("parameters", {}))
        for tool in job["tools"]
    }
    medians = []
    for text in job["replies"]:
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter_ns()
            for _ in range(100):
                parse(text, validators)
            best = min(best, (time.perf_counter_ns() - start) / 100)
        medians.append(best)
    print(json.dumps({"median_ns": statistics.median(medians), "replies": len(medians)}))


main()
