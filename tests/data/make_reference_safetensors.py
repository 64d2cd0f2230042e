"""Writes reference.safetensors beside this script with the Python packages safetensors and numpy."""
import pathlib

import numpy
from safetensors.numpy import save_file

save_file(
    {
        "conv.weight": numpy.arange(6, dtype=numpy.float32).reshape(1, 2, 3) / 4,
        "bn.num_batches_tracked": numpy.array(1234567890123, dtype=numpy.int64),
        "tokens": numpy.array([3, -1, 2], dtype=numpy.int32),
        "mask": numpy.array([True, False, True]),
        "empty": numpy.zeros((0, 4), dtype=numpy.float32),
        "na\u00efve \"\u20ac\"\n\U0001f600": numpy.array([0.5], dtype=numpy.float16),
    },
    pathlib.Path(__file__).with_name("reference.safetensors"),
    metadata={"format": "np", "note": "line 1\nline 2 \u00e9"},
)
