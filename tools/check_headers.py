#!/usr/bin/env python3
"""Checks that every header can be included alone, as it includes all that it uses, and without RTTI.

Clang reads all of them as one module, in which each header is a submodule that sees only what it has included itself.
So one run finds what compiling each of them alone finds, in a sixth of the time. CUDA's libraries cannot be read so: the
headers of tenet::cuda are compiled alone by the build of their tests. Boost.MPI needs RTTI itself."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
# As in CMakeLists.txt.
CUDA = re.compile(r"tenet/((device/)?cuda(_on_host)?(/.*)?|parallel/nccl)\.hpp")
MPI = subprocess.run(["mpicxx", "--showme:incdirs"], capture_output=True, text=True, check=True).stdout.split()


def needs_rtti(headers: list[str], folder: pathlib.Path) -> bool:
    """Whether a program that includes them does not compile with -fno-rtti."""
    source = folder / "all.cpp"
    source.write_text("".join(f"#include <{header}>\n" for header in headers if not header.startswith("tenet/comm/mpi")))
    return subprocess.run(["clang++-16", "-std=c++20", "-fsyntax-only", "-fno-rtti", f"-I{INCLUDE}", source],
                          check=False).returncode != 0


def main() -> int:
    headers = [header.relative_to(INCLUDE).as_posix() for header in sorted(INCLUDE.rglob("*.hpp"))]
    headers = [header for header in headers if not CUDA.fullmatch(header)]
    submodules = [f'  module {re.sub("[^a-z0-9]", "_", header)} {{ header "{INCLUDE / header}" export * }}'
                  for header in headers]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "headers.modulemap").write_text("\n".join(["module tenet {", *submodules, "}\n"]))
        (folder / "any.cpp").write_text("#include <tenet/tenet.hpp>\n")  # which makes Clang read the module
        found = subprocess.run(
            ["clang++-16", "-std=c++20", "-fsyntax-only", "-ferror-limit=0", f"-I{INCLUDE}",
             *(f"-isystem{path}" for path in MPI), "-fmodules", "-Xclang", "-fmodules-local-submodule-visibility",
             "-fno-implicit-module-maps", f"-fmodule-map-file={folder / 'headers.modulemap'}",
             f"-fmodules-cache-path={folder}", folder / "any.cpp"],
            stderr=subprocess.PIPE, text=True)
        rtti = needs_rtti(headers, folder)
    print(re.sub(r"^(While building module|In file included|.*note: .* defined here).*\n", "", found.stderr,
                 flags=re.MULTILINE), end="")
    print(f"headers: {len(headers)} read, each as if it were alone: "
          + ("all include what they use" if found.returncode == 0 else "not all include what they use")
          + (", but some need RTTI" if rtti else ", none needs RTTI"))
    return 1 if found.returncode or rtti else 0


if __name__ == "__main__":
    sys.exit(main())
