"""PyTorch's side of `hone bench engine`: the same model through transformers, the same threads, one JSON line per task.

Reads task names from standard input, one per line, and answers each with one JSON object, so that the caller can
interleave the two engines in one run:

    ready                            -> {"torch": version, "transformers": version, "threads": n}
    train STEPS                      -> {"seconds": [..], "tokens": 2048, "peak_rss_bytes": n}
    generate PROMPTS SAMPLES NEW     -> {"seconds": s, "new_tokens": n}
    prefix STEPS                     -> {"seconds": [..]}   (8 replies of 128 tokens to one prompt of 1,024, unshared)

Usage: python scripts/bench_engine_torch.py [THREADS]
"""

import json
import resource
import sys
import time

import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM


def model():
    config = Qwen3Config(
        vocab_size=2048,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config).float()


def train(net, sequences, tokens, first, steps):
    """Seconds of each step: forward, backward, clip, AdamW. Tokens before `first` are context only."""
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)
    ids = torch.randint(0, 2048, (sequences, tokens))
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        logits = net(input_ids=ids, use_cache=False).logits[:, first - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, first:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return seconds


@torch.no_grad()
def generate(net, prompts, samples, new):
    net.eval()
    ids = torch.randint(3, 2048, (prompts, 256)).repeat_interleave(samples, 0)
    start = time.perf_counter()
    out = net.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        min_new_tokens=new,
        max_new_tokens=new,
        pad_token_id=0,
    )
    return time.perf_counter() - start, out.shape[0] * (out.shape[1] - 256)


def answer(net, task):
    name, *numbers = task.split()
    numbers = [int(n) for n in numbers]
    if name == "ready":
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        return {**versions, "threads": torch.get_num_threads()}
    if name == "train":
        seconds = train(net, 8, 256, 1, numbers[0])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"seconds": seconds, "tokens": 8 * 256, "peak_rss_bytes": peak}
    if name == "prefix":
        return {"seconds": train(net, 8, 1024 + 128, 1024, numbers[0])}
    if name == "generate":
        seconds, tokens = generate(net, *numbers)
        return {"seconds": seconds, "new_tokens": tokens}
    return {"error": f"unknown task {name}"}


def main():
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    transformers.logging.set_verbosity_error()
    net = model()
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(answer(net, line)), flush=True)


if __name__ == "__main__":
    main()
