"""ONNX Runtime's side, inference: onnx_peer.py FOLDER runs FOLDER/model.onnx on FOLDER/inputs.bin."""
import os
import pathlib
import sys

import numpy
import onnxruntime

from serve import serve


def make(folder: pathlib.Path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["BENCH_THREADS"])
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    inputs = numpy.fromfile(folder / "inputs.bin", numpy.float32).reshape(session.get_inputs()[0].shape)
    binding = session.io_binding()  # no conversions of arrays within a call
    binding.bind_cpu_input("input", inputs)
    binding.bind_output("output", "cpu")

    def check():
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()[0].flatten()[:640].tolist()

    return check, lambda: session.run_with_iobinding(binding)


if __name__ == "__main__":
    serve({"infer": lambda: make(pathlib.Path(sys.argv[1]))})
