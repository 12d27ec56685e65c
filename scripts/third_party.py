#!/usr/bin/env python3
"""THIRD-PARTY.md: the crates inside the binary, with versions, licences and copyright lines, from Cargo's own metadata.

    scripts/third_party.py            write THIRD-PARTY.md
    scripts/third_party.py --check    end with 1 when the file is not what it would write
    scripts/third_party.py --texts F  also write every licence text to F, for a binary that is handed on
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "THIRD-PARTY.md"
TARGET = "x86_64-unknown-linux-gnu"
LICENCE_FILES = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
COPYRIGHT = re.compile(r"^\W*(copyright\s+(?:\(c\)|©|\d{4}).*)$", re.IGNORECASE | re.MULTILINE)


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def shipped(meta):
    """Packages that `hone` links, by its normal dependencies; build scripts, macros' tools and tests are left out."""
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    packages = {package["id"]: package for package in meta["packages"]}
    members = set(meta["workspace_members"])
    start = next(id for id in members if packages[id]["name"] == "hone")
    seen, ahead = set(), [start]
    while ahead:
        id = ahead.pop()
        if id in seen:
            continue
        seen.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                ahead.append(dependency["pkg"])
    found = [packages[id] for id in seen - members]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def licence_texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and LICENCE_FILES.match(path.name))
    return [(path.name, path.read_text(encoding="utf-8", errors="replace")) for path in files]


def copyrights(package):
    lines = []
    for _, text in licence_texts(package):
        for line in COPYRIGHT.findall(text):
            line = " ".join(line.split()).rstrip(".")
            # The form at the end of the Apache licence, to be filled in, names nobody.
            if "[yyyy]" not in line and "{yyyy}" not in line and line not in lines:
                lines.append(line)
    return lines[:3]


def page(packages):
    out = [
        "# Third-party software",
        "",
        f"The {len(packages)} crates inside the `hone` binary ({TARGET}), from Cargo's metadata by `scripts/third_party.py`.",
        "`scripts/third_party.py --texts FILE` collects their licence texts for a binary that is handed on.",
        "",
        "| crate | version | licence | copyright |",
        "|---|---|---|---|",
    ]
    for package in packages:
        licence = (package["license"] or "see its licence file").replace("/", " OR ").replace("  ", " ")
        name = package["name"]
        link = package["repository"] or f"https://crates.io/crates/{name}"
        holders = "; ".join(copyrights(package)).replace("|", "\\|")
        out.append(f"| [{name}]({link}) | {package['version']} | {licence} | {holders} |")
    return "\n".join(out) + "\n"


def texts(packages):
    by_text = {}
    for package in packages:
        for name, text in licence_texts(package):
            by_text.setdefault(text.strip(), []).append(f"{package['name']} {package['version']} ({name})")
    rule = "=" * 100
    return f"\n\n{rule}\n".join("\n".join(users) + f"\n{rule}\n\n" + text for text, users in by_text.items()) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--texts", type=pathlib.Path)
    arguments = parser.parse_args()
    packages = shipped(metadata())
    written = page(packages)
    if arguments.texts:
        arguments.texts.write_text(texts(packages), encoding="utf-8")
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != written:
            sys.exit("THIRD-PARTY.md is not up to date: run scripts/third_party.py")
    else:
        PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
