#!/usr/bin/env bash
# ROUGE-L against rouge-score 0.1.2 on the same texts: every token and every score must agree; the ratio of their speeds.
#
# Installs rouge-score in a virtual environment that is thrown away afterwards. Needs python3 with venv, and the network
# once. Usage: scripts/bench_rouge.sh [PAIRS]
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-2000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check rouge-score==0.1.2

cat > "$work/make.py" <<'PY'
"""Texts of 40 to 110 words: English from Python's own manual, syllables with every suffix the stemmer knows, numbers,
punctuation, accents."""
import json, pydoc_data.topics, random, re, sys
rng = random.Random(0)
SYLLABLES = "ba re con yo tri al qui s ex y sky ro lo geo hap fe ing ee ph ll bb".split()
SUFFIXES = ("", "s", "es", "ies", "ied", "eed", "ed", "ing", "ation", "ational", "izer", "bli", "ably", "ally", "fully", "logy",
            "ousness", "iveness", "icate", "ative", "ical", "ness", "ement", "ion", "ance", "able", "e", "ll", "y", "ying", "tion")
IRREGULAR = "skies dying lying tying news innings outing cannings howe proceed exceed succeed ties die".split()
def word():
    kind = rng.random()
    if kind < .05: return rng.choice(IRREGULAR)
    if kind < .10: return str(rng.randrange(10**rng.randrange(1, 6)))
    return "".join(rng.choices(SYLLABLES, k=rng.randrange(1, 4))) + rng.choice(SUFFIXES)
english = sorted(set(re.findall("[a-z]+", " ".join(pydoc_data.topics.topics.values()).lower())))
vocabulary = english + [word() for _ in range(len(english))]
def text():
    words = rng.choices(vocabulary, k=rng.randrange(40, 111))
    return "".join(w.capitalize() if rng.random() < .1 else w + rng.choice([" "] * 8 + [", ", ". ", "-", "é ", "\n"]) for w in words)
def pair():
    reference = text()
    kept = [w for w in reference.split() if rng.random() < .7]
    return reference, " ".join(kept + text().split()[:rng.randrange(40)])
json.dump([pair() for _ in range(int(sys.argv[2]))], open(sys.argv[1], "w"))
PY
cat > "$work/peer.py" <<'PY'
import json, sys, time
from rouge_score import rouge_scorer, tokenizers
pairs = json.load(open(sys.argv[1]))
ours = json.load(open(sys.argv[2]))
scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
seconds = float("inf")
for _ in range(2):
    start = time.perf_counter()
    scores = [scorer.score(reference, prediction)["rougeL"].fmeasure for reference, prediction in pairs]
    seconds = min(seconds, time.perf_counter() - start)
tokenize = tokenizers.DefaultTokenizer(use_stemmer=True).tokenize
for (reference, _), tokens in zip(pairs, ours["tokens"], strict=True):
    for theirs, own in zip(tokenize(reference), tokens, strict=True):
        assert theirs == own, f"rouge-score says {theirs!r}, hone {own!r}"
worst = max(abs(a - b) for a, b in zip(scores, ours["scores"], strict=True))
rate = lambda s: len(pairs) / s
print(f"pairs {len(pairs)}   distinct stems {len({t for ts in ours['tokens'] for t in ts})}, all equal   worst difference {worst:.1e}")
print(f"hone {rate(ours['seconds']):,.0f} pairs/s   rouge-score {rate(seconds):,.0f} pairs/s   ratio {seconds / ours['seconds']:,.0f}x")
sys.exit(0 if worst <= 1e-12 else 1)
PY
python3 "$work/make.py" "$work/pairs.json" "$pairs"
cargo run --quiet --release -p hone-arena --example rouge_peer -- "$work/pairs.json" > "$work/ours.json"
"$work/venv/bin/python" "$work/peer.py" "$work/pairs.json" "$work/ours.json"
