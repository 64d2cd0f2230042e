#!/usr/bin/env python3
"""Checks compile-fail tests: each compiles as it stands, and with -DFAULT fails with the message it promises.

A file says what it expects in comments: `// expect: REGEX` for every compiler, `// expect(nvcc): REGEX` for one. Each
must be found in the compiler's output, which must not be longer than ten lines. The sound forms are compiled by g++, with
--sound: all in one source, each in a namespace of its own; and by another compiler with the fault, of files that say
`// sound: nvcc` or `// sound: clang`: the tests at large are for what these compile.

nvcc knows no headers that are compiled once, and reads them in 3 s. It goes on behind an error, so all files are one
source for it, with the fault, too, and a message belongs to the file that it names last. In functions it looks
for mistakes only where there are no others: files that it has said nothing about are compiled once more, without those
whose faults it has found.
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
    # nvcc has no -fsyntax-only; the architecture named is the one cheapest to stop at: PTX, no assembly. In a namespace
    # `main` has to return something, which is warning 940.
    "nvcc": ["-std=c++20", "-arch=compute_80", "-code=compute_80", "-c", "-Xcudafe=--diag_suppress=940"],
}
INCLUDE = re.compile(r"^#include.*$", re.M)
LAST_LINE_OF_NVCC = re.compile(r"^\d+ errors? detected in the compilation of .*$", re.M)


def compile_file(options: argparse.Namespace, file: pathlib.Path, extra: list[str]) -> tuple[int, str]:
    included = options.prelude and "#include <tenet/tenet.hpp>" in file.read_text()
    prelude = ["-include", options.prelude] if included else []
    output = ["-o", f"{file}.o"] if options.compiler == "nvcc" else []
    command = [options.command, *ARGUMENTS[options.compiler], *prelude, "-I", options.include, *extra, str(file), *output]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return result.returncode, result.stdout


def compile_together(options: argparse.Namespace, files: list[pathlib.Path], extra: list[str]) -> tuple[int, str]:
    texts = {file: file.read_text() for file in files}
    includes = dict.fromkeys(line for text in texts.values() for line in INCLUDE.findall(text))
    parts = [f'namespace {file.stem} {{\n#line 1 "{file}"\n{INCLUDE.sub("", text)}\n}}' for file, text in texts.items()]
    with tempfile.TemporaryDirectory() as scratch:
        together = pathlib.Path(scratch) / ("together.cu" if options.compiler == "nvcc" else "together.cpp")
        together.write_text("\n".join([*includes, *parts, ""]))
        return compile_file(options, together, extra)


def faults_of_nvcc(options: argparse.Namespace) -> dict[pathlib.Path, str]:
    """What nvcc says about each file with the fault; nothing of those that compile."""
    messages: dict[pathlib.Path, str] = {}
    while rest := [file for file in options.files if file not in messages]:
        _, output = compile_together(options, rest, ["-DFAULT"])
        names = {str(file): file for file in rest}
        found: dict[pathlib.Path, str] = {}
        for block in re.split(r"^(?=\S+\(\d+\): (?:error|warning))", LAST_LINE_OF_NVCC.sub("", output), flags=re.M):
            named = [name for name in re.findall(r"[\w./+-]+\.cpp", block) if name in names]
            if named:
                file = names[named[-1]]
                found[file] = found.get(file, "") + block.rstrip() + "\n"
            elif ": error" in block:
                sys.exit(f"an error of no file in particular:\n{block}")
        if not found:
            break
        # With the line that counts the errors, which a file has where it is compiled alone.
        messages |= {file: f"{text}\n1 error detected in the compilation of {file}.\n" for file, text in found.items()}
    return messages


def failures_of(options: argparse.Namespace, file: pathlib.Path, message: str) -> list[str]:
    expectations = [
        pattern
        for compiler, pattern in re.findall(r"//\s*expect(?:\(([^)]*)\))?:\s*(.+?)\s*$", file.read_text(), re.M)
        if compiler in ("", options.compiler)
    ]
    failures = [] if expectations else ["the file names no message: add a line `// expect: REGEX`"]
    failures += [f"not in the message: {pattern}" for pattern in expectations if not re.search(pattern, message)]
    lines = message.splitlines()
    if len(lines) > MAXIMUM_LINES:
        failures.append(f"the message has {len(lines)} lines, at most {MAXIMUM_LINES} are allowed")
    print(f"--- {file.stem}, {options.compiler}, with the fault: {len(lines)} lines", *lines, sep="\n")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--compiler", choices=list(ARGUMENTS), required=True)
    parser.add_argument("--command", required=True, help="the compiler's program")
    parser.add_argument("--include", required=True)
    parser.add_argument("--sound", action="store_true", help="only check that all of them compile as they stand")
    parser.add_argument("--prelude", help="a file that includes only <tenet/tenet.hpp>, and may be precompiled")
    options = parser.parse_args()

    if options.command.endswith("NOTFOUND"):
        print(f"SKIPPED: {options.compiler} is not installed")
        return SKIPPED

    together = options.compiler == "nvcc"
    if together:
        options.prelude = None
    of_nvcc = faults_of_nvcc(options) if together and not options.sound else {}
    failed = False

    def report(name: str, failures: list[str]) -> None:
        nonlocal failed
        failed |= bool(failures)
        for failure in failures:
            print(f"FAILED: {name}: {failure}")

    for file in options.files if not options.sound else []:
        status, message = (int(file in of_nvcc), of_nvcc.get(file, "")) if together else compile_file(options, file, ["-DFAULT"])
        failures = failures_of(options, file, message)
        report(file.stem, failures if status != 0 else [*failures, "compiles with the fault"])
    says_so = re.compile(f"^// sound: {options.compiler}$", re.M)
    sound = options.files if options.sound else [file for file in options.files if says_so.search(file.read_text())]
    if sound:
        status, output = compile_together(options, sound, [])
        if status != 0:
            print("--- without the fault", *output.splitlines()[:40], sep="\n")
            report(" ".join(file.stem for file in sound), ["does not compile without the fault"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
