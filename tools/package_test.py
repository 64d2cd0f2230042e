#!/usr/bin/env python3
"""Proves that a stranger's project can use tenet: installed, as a folder, or as a Conan package."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77


def run(*command: str | pathlib.Path, **options) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)


def build_and_run(folder: pathlib.Path, cxx: str, *settings: str) -> None:
    """Configures, builds and runs the project in tests/package."""
    run("cmake", "-S", ROOT / "tests" / "package", "-B", folder, f"-DCMAKE_CXX_COMPILER={cxx}", *settings)
    run("cmake", "--build", folder)
    run(folder / "uses_tenet")
    run(folder / "uses_tenet_data")
    if (folder / "uses_tenet_cuda").exists():
        run(folder / "uses_tenet_cuda")
    if (folder / "uses_tenet_mpi").exists():  # where Boost.MPI is
        run(ROOT / "tools" / "mpirun.sh", "2", folder / "uses_tenet_mpi")


def install(folder: pathlib.Path, cxx: str) -> None:
    off = [f"-DTENET_BUILD_{kind}=OFF" for kind in ("TESTS", "EXAMPLES", "BENCHMARKS")]
    run("cmake", "-S", ROOT, "-B", folder / "library", f"-DCMAKE_CXX_COMPILER={cxx}", *off)
    run("cmake", "--install", folder / "library", "--prefix", folder / "prefix")
    nvcc = shutil.which("nvcc", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    cuda = ["-DUSES_TENET_CUDA=ON", f"-DCMAKE_CUDA_COMPILER={nvcc}"] if nvcc else []
    build_and_run(folder / "user", cxx, f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}", *cuda)


def subdirectory(folder: pathlib.Path, cxx: str) -> None:
    build_and_run(folder / "user", cxx, f"-DTENET_SOURCE={ROOT}")


def conan(folder: pathlib.Path, cxx: str) -> None:
    program = shutil.which("conan", path=f"{ROOT / 'build' / 'conan' / 'bin'}:{os.environ.get('PATH', '')}")
    if program is None:
        print("SKIPPED: conan is not installed (`./dev test` installs it)")
        sys.exit(SKIPPED)
    # A home of its own, and no remote: whatever is not on this machine is missing.
    environment = {**os.environ, "CONAN_HOME": str(folder / "home"), "CXX": cxx}
    run(program, "profile", "detect", "--force", env=environment)
    run(program, "remote", "remove", "*", env=environment)
    # Nor is anything written among the sources.
    settings = [f"-c:a=tools.cmake.cmake_layout:test_folder={folder / 'test'}",
               "-c:a=tools.cmake.cmaketoolchain:user_presets="]
    if "CMAKE_GENERATOR" in os.environ:  # Conan's own choice is make
        settings.append("-c:a=tools.cmake.cmaketoolchain:generator=" + os.environ["CMAKE_GENERATOR"])
    run(program, "create", ROOT, "-s", "compiler.cppstd=20", *settings, env=environment)


def main() -> int:
    ways = {"install": install, "subdirectory": subdirectory, "conan": conan}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=list(ways))
    parser.add_argument("--build-folder", type=pathlib.Path, required=True)
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    shutil.rmtree(options.build_folder, ignore_errors=True)
    options.build_folder.mkdir(parents=True)
    try:
        ways[options.way](options.build_folder.resolve(), options.cxx)
    except subprocess.CalledProcessError as error:
        print(f"FAILED: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
