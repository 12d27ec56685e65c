#!/usr/bin/env bash
# Renders the chat templates of the trl wheel with transformers and with `hone render`, and compares text and ids.
# Everything Python lives in a temporary directory. Exit 0: Qwen and Llama families identical, at least 99 % overall.
#
#   scripts/conformance_render.sh [--show]        HONE=path/to/hone to use a binary other than target/release/hone
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${HONE:-${CARGO_TARGET_DIR:-target}/release/hone}
if [ ! -x "$hone" ]; then
  echo "no binary at $hone; build it with: cargo build --release" >&2
  exit 2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
pip=("$scratch/venv/bin/pip" --disable-pip-version-check -q)
"${pip[@]}" install transformers==5.22.2 tokenizers==0.23.3 jinja2==3.1.6
# Only the template files of trl are wanted, none of its dependencies.
"${pip[@]}" download --no-deps -d "$scratch" trl==1.16.0

"$scratch/venv/bin/python" scripts/conformance_render.py --hone "$hone" --wheel "$scratch"/trl-*.whl \
  --tokenizer crates/testdata/data/tiny-qwen3/tokenizer.json "$@"
