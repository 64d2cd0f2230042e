#!/usr/bin/env python3
"""Checks what headers include: layers point only down, no cycles, and nothing heavy is reachable from tenet.hpp."""
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"

# Folder -> the folders it may include, besides itself.
LAYERS = {
    "core": [],
    "ops": ["core"],
    "graph": ["core", "ops"],
    "device": ["core", "ops"],
    "exec": ["core", "ops", "graph", "device"],
    "nn": ["core", "ops", "graph"],
    "optim": ["core", "ops", "graph"],
    "comm": ["core"],
    "parallel": ["core", "ops", "graph", "device", "exec", "comm"],
    "data": ["core"],
    "io": ["core"],
    "train": ["core", "ops", "graph", "device", "exec", "nn", "optim", "comm", "parallel", "data", "io"],
}

# Headers that need zlib, Boost.MPI, POSIX or CUDA, so the umbrella must not reach them.
COMPONENT_HEADERS = ["tenet/data/idx.hpp", "tenet/data/fashion_mnist.hpp", "tenet/comm/mpi.hpp",
                     "tenet/comm/shared_arena.hpp", "tenet/cuda.hpp", "tenet/device/cuda.hpp",
                     "tenet/parallel/nccl.hpp", "cuda_runtime_api.h", "nccl.h", "nvtx3/nvToolsExt.h"]
# Standard headers that cost more than they give; the whole library is to be included in 1.5 seconds.
HEAVY_HEADERS = ["iostream", "regex", "random", "filesystem", "format", "ranges", "future"]


def includes_of(header: pathlib.Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', header.read_text(), re.M)


def layer_faults(graph: dict[str, list[str]]) -> list[str]:
    faults = []
    for header, includes in graph.items():
        folder = header.split("/")[1]
        if folder.endswith(".hpp"):
            continue  # umbrella headers stand above all layers
        if folder not in LAYERS:
            faults.append(f"{header}: the folder {folder}/ is no layer; add it to LAYERS in tools/check_layers.py")
            continue
        for included in includes:
            if (INCLUDE / header).parent.joinpath(included).exists():
                faults.append(f'{header}: includes "{included}"; write the path from include/: <tenet/...>')
            elif included.startswith("tenet/"):
                target = included.split("/")[1]
                if included not in graph:
                    faults.append(f"{header}: includes {included}, which does not exist")
                elif target != folder and target not in LAYERS[folder]:
                    faults.append(f"{header}: {folder}/ may not include {included}")
    return faults


def cycle_faults(graph: dict[str, list[str]]) -> list[str]:
    faults, finished = [], set()

    def visit(header: str, path: list[str]) -> None:
        if header in path:
            faults.append("headers include each other: " + " -> ".join(path[path.index(header) :] + [header]))
        elif header in graph and header not in finished:
            for included in graph[header]:
                visit(included, path + [header])
            finished.add(header)

    for header in graph:
        visit(header, [])
    return faults


def umbrella_faults(graph: dict[str, list[str]]) -> list[str]:
    faults, origin, queue = [], {"tenet/tenet.hpp": "the user"}, ["tenet/tenet.hpp"]
    while queue:
        header = queue.pop()
        for included in graph.get(header, []):
            if included not in origin:
                origin[included] = header
                queue.append(included)
    for unwanted in COMPONENT_HEADERS + HEAVY_HEADERS:
        if unwanted in origin:
            faults.append(f"{origin[unwanted]}: includes <{unwanted}>, which tenet.hpp must not reach")
    return faults


def main() -> int:
    headers = sorted(INCLUDE.rglob("*.hpp"))
    graph = {header.relative_to(INCLUDE).as_posix(): includes_of(header) for header in headers}
    faults = layer_faults(graph) + cycle_faults(graph) + umbrella_faults(graph)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"layers: {len(headers)} headers, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
