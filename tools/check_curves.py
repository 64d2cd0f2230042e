#!/usr/bin/env python3
"""check_curves.py PICTURE.svg [FIGURES.json [COMMAND…]]: runs the command, if any, and checks a picture of curves that
examples/common/plot.hpp has drawn: it is XML, its words and curves lie within it, each panel has axes whose ticks stand
where their numbers belong, and a curve for each name of the legend; and the points lie where the figures say."""
import json
import math
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

SVG = "{http://www.w3.org/2000/svg}"
WIDTH_OF_LETTER = 0.56  # of its size, on average: Helvetica's
NEAR = 0.1  # of what are pixels


def number(words: str) -> float:
    """Of a tick: 16,384, 10 M."""
    scale = {"M": 1e6, "G": 1e9}.get(words[-1], 1.0)
    return float(words.rstrip("MG ").replace(",", "")) * scale


class Axis:
    """From numbers to places, by its ticks."""

    def __init__(self, name: str, ticks: list[tuple[float, float]], faults: list[str]) -> None:
        self.is_logarithmic = all(value > 0 for value, _ in ticks)
        ticks = sorted(ticks)
        if len(ticks) < 2:
            faults.append(f"{name}: {len(ticks)} ticks")
            ticks = [(1, 0), (2, 1)]
        (first, begin), (last, end) = ticks[0], ticks[-1]
        self.first, self.begin, self.slope = first, begin, (end - begin) / (self.scaled(last) - self.scaled(first))
        faults += [f"{name}: the tick {value:g} stands at {place}, and not at {self.at(value):.1f}"
                   for value, place in ticks if abs(self.at(value) - place) > NEAR]

    def scaled(self, value: float) -> float:
        return math.log(value) if self.is_logarithmic else value

    def at(self, value: float) -> float:
        return self.begin + self.slope * (self.scaled(value) - self.scaled(self.first))


def outside(root: xml.Element) -> list[str]:
    """Words that do not lie within the picture."""
    width, height = (float(root.get(name)) for name in ("width", "height"))
    faults = []
    for text in root.iter(f"{SVG}text"):
        x, y = float(text.get("x")), float(text.get("y"))
        size = float(text.get("font-size", root.get("font-size")))
        length = WIDTH_OF_LETTER * size * len(text.text)
        before = {"middle": length / 2, "end": length}.get(text.get("text-anchor"), 0)
        left, right, top, bottom = x - before, x - before + length, y - size, y + size / 3
        if text.get("transform"):  # from below to above
            left, right, top, bottom = x - size, x + size / 3, y - length + before, y + before
        if left < 0 or right > width or top < 0 or bottom > height:
            faults.append(f"{text.text!r} lies outside")
    return faults


def points_of(line: xml.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.get("points").split())]


def faults_of(path: str | pathlib.Path, figures: dict | None = None) -> list[str]:
    try:
        root = xml.parse(path).getroot()
    except xml.ParseError as error:
        return [f"not XML: {error}"]
    faults = outside(root)
    lines = [{name: float(line.get(name)) for name in ("x1", "y1", "x2", "y2")} | {"style": dict(line.items())}
             for line in root.iter(f"{SVG}line")]
    texts = [(float(t.get("x")), float(t.get("y")), t) for t in root.iter(f"{SVG}text")]
    frames = sorted(((l["x1"], l["x2"], l["y1"]) for l in lines
                     if l["style"].get("stroke") == "#444" and l["y1"] == l["y2"]), key=lambda frame: frame[0])
    if not frames:
        return faults + ["no axes"]
    # The legend: to the right of all panels a line, and a name behind it.
    names = {}
    for line in lines:
        if line["x1"] > frames[-1][1] + 1:
            style = line["style"]
            named = [t.text for x, y, t in texts if x > line["x2"] and abs(y - 4 - line["y1"]) < 1]
            names[style["stroke"]] = (named[0] if named else "", "stroke-dasharray" in style)
    curves = {frame: [] for frame in frames}
    for line in root.iter(f"{SVG}polyline"):
        points = points_of(line)
        frame = next((f for f in frames if points and f[0] - NEAR <= points[0][0] <= f[1] + NEAR), None)
        if frame is None:
            faults.append("a curve that is in no panel")
        else:
            curves[frame].append((line.get("stroke"), points))
    marks = [line for line in root.iter(f"{SVG}circle")] + [line for line in root.iter(f"{SVG}polygon")]
    for panel, frame in enumerate(frames):
        left, right, bottom = frame
        top = min(l["y1"] for l in lines if l["style"].get("stroke") == "#444" and l["x1"] == l["x2"] == left)
        name = f"panel {panel + 1}"
        x_axis = Axis(f"{name}, x", [(number(t.text), x) for x, y, t in texts if t.get("text-anchor") == "middle" and
                                     left - NEAR <= x <= right + NEAR and bottom < y < bottom + 25], faults)
        y_axis = Axis(f"{name}, y", [(number(t.text), y - 4) for x, y, t in texts
                                     if t.get("text-anchor") == "end" and left - 20 < x < left], faults)
        found = [names.get(colour, ("", False)) for colour, _ in curves[frame]]
        references = [one for one in found if one[1]]
        policies = sorted(one[0] for one in found if not one[1])
        if policies != sorted(one[0] for one in names.values() if not one[1]) or len(references) > 1 or "" in policies:
            faults.append(f"{name}: its curves are {policies}")
        for colour, points in curves[frame]:
            label, is_reference = names.get(colour, ("", False))
            where = f"{name}, {label}"
            faults += [f"{where}: ({x}, {y}) lies outside its panel" for x, y in points
                       if not (left - NEAR <= x <= right + NEAR and top - NEAR <= y <= bottom + NEAR)]
            faults += [f"{where}: its points do not go to the right" for (a, _), (b, _) in zip(points, points[1:]) if b <= a]
            mine = [m for m in marks if m.get("fill") == colour and
                    left - 5 <= float(m.get("cx") or points_of(m)[0][0]) <= right + 5]
            if not is_reference and len(mine) != len(points):
                faults.append(f"{where}: {len(points)} points, and {len(mine)} marks")
            if figures is None or is_reference:
                continue
            of_panel = figures[label if not y_axis.is_logarithmic else f"{label}, samples a second"]
            expected = [(x_axis.at(x), y_axis.at(y)) for x, y in zip(figures[f"{label}, workers"], of_panel)]
            if len(expected) != len(points):
                faults.append(f"{where}: {len(points)} points of {len(expected)}")
            faults += [f"{where}: a point at {p}, and not at ({e[0]:.1f}, {e[1]:.1f})" for p, e in zip(points, expected)
                       if math.dist(p, e) > NEAR]
    return faults


def main() -> int:
    picture, *rest = sys.argv[1:]
    if len(rest) > 1 and subprocess.run(rest[1:], stdout=subprocess.DEVNULL).returncode != 0:
        return 1
    figures = json.loads(pathlib.Path(rest[0]).read_text()) if rest else None
    faults = faults_of(picture, figures)
    print(*faults[:20], sep="\n", end="\n" if faults else "")
    print(f"{picture}: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
