"""Compares `hone render` with transformers' apply_chat_template, text and ids. Run through conformance_render.sh."""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict

import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers.utils import chat_template_utils

FROZEN = datetime.datetime(2024, 2, 29, 15, 4, 5)
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
BAR_FAMILIES = ("qwen", "llama")
BAR_OVERALL = 0.99


# ---- conversations ---------------------------------------------------------------------------------------------------


def function(name, description, properties, required=(), **extra):
    schema = {"type": "object", "properties": properties, "required": list(required), **extra}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


WEATHER = function(
    "get_weather",
    "Weather of a city — in °C, „now“ <b>&amp; later</b> isn't \"exact\"",
    {
        "city": {"type": "string", "description": "City, e.g. 東京 or São Paulo"},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14},
    },
    ["city"],
)
SEARCH = function(
    "search",
    "Finds <items> & more",
    {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "price": {"type": "number", "minimum": 1.0, "maximum": 1e16, "multipleOf": 1e-7},
        "tags": {"type": "array", "items": {"type": "string"}},
        "filter": {
            "type": "object",
            "properties": {"color": {"type": "string"}, "in_stock": {"type": "boolean"}},
            "additionalProperties": False,
        },
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "items": {"type": "array", "items": {"type": "object", "properties": {"keys": {"type": "string"}}}},
    },
    ["query", "items"],
)
NO_ARGS = function("ping", "Answers.", {})
NOTHING = {"type": "function", "function": {"name": "nothing", "description": "No schema at all"}}
TOOLS = [WEATHER, SEARCH, NO_ARGS]

SYSTEM = {"role": "system", "content": "You are a careful agent. Use <tools> & 'quotes'."}
USER = {"role": "user", "content": "What is the weather in Zürich?"}


def call(name, arguments, id=None):
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": id, **made} if id else made


def assistant(content=None, calls=None, **extra):
    message = {"role": "assistant", "content": content, **extra}
    return {**message, "tool_calls": calls} if calls else message


def result(content, name="get_weather", id=None):
    message = {"role": "tool", "name": name, "content": content}
    return {**message, "tool_call_id": id} if id else message


def conversations():
    """(name, messages, tools, kwargs)."""
    ids = ["abcdefghi", "jklmnopqr"]
    zurich, args = {"city": "Zürich"}, {"query": "a <b> & 'c' \"d\"", "price": 1.0, "limit": 3, "tags": ["x", "ÿ"]}
    floats = {"price": 1e-7, "a": 1e16, "b": -0.0, "c": 1.0, "d": 0.1, "e": 123456789.125, "f": 1e22, "g": 5e-324}
    step = [SYSTEM, USER, assistant("", [call("get_weather", zurich, ids[0])]), result('{"t": 21.5}', id=ids[0])]
    done = assistant("It is 21.5 °C.")
    yield "user_only", [USER], TOOLS, {}
    yield "system_user", [SYSTEM, USER], TOOLS, {}
    yield "no_tools", [SYSTEM, USER], None, {}
    yield "empty_tools", [SYSTEM, USER], [], {}
    yield "one_tool_without_schema", [USER], [NOTHING], {}
    yield "one_call", [USER, assistant("", [call("get_weather", zurich, ids[0])])], TOOLS, {}
    yield "call_and_result", step, TOOLS, {}
    yield "call_result_answer", [*step, done], TOOLS, {}
    yield "next_user_turn", [*step, done, {"role": "user", "content": "And tomorrow?"}], TOOLS, {}
    yield "arguments_as_string", [USER, assistant("", [call("search", json.dumps(args), ids[0])]),
                                  result("[]", "search", ids[0])], TOOLS, {}
    yield "arguments_as_object", [USER, assistant("", [call("search", args, ids[0])]),
                                  result("[]", "search", ids[0])], TOOLS, {}
    yield "parallel_calls", [USER, assistant("Both.", [call("get_weather", zurich, ids[0]), call("search", args, ids[1])]),
                             result("1", id=ids[0]), result("2", "search", ids[1]), done], TOOLS, {}
    yield "content_null", [USER, assistant(None, [call("get_weather", zurich, ids[0])]), result("ok", id=ids[0])], TOOLS, {}
    yield "no_content_key", [USER, {"role": "assistant", "tool_calls": [call("ping", {}, ids[0])]},
                             result("pong", "ping", ids[0])], TOOLS, {}
    yield "reasoning_content", [USER, assistant("", [call("get_weather", zurich, ids[0])], reasoning_content="Look it up.\n"),
                                result("21", id=ids[0]), assistant("21.", reasoning_content=" Done. "), USER], TOOLS, {}
    yield "think_in_content", [USER, assistant("<think>\nhm\n</think>\n\nHello."), USER,
                               assistant("<think>x</think>Again.", [call("ping", {}, ids[0])]),
                               result("pong", "ping", ids[0])], TOOLS, {}
    yield "thinking_off", [SYSTEM, USER], TOOLS, {"enable_thinking": False}
    yield "thinking_on", [*step, done, USER], TOOLS, {"enable_thinking": True}
    yield "floats", [USER, assistant("", [call("search", floats, ids[0])]), result(json.dumps(floats), "search", ids[0])], TOOLS, {}
    yield "odd_values", [USER, assistant("", [call("search", {"query": None, "tags": [], "filter": {}, "in": True, "n": [1, [2, {"a": None}]]}, ids[0])]),
                         result("", "search", ids[0])], TOOLS, {}
    yield "control_characters", [{"role": "user", "content": "a\x00b\x07c\x1bd\x7fe\u2028f\u2029g\u0085h\ufeffi"},
                                 assistant("", [call("search", {"query": "\x01\u2028\u00ad\U0001f600é"}, ids[0])]),
                                 result("\x1c tail \x1f", "search", ids[0])], TOOLS, {}
    yield "white_space", [{"role": "system", "content": "  \n system \t\n"}, {"role": "user", "content": "\n\n hi \n "},
                          assistant(" \n ok \n\n"), {"role": "user", "content": " "}], TOOLS, {}
    yield "content_parts", [{"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "parts"}]}], TOOLS, {}
    yield "parts_in_result", [USER, assistant("", [call("ping", {}, ids[0])]),
                              {"role": "tool", "name": "ping", "tool_call_id": ids[0],
                               "content": [{"type": "text", "text": "pong"}]}], TOOLS, {}
    yield "markup_in_text", [{"role": "user", "content": "<|im_end|> {{ messages }} {% raw %} </s> <tool_call>"},
                             assistant("{'a': \"b\"}"), USER], TOOLS, {}
    yield "developer_role", [{"role": "developer", "content": "Be brief."}, USER], TOOLS, {}
    yield "no_generation_prompt", [*step, done], TOOLS, {"add_generation_prompt": False}
    yield "many_steps", [SYSTEM, USER, *([assistant("", [call("get_weather", zurich, ids[0])]), result("r", id=ids[0])] * 4), done,
                         USER, assistant("", [call("ping", {}, ids[1])]), result("p", "ping", ids[1])], TOOLS, {}
    yield "python_lookalikes", [{"role": "user", "content": "None True [1, 'a'] {'b': 1.0}"},
                                assistant("None"), {"role": "user", "content": "False"}], TOOLS, {}
    yield "sorted_and_cased", [USER, assistant("", [call("search", {"b": 1, "A": 2, "a": 3, "Ä": 4, "_": 5}, ids[0])])], TOOLS, {}
    yield "only_system", [SYSTEM], TOOLS, {}


def in_parts(source):
    """The same conversations with every text as a list of parts, for templates of image models that read nothing else."""
    if sum(render_transformers(source, *conversation[1:]) is not None for conversation in conversations()) >= 16:
        return
    for name, messages, tools, kwargs in conversations():
        parts = [{**m, "content": [{"type": "text", "text": m["content"]}]} if isinstance(m.get("content"), str) else m for m in messages]
        yield f"{name}_in_parts", parts, tools, kwargs


# ---- the two renderers -----------------------------------------------------------------------------------------------


class FrozenDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return FROZEN


def render_transformers(template, messages, tools, kwargs):
    """Text, or None where the template or Python raises."""
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[messages], tools=tools, chat_template=template,
            **{"add_generation_prompt": True, **SPECIAL_TOKENS, **kwargs},
        )
        return texts[0]
    except Exception:
        return None


def run_hone(hone, requests, *options):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    command = [hone, "render", "--jsonl", "--date", FROZEN.isoformat(), *options, "-"]
    done = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


def request_of(id, messages, tools, kwargs, **extra):
    kwargs = dict(kwargs)
    generation = kwargs.pop("add_generation_prompt", True)
    request = {"id": id, "messages": messages, "kwargs": {**SPECIAL_TOKENS, **kwargs}, "add_generation_prompt": generation, **extra}
    return request if tools is None else {**request, "tools": tools}


def family(name):
    return re.match(r"[a-z]+", name).group(0)


def compare_text(hone, templates, show):
    cases, requests = [], []
    for path in templates:
        source = path.read_text(encoding="utf-8")
        for name, messages, tools, kwargs in [*conversations(), *in_parts(source)]:
            expected = render_transformers(source, messages, tools, kwargs)
            id = f"{path.stem}/{name}"
            cases.append((family(path.stem), id, expected))
            requests.append(request_of(id, messages, tools, kwargs, template=str(path)))
    # Templates that lines name are read out of one directory.
    folder = str(templates[0].parent)
    answers = {answer["id"]: answer for answer in run_hone(hone, requests, "--template", folder)}
    table, wrong, lenient = defaultdict(Counter), [], 0
    for group, id, expected in cases:
        answer = answers[id]
        if expected is None:
            table[group]["raise"] += 1
            lenient += "text" in answer
            if "text" in answer and show:
                print(f"--- {id}: renders, Python raises")
            continue
        same = answer.get("text") == expected
        table[group]["rendered"] += 1
        table[group]["identical"] += same
        if not same:
            wrong.append(id)
            if show:
                print_difference(id, expected, answer)
    return table, wrong, lenient


def print_difference(id, expected, answer):
    got = answer.get("text")
    if got is None:
        return print(f"--- {id}: {answer['error']}")
    at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    print(f"--- {id} at {at}\n  transformers {expected[max(at - 60, 0):at + 60]!r}\n  hone         {got[max(at - 60, 0):at + 60]!r}")


# ---- ids -------------------------------------------------------------------------------------------------------------

SCRIPTS = [
    "The quick brown fox; it's 3.14159 and 1,000,000 (or 2^10=1024)!", "Příliš žluťoučký kůň úpěl ďábelské ódy", "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία", "いろはにほへと ちりぬるを 東京都", "天地玄黃，宇宙洪荒。", "다람쥐 헌 쳇바퀴에 타고파", "اَلْعَرَبِيَّةُ ١٢٣", "עִבְרִית",
    "हिन्दी भाषा", "ภาษาไทย", "👩‍👩‍👧‍👦 🇨🇭 e\u0301 \u00e9 ﬁ ① Å", "\t\ttabs\n\n\nlines\r\n  spaces   end  ", "def f(x):\n    return {'a': [1, 2.5e-7]}  # ok",
    "\x00\x01\x7f\u200b\u2028\ufeff\U000e0001", "<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\"}</tool_call><|im_end|>\n", "</s><s> <|im_end|>x<|im_end|> y",
]
QWEN_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<pad>"]


def train(kind):
    """A tokenizer of a kind found in the wild, trained on the spot: (Tokenizer)."""
    if kind == "qwen":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    elif kind == "gpt2":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        alphabet = []
    fallback = [f"<0x{byte:02X}>" for byte in range(256)] if kind == "llama2" else []
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, special_tokens=["<unk>", *MARKS, *fallback], show_progress=False)
    tokenizer.train_from_iterator(SCRIPTS * 3 + [json.dumps(TOOLS, ensure_ascii=False)], trainer)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in ("<tool_call>", "</tool_call>")])
    return tokenizer


def compare_ids(hone, scratch, extra):
    """Ids of prompts and of plain text in many scripts, against Python's tokenizers."""
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    tokenizers = {kind: train(kind) for kind in ("qwen", "gpt2", "llama2")}
    for path in extra:
        tokenizers[path.parent.name] = Tokenizer.from_file(str(path))
    total = same = 0
    for name, tokenizer in tokenizers.items():
        folder = scratch / name
        folder.mkdir()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        texts = [*SCRIPTS, "".join(SCRIPTS), json.dumps(TOOLS, ensure_ascii=False)] + [c[1][0]["content"] for c in conversations() if isinstance(c[1][0]["content"], str)]
        messages = [[{"role": "user", "content": text}] for text in texts]
        answers = run_hone(hone, [request_of(i, m, None, {}) for i, m in enumerate(messages)], "--model", str(folder), "--ids")
        for conversation, answer in zip(messages, answers, strict=True):
            text = render_transformers(template, conversation, None, {})
            expected = tokenizer.encode(text, add_special_tokens=False).ids
            total += 1
            same += answer.get("ids") == expected
            if answer.get("ids") != expected:
                print(f"--- ids differ: {name} {text[:80]!r} {answer.get('error', '')}")
    return same, total, sorted(tokenizers)


# ---- the report ------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", required=True, help="the hone binary")
    parser.add_argument("--wheel", required=True, type=pathlib.Path, help="the trl wheel, whose templates are rendered")
    parser.add_argument("--tokenizer", action="append", default=[], type=pathlib.Path, help="further tokenizer.json files")
    parser.add_argument("--show", action="store_true", help="print every difference")
    args = parser.parse_args()
    chat_template_utils.datetime = FrozenDatetime
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        with zipfile.ZipFile(args.wheel) as wheel:
            wheel.extractall(scratch, [name for name in wheel.namelist() if name.endswith(".jinja")])
        templates = sorted((scratch / "trl" / "chat_templates").glob("*.jinja"))
        table, wrong, lenient = compare_text(args.hone, templates, args.show)
        same_ids, all_ids, kinds = compare_ids(args.hone, scratch, args.tokenizer)

    rendered, identical = (sum(row[key] for row in table.values()) for key in ("rendered", "identical"))
    raised = sum(row["raise"] for row in table.values())
    print(f"transformers {transformers.__version__}, {args.wheel.name}: {len(templates)} templates, {rendered + raised} conversations")
    print(f"{'family':<12} {'identical':>9} {'rendered':>9} {'share':>8}   Python raises")
    for group, row in sorted(table.items()):
        share = row["identical"] / row["rendered"] if row["rendered"] else 1.0
        print(f"{group:<12} {row['identical']:>9} {row['rendered']:>9} {share:>8.2%}   {row['raise']}")
    share = identical / rendered
    print(f"{'all':<12} {identical:>9} {rendered:>9} {share:>8.2%}   {raised} (hone renders {lenient} of them)")
    print(f"ids identical to tokenizers: {same_ids} of {all_ids} texts ({', '.join(kinds)})")
    for id in wrong[:40]:
        print(f"differs: {id}")

    failed = [g for g, row in table.items() if g.startswith(BAR_FAMILIES) and row["identical"] != row["rendered"]]
    if failed or share < BAR_OVERALL or same_ids != all_ids:
        print(f"FAILED: families {failed}, overall {share:.2%} (bar {BAR_OVERALL:.0%}), ids {same_ids}/{all_ids}")
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
