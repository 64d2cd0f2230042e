"""Matrix products of the CPU device on one thread beside Eigen's, at the sizes of training steps."""
import pathlib
import subprocess
import sys

from harness import BUILD, Row, arguments, build, report, run_json

HERE = pathlib.Path(__file__).resolve().parent


def main() -> int:
    options = arguments(__doc__).parse_args()
    ours = build("bench_products_ours") / "bench_products_ours"
    eigen = BUILD / "benchmarks" / "eigen_products"
    subprocess.run(["g++", "-std=c++20", "-O3", "-march=native", "-DNDEBUG", "-isystem", "/usr/include/eigen3",
                    str(HERE / "eigen.cpp"), "-o", str(eigen)], check=True)

    figures: dict[str, dict[str, float]] = {}
    for _ in range(5):  # in turns, the best of each
        for name, program in (("ours", ours), ("Eigen", eigen)):
            for shape, (speed, checksum) in run_json(program).items():
                best = figures.setdefault(shape, {})
                best[name] = max(best.get(name, 0.0), speed)
                known = best.setdefault("checksum", checksum)
                if abs(known - checksum) > 1e-3 * max(1.0, abs(known)):
                    raise SystemExit(f"{shape}: {name} computes {checksum}, the other {known}")
    rows = [Row(shape, "GFLOP/s", best["ours"], {"Eigen": best["Eigen"]}, 1.0, of="ratio", higher_is_better=True)
            for shape, best in figures.items()]
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
