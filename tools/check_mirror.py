#!/usr/bin/env python3
"""Checks that tests mirror the library: include/tenet/core/shape.hpp is tested by tests/core/shape.cpp (or .cu), and that names
of test cases are sound: no two in one program (one folder of tests) are the same, which Catch2 finds only when the
program runs; and none has a semicolon, at which CMake would cut it in two."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Umbrella headers: they only include others.
EXEMPT = ["tenet.hpp", "cuda.hpp"]


def main() -> int:
    library = ROOT / "include" / "tenet"
    headers = [header.relative_to(library) for header in sorted(library.rglob("*.hpp"))]
    tested = [header for header in headers if header.as_posix() not in EXEMPT]
    wanted = {header: ROOT / "tests" / header.with_suffix(".cpp") for header in tested}
    wanted |= {header: test.with_suffix(".cu") for header, test in wanted.items() if test.with_suffix(".cu").exists()}
    missing = {header: test for header, test in wanted.items() if not test.exists()}
    for header, test in missing.items():
        print(f"include/tenet/{header}: no test {test.relative_to(ROOT)}")
    empty = [test for test in wanted.values() if test.exists() and "TEST_CASE" not in test.read_text()]
    for test in empty:
        print(f"{test.relative_to(ROOT)}: holds no TEST_CASE")
    unsound = 0
    programs = {(test.parent, test.suffix) for ending in ("cpp", "cu") for test in (ROOT / "tests").rglob(f"*.{ending}")}
    for folder, suffix in sorted(programs):
        files = collections.defaultdict(list)
        for test in sorted(folder.glob(f"*{suffix}")):
            for name in re.findall(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"', test.read_text()):
                files[name].append(test.name)
        for name, places in files.items():
            if ";" in name:
                unsound += 1
                print(f'{folder.relative_to(ROOT)}/{places[0]}: a semicolon in the name "{name}"')
            if len(places) > 1:
                unsound += 1
                print(f'{folder.relative_to(ROOT)}: {", ".join(places)} have a test case of the name "{name}"')
    print(f"mirror: {len(headers)} headers, {len(missing)} without a test, {len(empty)} empty tests, "
          f"{unsound} unsound names")
    return 1 if missing or empty or unsound else 0


if __name__ == "__main__":
    sys.exit(main())
