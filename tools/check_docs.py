#!/usr/bin/env python3
"""Compiles the C++ of the documentation, and looks whether the files it links to are there.

A page's blocks marked ```cpp are declarations or whole programs, those marked ```cpp body are statements. All of a page
make one source, in their order, each body and each main in a function of its own, so that what one block declares the
next ones may use. `#include <tenet/tenet.hpp>` and `using namespace tenet` stand before a page that includes nothing
itself. Blocks marked ```cpp excerpt are not compiled: code that is quoted from the library, or that is meant to fail.

What docs/errors.md quotes in bold are sentences of the library's headers, but for one that begins with the compilers'
own quotation mark.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```cpp *(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
LITERAL = r'"((?:[^"\\\n]|\\.)*)"'
PREAMBLE = "#include <tenet/tenet.hpp>\n\nusing namespace tenet;\n"


def source(page: pathlib.Path) -> str:
    """The page's source; #line makes the compiler name the page's lines."""
    text = page.read_text()
    parts = []
    for number, block in enumerate(BLOCK.finditer(text)):
        mark, code = block.groups()
        if mark not in ("", "body", "excerpt"):
            raise SystemExit(f"{page}: a block is marked 'cpp {mark}'; known are cpp, cpp body and cpp excerpt")
        if mark == "excerpt":
            continue
        code = re.sub(r"^int main\(", f"int main_{number}(", code, flags=re.MULTILINE)
        code = f'#line {text.count(chr(10), 0, block.start(2)) + 1} "{page}"\n{code}'
        parts.append(f"void body_{number}() {{\n{code}}}\n" if mark == "body" else code)
    code = "".join(parts)
    return code if "#include <tenet/" in code else PREAMBLE + code


def has_code(page: pathlib.Path) -> bool:
    return any(block.group(1) != "excerpt" for block in BLOCK.finditer(page.read_text()))


def broken_links(page: pathlib.Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    return [link for link in LINK.findall(text) if not (page.parent / link).exists()]


def unknown_messages(page: pathlib.Path) -> list[str]:
    """What the page quotes and no header says. Literals that stand beside each other are one, as in C++."""
    known = []
    for header in (ROOT / "include").rglob("*.hpp"):
        for literals in re.finditer(rf"{LITERAL}(?:\s*{LITERAL})*", header.read_text()):
            known.append("".join(re.findall(LITERAL, literals.group())))
    quoted = [" ".join(quote.split()).rstrip("… ") for quote in re.findall(r"\*\*(.+?)\*\*", page.read_text(), re.DOTALL)]
    return [quote for quote in quoted if quote[0] != "‘" and not any(quote in message for message in known)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--prelude", help="a file that includes only <tenet/tenet.hpp>, and may be precompiled")
    options = parser.parse_args()
    failed = False
    for page in options.pages:
        for link in broken_links(page):
            print(f"{page}: no file '{link}'")
            failed = True
        for message in unknown_messages(page) if page.name == "errors.md" else []:
            print(f"{page}: no header says '{message}'")
            failed = True
        if not has_code(page):
            continue
        code = source(page)
        prelude = ["-include", options.prelude] if options.prelude and "#include <tenet/tenet.hpp>" in code else []
        command = [options.compiler, "-std=c++20", "-fsyntax-only", "-Wno-return-type", *prelude, "-I", str(ROOT / "include"),
                   "-I", str(ROOT / "examples"), "-x", "c++", "-"]
        failed = subprocess.run(command, input=code, text=True).returncode != 0 or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
