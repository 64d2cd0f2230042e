"""Ten x = x * x over five floats: our compiled and imperative modes beside PyTorch's eager, script and compile."""
import sys
import time

import torch

from harness import Row, arguments, build, interleave, report, run_json

NUMBERS = [1.001, 0.999, 1.0005, 0.9995, 1.0]


def ten_squares(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = x * x
    return x


def nanoseconds(function, x: torch.Tensor, calls: int = 5000) -> float:
    for _ in range(500):
        function(x)
    begin = time.perf_counter()
    for _ in range(calls):
        function(x)
    return (time.perf_counter() - begin) / calls * 1e9


def main() -> int:
    options = arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    program = build("bench_hybrid_ours") / "bench_hybrid_ours"

    x = torch.tensor(NUMBERS)
    expected = ten_squares(x)
    found = torch.tensor(run_json(program)["values"])
    if not torch.allclose(found, expected, rtol=1e-4):  # x^1024 carries the rounding of ten squares
        raise SystemExit(f"ours computes {found}, PyTorch {expected}")

    forms = {"PyTorch eager": ten_squares, "PyTorch script": torch.jit.script(ten_squares),
             "PyTorch compile": torch.compile(ten_squares)}
    measures = {name: (lambda function=function: nanoseconds(function, x)) for name, function in forms.items()}
    measures["compiled"] = lambda: run_json(program)["compiled"]
    measures["chained"] = lambda: run_json(program)["chained"]
    measures["imperative"] = lambda: run_json(program)["imperative"]
    with torch.inference_mode():
        figures = interleave(measures, rounds=5)

    ours, chained, eager = (figures.pop(mode) for mode in ("compiled", "chained", "imperative"))
    rows = [
        Row("ten squares, compiled", "ns", ours, figures, 50),
        Row("ten squares, compiled, of the last call's result", "ns", chained, {}, 50),
        Row("ten squares, imperative", "ns", eager, {"PyTorch eager": figures["PyTorch eager"]}, 1.0, of="ratio"),
        Row("ten squares, imperative over compiled", "times", eager / ours, {}, 20, higher_is_better=True),
    ]
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
