"""What one translation unit costs: seconds of CPU and megabytes at the peak, g++ -O2, the least of several runs.

The bars on seconds were set for a machine on which dlib's LeNet takes 11.5 s; on another machine they are scaled by what
dlib's LeNet takes there in the same run."""
import pathlib
import sys

from harness import ROOT, Cost, Row, arguments, cost_of, report

HERE = pathlib.Path(__file__).resolve().parent
OURS = ["g++", "-std=c++20", "-O2", "-I", str(ROOT / "include"), "-I", str(ROOT / "examples")]
DLIB = ["g++", "-std=c++17", "-O2", "-DDLIB_NO_GUI_SUPPORT"]

# Row -> our source, dlib's, and the bars on seconds and megabytes.
UNITS = {
    "include": ("include.cpp", "dlib_include.cpp", 1.5, 300),
    "LeNet trainer": ("lenet.cpp", "dlib_lenet.cpp", 5, None),
    "ResNet-18 trainer": ("resnet18.cpp", "dlib_resnet18.cpp", 12, 800),
    "ResNet-50 trainer": ("resnet50.cpp", None, None, None),
    "ResNet-152 trainer": ("resnet152.cpp", None, None, None),
}
YARDSTICK, YARDSTICK_SECONDS = "LeNet trainer", 11.5
# ResNet-152 has three times the layers of ResNet-50, of the same kinds: it may cost half as much again.
DEPTH_LIMIT = 1.5


def compile_once(command: list[str], source: str) -> Cost:
    return cost_of([*command, "-c", str(HERE / source), "-o", "/dev/null"])


def least(costs: list[Cost]) -> Cost:
    return Cost(min(cost.seconds for cost in costs), min(cost.megabytes for cost in costs))


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5, help="compilations of each source (%(default)s)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the units whose name contains the text")
    options = parser.parse_args()

    rows: list[Row] = []
    seconds: dict[str, float] = {}
    scale = 1.0
    for name in sorted(UNITS, key=lambda name: name != YARDSTICK):  # the yardstick first
        source, dlib_source, seconds_limit, megabytes_limit = UNITS[name]
        if name != YARDSTICK and options.only.lower() not in name.lower():
            continue
        ours, dlib = [], []
        for _ in range(options.runs):
            ours.append(compile_once(OURS, source))
            if dlib_source:
                dlib.append(compile_once(DLIB, dlib_source))
        cost = least(ours)
        peer = least(dlib) if dlib else None
        if name == YARDSTICK:
            scale = peer.seconds / YARDSTICK_SECONDS
            print(f"bars on seconds are scaled by {scale:.2f}: dlib's LeNet took {peer.seconds:.1f} s", file=sys.stderr)
        seconds[name] = cost.seconds
        rows.append(Row(name, "s", cost.seconds, {"dlib": peer.seconds} if peer else {},
                        round(seconds_limit * scale, 2) if seconds_limit else None))
        rows.append(Row(name, "MB", cost.megabytes, {"dlib": peer.megabytes} if peer else {}, megabytes_limit))
        print(f"{name}: done", file=sys.stderr)
    deep, shallow = "ResNet-152 trainer", "ResNet-50 trainer"
    if deep in seconds and shallow in seconds:
        rows.append(Row("ResNet-152 over ResNet-50", "seconds per second", seconds[deep] / seconds[shallow],
                        limit=DEPTH_LIMIT))
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
