#!/usr/bin/env python3
"""check_trace.py FILE [COMMAND…]: runs the command, if any, and checks the file against the Trace Event format as
Perfetto and chrome://tracing read it: fields and their types, a name for every process and row, spans of a row that
lie within each other or apart, parents before their children, and for each beginning of an overlapping span its end."""
import collections
import json
import subprocess
import sys

ROUNDING = 1e-3  # microseconds


def faults_of(events: list[dict]) -> list[str]:
    faults, names, spans, open_halves = [], set(), collections.defaultdict(list), collections.Counter()
    for number, event in enumerate(events):
        where = f"event {number}, {event.get('name')!r}"
        for field, kinds in {"ph": str, "pid": int, "tid": int, "name": str, "cat": str}.items():
            if not isinstance(event.get(field), kinds):
                faults.append(f"{where}: {field} is {event.get(field)!r}")
        phase = event.get("ph")
        if phase == "M":
            if event["name"] in ("process_name", "thread_name"):
                names.add((event["pid"], event["tid"] if event["name"] == "thread_name" else None))
                if not isinstance(event["args"]["name"], str) or not event["args"]["name"]:
                    faults.append(f"{where}: no name")
            continue
        if not isinstance(event.get("ts"), (int, float)) or (phase != "e" and not isinstance(event.get("args"), dict)):
            faults.append(f"{where}: no time or arguments")
        elif phase == "X":
            if not isinstance(event.get("dur"), (int, float)) or event["dur"] < 0:
                faults.append(f"{where}: its length is {event.get('dur')!r}")
            spans[event["pid"], event["tid"]].append(event)
        elif phase in "be":
            key = (event["pid"], event["tid"], event["id"], event["name"])
            open_halves[key] += 1 if phase == "b" else -1
        else:
            faults.append(f"{where}: unknown phase {phase!r}")
    faults += [f"{key}: a beginning without an end, or the other way round" for key, n in open_halves.items() if n != 0]
    for (process, row), row_spans in spans.items():
        if (process, None) not in names or (process, row) not in names:
            faults.append(f"process {process}, row {row}: no name")
        stack: list[dict] = []
        for event in sorted(row_spans, key=lambda e: e["ts"]):  # stable: what the file has first stays first
            end = event["ts"] + event["dur"]
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"] + ROUNDING:
                stack.pop()
            if stack and end > stack[-1]["ts"] + stack[-1]["dur"] + ROUNDING:
                faults.append(f"process {process}, row {row}: {event['name']!r} at {event['ts']} ends behind "
                              f"{stack[-1]['name']!r}, within which it begins")
            if event["dur"] > 0:
                stack.append(event)
    return faults


def main() -> int:
    path, *command = sys.argv[1:]
    if command and subprocess.run(command).returncode != 0:
        return 1
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    faults = faults_of(events)
    print(*faults[:20], sep="\n", end="\n" if faults else "")
    kinds = collections.Counter(event["cat"] for event in events if event["ph"] in "Xb")
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{path}: {len(events)} events, {len(faults)} faults; {counts}")
    return 1 if faults or not kinds else 0


if __name__ == "__main__":
    sys.exit(main())
