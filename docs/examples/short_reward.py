# A reward for Hone: the shorter the answer, the better.
import json, sys

for line in sys.stdin:
    ask = json.loads(line)
    text = ask.get("case", {}).get("completion")
    if text is None:
        answer = {"unscored": "no completion to measure", "not_applicable": True}
    else:
        words = len(text.split())
        answer = {"value": 1 / (1 + words / 50), "why": f"{words} words"}
    print(json.dumps({"id": ask["id"], **answer}), flush=True)
