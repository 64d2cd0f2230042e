#!/usr/bin/env bash
# Draws the pictures of the documentation from the programs themselves: docs/images/*.svg. Needs Graphviz, and MPI for
# the timeline. tools/make_figures.sh scaling: only that of docs/simulator.md, which needs neither.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

draw_scaling() {
  cmake --preset release >/dev/null
  cmake --build --preset release --target scaling >/dev/null
  build/release/examples/scaling --batch 128 --link 100 --svg docs/images/scaling_resnet18.svg >/dev/null
  echo "docs/images/scaling_resnet18.svg"
}
[[ ${1:-} != scaling ]] || { draw_scaling; exit; }

command -v dot >/dev/null || { echo "make_figures.sh: dot is missing (Debian: apt install graphviz)" >&2; exit 1; }
cmake --preset release >/dev/null
cmake --build --preset release --target graph timeline >/dev/null
for network in mlp lenet; do
  build/release/examples/graph --network "$network" --prefix build/release/ >/dev/null
done
for name in mlp_training lenet_training; do
  dot -Tsvg "build/release/$name.dot" -o "docs/images/$name.svg"
  echo "docs/images/$name.svg"
done
tools/mpirun.sh 2 build/release/examples/timeline --file build/release/timeline.json >/dev/null
tools/timeline_figure.py build/release/timeline.json docs/images/timeline.svg
draw_scaling
