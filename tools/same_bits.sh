#!/usr/bin/env bash
# same_bits.sh PROGRAM [ARGUMENT…]: runs an example on 1, 2 and 4 ranks. Do they save the same file?
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for ranks in 1 2 4; do "$here/mpirun.sh" "$ranks" "$@" --save "$folder/$ranks"; done
cmp "$folder/1" "$folder/2"
cmp "$folder/1" "$folder/4"
echo "1, 2 and 4 ranks have saved the same $(stat -c %s "$folder/1") bytes"
