#!/usr/bin/env python3
"""Checks one compile-fail test: it compiles as it stands, and with -DFAULT fails with the message it promises.

The file says what it expects in comments: `// expect: REGEX` for every compiler, `// expect(nvcc): REGEX` for one. Each
must be found in the compiler's output, which must not be longer than ten lines. The sound form is compiled by g++, and by
another compiler of files that say `// sound: nvcc` or `// sound: clang`: the tests at large are for what these compile.
Exit status: 0 passed, 1 failed, 77 no such compiler.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

MAXIMUM_LINES = 10
SKIPPED = 77
ARGUMENTS = {
    "g++": ["-std=c++20", "-fsyntax-only"],
    "clang": ["-std=c++20", "-fsyntax-only"],
    # nvcc has no -fsyntax-only; the architecture named is the one cheapest to stop at: PTX, no assembly.
    "nvcc": ["-std=c++20", "-x", "cu", "-arch=compute_80", "-code=compute_80", "-c"],
}


def compile_file(options: argparse.Namespace, extra: list[str]) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory() as scratch:
        output = ["-o", f"{scratch}/object"] if options.compiler == "nvcc" else []
        includes = ["-I", options.include, *(["-isystem", options.system_include] if options.system_include else [])]
        included = options.prelude and "#include <tenet/tenet.hpp>" in options.file.read_text()
        prelude = ["-include", options.prelude] if included else []
        command = [options.command, *ARGUMENTS[options.compiler], *prelude, *includes, *extra, str(options.file), *output]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return result.returncode, result.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--compiler", choices=list(ARGUMENTS), required=True)
    parser.add_argument("--command", required=True, help="the compiler's program")
    parser.add_argument("--include", required=True)
    parser.add_argument("--system-include")
    parser.add_argument("--prelude", help="a file that includes only <tenet/tenet.hpp>, and may be precompiled")
    options = parser.parse_args()

    if options.command.endswith("NOTFOUND"):
        print(f"SKIPPED: {options.compiler} is not installed")
        return SKIPPED

    expectations = [
        pattern
        for compiler, pattern in re.findall(r"//\s*expect(?:\(([^)]*)\))?:\s*(.+?)\s*$", options.file.read_text(), re.M)
        if compiler in ("", options.compiler)
    ]
    failures = [] if expectations else ["the file names no message: add a line `// expect: REGEX`"]

    sound: list[str] = []
    if options.compiler == "g++" or re.search(f"^// sound: {options.compiler}$", options.file.read_text(), re.M):
        status, sound = compile_file(options, [])
        if status != 0:
            failures.append("does not compile without the fault")
    status, lines = compile_file(options, ["-DFAULT"])
    if status == 0:
        failures.append("compiles with the fault")
    message = "\n".join(lines)
    failures += [f"not in the message: {pattern}" for pattern in expectations if not re.search(pattern, message)]
    if len(lines) > MAXIMUM_LINES:
        failures.append(f"the message has {len(lines)} lines, at most {MAXIMUM_LINES} are allowed")

    print(f"--- {options.compiler}, with the fault: {len(lines)} lines", *lines, sep="\n")
    if failures and sound:
        print("--- without the fault", *sound[:40], sep="\n")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
