#!/usr/bin/env python3
"""Compiles the C++ of the documentation, and looks whether the files it links to are there.

A page's blocks marked ```cpp are declarations or whole programs, those marked ```cpp body are statements. All of a page
make one source, in their order, each body in a function of its own; a block with a main ends a source. `#include
<tenet/tenet.hpp>` and `using namespace tenet` stand before a source that includes nothing itself. Blocks marked ```cpp
excerpt are not compiled: code that is quoted from the library, or that is meant to fail.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```cpp *(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PREAMBLE = "#include <tenet/tenet.hpp>\n\nusing namespace tenet;\n"


def sources(page: pathlib.Path) -> list[str]:
    """The page's programs; #line makes the compiler name the page's lines."""
    text = page.read_text()
    found, parts = [], []
    for number, block in enumerate(BLOCK.finditer(text)):
        mark, code = block.groups()
        if mark == "excerpt":
            continue
        if mark not in ("", "body"):
            raise SystemExit(f"{page}: a block is marked 'cpp {mark}'; known are cpp, cpp body and cpp excerpt")
        code = f'#line {text.count(chr(10), 0, block.start(2)) + 1} "{page}"\n{code}'
        parts.append(f"void body_{number}() {{\n{code}}}\n" if mark == "body" else code)
        if re.search(r"^int main\(", code, re.MULTILINE):
            found.append("".join(parts))
            parts = []
    if parts:
        found.append("".join(parts))
    return [code if "#include <tenet/" in code else PREAMBLE + code for code in found]


def broken_links(page: pathlib.Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in LINK.findall(text) if not (page.parent / link).exists()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--compiler", default="c++")
    options = parser.parse_args()
    failed = False
    for page in options.pages:
        for link in broken_links(page):
            print(f"{page}: no file '{link}'")
            failed = True
        for code in sources(page):
            command = [options.compiler, "-std=c++20", "-fsyntax-only", "-I", str(ROOT / "include"), "-I",
                       str(ROOT / "examples"), "-x", "c++", "-"]
            failed = subprocess.run(command, input=code, text=True).returncode != 0 or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
