#!/usr/bin/env python3
"""timeline_figure.py TRACE FIGURE.svg: draws one training step of a file that a timeline has written, the one that is
laid beside the plan: measured rows of all ranks, and the planned ones of the first."""
import html
import json
import sys

COLOURS = {"forward": "#7fb2e5", "backward": "#f0a56b", "update": "#9ccc8f", "collective": "#c79ad6",
           "message": "#e3c9ec", "wait": "#e6e6e6"}
LEFT, RIGHT, ROW, GAP = 190, 970, 26, 14


def colour(event: dict) -> str:
    return COLOURS.get(event["args"].get("pass", event["cat"]), "#dddddd")


def text(x: float, y: float, words: str, size: int = 11, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{html.escape(words)}</text>'


def main() -> int:
    trace, figure = sys.argv[1:]
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    plans = sorted(pid for pid, name in processes.items() if name.startswith("planned"))
    planned = [e for e in spans if e["pid"] == plans[0]]
    begin = min(e["ts"] for e in planned)
    step = min((e for e in spans if e["cat"] == "training step" and e["pid"] == 0), key=lambda e: abs(e["ts"] - begin))
    end = max(step["ts"] + step["dur"], max(e["ts"] + e["dur"] for e in planned))
    scale = (RIGHT - LEFT) / (end - begin)

    parts, y, last = [], 30, None
    shown = sorted(row for row in rows if row[0] not in plans[1:])
    for row in shown:
        if row[0] != last:
            y += GAP
            parts.append(text(8, y + 16, processes[row[0]], 12))
            last = row[0]
        parts.append(text(LEFT - 8, y + 16, rows[row], 11, "end"))
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{RIGHT - LEFT}" height="{ROW - 4}" fill="#fafafa"/>')
        for event in sorted((e for e in spans if (e["pid"], e["tid"]) == row), key=lambda e: (e["ts"], -e["dur"])):
            first, behind = max(event["ts"], begin), min(event["ts"] + event["dur"], end)
            if behind <= first or event["cat"] in ("training step", "pass"):
                continue
            x, width = LEFT + (first - begin) * scale, max((behind - first) * scale, 0.3)
            inside = 5 if rows[row].startswith("communication") and event["cat"] != "collective" else 0
            title = f'{event["name"]}: {event["dur"]:.1f} us'
            parts.append(f'<rect x="{x:.2f}" y="{y + inside}" width="{width:.2f}" height="{ROW - 4 - 2 * inside}" '
                         f'fill="{colour(event)}" stroke="#ffffff" stroke-width="0.3">'
                         f'<title>{html.escape(title)}</title></rect>')
            if width > 6.2 * len(event["name"]) and inside == 0:
                parts.append(text(x + width / 2, y + 15, event["name"], 10, "middle"))
        y += ROW
    y += GAP
    for k in range(6):
        x = LEFT + (RIGHT - LEFT) * k / 5
        parts.append(f'<line x1="{x:.1f}" y1="34" x2="{x:.1f}" y2="{y - 8}" stroke="#cccccc" stroke-width="0.5"/>')
        parts.append(text(x, y + 6, f"{(end - begin) * k / 5 / 1000:.1f} ms", 10, "middle"))
    for k, name in enumerate(("forward", "backward", "update", "collective", "wait")):
        parts.append(f'<rect x="{LEFT + 110 * k}" y="10" width="12" height="12" fill="{COLOURS[name]}"/>')
        parts.append(text(LEFT + 110 * k + 17, 20, name))
    with open(figure, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="{y + 16}" font-family="sans-serif">\n'
                   f'<rect width="1000" height="{y + 16}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n")
    print(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
