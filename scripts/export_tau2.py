#!/usr/bin/env python3
"""Writes the texts of tau2-bench that stand in its code, not in its data, beside a domain's data: tool descriptions and
the agent's instructions. Hone shows the agent these where a data directory has them, and its own words elsewhere.

    git clone https://github.com/sierra-research/tau2-bench && git -C tau2-bench checkout a2c0247
    python3.11 scripts/export_tau2.py --tau2 tau2-bench --domain telecom --out tau2-bench/data/tau2/domains/telecom

`tools.json`, and for telecom `user_tools.json` and `solo_tools.json`, are lists in OpenAI's form, as tau2 sends them;
`agent_instruction.md` and `agent_instruction_solo.md` fill the `<instructions>` of the system prompt. Needs pydantic 2
and docstring_parser.
"""

import argparse
import importlib
import json
import pathlib
import re
import sys

from record_tau import Stubs, package

KITS = {"retail": "RetailTools", "airline": "AirlineTools", "telecom": "TelecomTools"}


def kit(domain, module, name):
    return getattr(importlib.import_module(f"tau2.domains.{domain}.{module}"), name)(None)


def schemas(toolkit):
    return [tool.openai_schema for tool in toolkit.get_tools().values()]


def instruction(source, name):
    """A text of upstream's agents, read without importing them: they import far more."""
    found = re.search(name + r' = """\n(.*?)\n""".strip\(\)', source, re.DOTALL)
    if found is None:
        sys.exit(f"llm_agent.py has no {name}; it is of another version than the one named above")
    return found.group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tau2", type=pathlib.Path, required=True)
    parser.add_argument("--domain", choices=list(KITS), required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    sys.meta_path.append(Stubs())
    package("tau2", args.tau2 / "src/tau2")
    agent = (args.tau2 / "src/tau2/agent/llm_agent.py").read_text()
    files = {
        "tools.json": schemas(kit(args.domain, "tools", KITS[args.domain])),
        "agent_instruction.md": instruction(agent, "AGENT_INSTRUCTION"),
    }
    if args.domain == "telecom":
        user = schemas(kit("telecom", "user_tools", "TelecomUserTools"))
        told = re.search(r'def done\(\) -> str:\n +"""(.*?)"""', agent, re.DOTALL)
        if told is None:
            sys.exit("llm_agent.py has no tool `done`; it is of another version than the one named above")
        done = {"properties": {}, "title": "parameters", "type": "object"}
        done = {"type": "function", "function": {"name": "done", "description": told.group(1), "parameters": done}}
        files["user_tools.json"] = user
        files["solo_tools.json"] = files["tools.json"] + user + [done]
        solo = instruction(agent, "AGENT_SOLO_INSTRUCTION").replace("{stop_function_name}", "done")
        files["agent_instruction_solo.md"] = solo
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (args.out / name).write_text(text)
        print(args.out / name)


if __name__ == "__main__":
    main()
