"""TRL's side of `hone bench step`: one synchronous GRPO step with GRPOTrainer, the same model, work and threads.

Reads task names from standard input, one per line, and answers each with one JSON object:

    ready        -> {"trl": version, "torch": version, "transformers": version, "threads": n, "config": {..}}
    step STEPS   -> {"seconds": [..], "peak_rss_bytes": n}    (a trainer of its own; its first step is not counted)

8 prompts of 256 random tokens, 8 completions of exactly 100 tokens each, one optimizer step on all 64. The reward is the
share of even token ids, so that groups differ. Nothing is logged, saved or evaluated.

Usage: python scripts/bench_step_trl.py [THREADS]
"""

import json
import os
import random
import resource
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

VOCAB, PROMPTS, GROUP, PROMPT_TOKENS, NEW_TOKENS = 2048, 8, 8, 256, 100


def model():
    config = Qwen3Config(
        vocab_size=VOCAB,
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
        pad_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config).float()


def tokenizer():
    """One word per id."""
    words = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i for i in range(2, VOCAB)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def configuration(folder, steps):
    return dict(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        fp16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=PROMPTS * GROUP,
        gradient_accumulation_steps=1,
        num_generations=GROUP,
        max_completion_length=NEW_TOKENS,
        generation_kwargs={"min_new_tokens": NEW_TOKENS},
        temperature=1.0,
        num_iterations=1,
        beta=0.0,
        loss_type="dapo",
        epsilon=0.2,
        epsilon_high=0.28,
        learning_rate=1e-4,
        max_grad_norm=1.0,
        max_steps=steps,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_num_workers=0,
    )


class Clock(TrainerCallback):
    def __init__(self):
        self.seconds, self.start = [], None

    def on_step_begin(self, *args, **kwargs):
        self.start = time.perf_counter()

    def on_step_end(self, *args, **kwargs):
        self.seconds.append(time.perf_counter() - self.start)


def even(completion_ids, **kwargs):
    return [sum(i % 2 == 0 for i in ids) / max(len(ids), 1) for ids in completion_ids]


def step(steps):
    draw = random.Random(0)
    prompts = [" ".join(f"w{draw.randrange(2, VOCAB)}" for _ in range(PROMPT_TOKENS)) for _ in range(PROMPTS * (steps + 1))]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model(),
            reward_funcs=even,
            args=GRPOConfig(**configuration(folder, steps + 1)),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer(),
            callbacks=[clock],
        )
        trainer.train()
    return clock.seconds[1:]


def answer(task):
    name, *numbers = task.split()
    if name == "ready":
        versions = {"trl": trl.__version__, "torch": torch.__version__, "transformers": transformers.__version__}
        shown = {k: v for k, v in configuration("", 0).items() if k not in ("output_dir", "max_steps")}
        return {**versions, "threads": torch.get_num_threads(), "config": shown}
    if name == "step":
        seconds = step(int(numbers[0]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"seconds": seconds, "peak_rss_bytes": peak}
    return {"error": f"unknown task {name}"}


def main():
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    transformers.logging.set_verbosity_error()
    # Trainers print to standard output; the answers are all that may be there.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(answer(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
