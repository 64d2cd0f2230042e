#!/usr/bin/env python3
"""Checks that a header is about one thing: a warning above 400 lines, a fault above 600."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARNING, FAULT = 400, 600


def main() -> int:
    sizes = {header: len(header.read_text().splitlines()) for header in sorted((ROOT / "include").rglob("*.hpp"))}
    for header, lines in sizes.items():
        if lines > WARNING:
            advice = "split it" if lines > FAULT else "think about splitting it"
            print(f"{header.relative_to(ROOT)}: {lines} lines; {advice}")
    faults = sum(lines > FAULT for lines in sizes.values())
    print(f"sizes: {len(sizes)} headers, {sum(sizes.values())} lines, {faults} headers over {FAULT}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
