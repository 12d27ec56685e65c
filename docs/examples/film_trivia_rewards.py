# Six rewards for Hone, written anew after the description of a published post-mortem, with its faults:
# `hone audit docs/examples/film-trivia.toml` names them. Do not train on these.
#
#   format            reads the content: a resolution must be longer than 20 characters
#   quality           word overlap (ROUGE-L) and no test of what is true
#   grounding         a floor of 0.3 under F1: citing everything earns 0.58 where one of four is right
#   calibration       1 - (c - q)^2 with q = quality: the target is graded, so one constant confidence earns it
#   parsimony         1 under 200 and over 400 characters, else 0: the second branch is inverted
#   parsimony_fixed   the later version: full marks between 100 and 250 words, so that the right answer is too short
#   repetition        share of distinct trigrams: 1 for any text that does not loop
# All content rewards share one strict parse: what is not strict JSON earns 0 of every one of them at once.
import json
import sys


def submission(case):
    """The submitted arguments; None where the reply was no strict call."""
    turns = case.get("turns") or []
    last = turns[-1] if turns else {}
    if last.get("failure") or not last.get("calls"):
        return None
    call = last["calls"][0]
    arguments = call.get("arguments", call.get("function", {}).get("arguments"))
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def words(text):
    return "".join(c.lower() if c.isascii() and c.isalnum() else " " for c in text).split()


def rouge_l(reference, text):
    one, other = words(reference), words(text)
    if not one or not other:
        return 0.0
    row = [0] * (len(other) + 1)
    for word in one:
        above = 0
        for at, found in enumerate(other, 1):
            above, row[at] = row[at], above + 1 if word == found else max(row[at], row[at - 1])
    common = row[-1]
    return 2 * common / (len(one) + len(other))


def quality(case, said):
    reference = case.get("reference") or [""]
    references = [reference] if isinstance(reference, str) else reference
    return max(rouge_l(reference, said["resolution"]) for reference in references)


def grounding(case, said):
    cited, gold = set(said.get("citations") or []), set(case.get("gold_ids") or [])
    if not gold:
        return 1.0 if not cited else 0.3
    if not cited:
        return 0.0
    hits = len(cited & gold)
    f1 = 2 * hits / (len(cited) + len(gold))
    return 0.3 + 0.7 * f1


def whole(said):
    return json.dumps({"name": "submit_resolution", "arguments": said})


def parsimony(said):
    return 1.0 if len(whole(said)) < 200 or len(whole(said)) > 400 else 0.0


def parsimony_fixed(said):
    count = len(whole(said).split())
    if count < 100:
        return count / 100
    return 1.0 if count <= 250 else max(0.0, 1 - (count - 250) / 250)


def repetition(said):
    tokens = words(said["resolution"])
    trigrams = list(zip(tokens, tokens[1:], tokens[2:]))
    return len(set(trigrams)) / len(trigrams) if trigrams else 1.0


def value(component, case):
    said = submission(case)
    if said is None or not isinstance(said.get("resolution"), str):
        return 0.0, "no strict JSON"
    if component == "format":
        return (1.0 if len(said["resolution"]) > 20 else 0.5), "a call with a text"
    if component == "quality":
        return quality(case, said), "overlap"
    if component == "grounding":
        return grounding(case, said), "citations"
    if component == "calibration":
        return 1 - (float(said.get("confidence", 0.5)) - quality(case, said)) ** 2, "confidence against overlap"
    if component == "parsimony":
        return parsimony(said), f"{len(whole(said))} characters"
    if component == "parsimony_fixed":
        return parsimony_fixed(said), f"{len(whole(said).split())} words"
    return repetition(said), "trigrams"


for line in sys.stdin:
    ask = json.loads(line)
    score, why = value(sys.argv[1], ask.get("case", {}))
    print(json.dumps({"id": ask["id"], "value": score, "why": why}), flush=True)
