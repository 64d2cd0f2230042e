"""PyTorch's side of ours_accuracy.cpp: torch_accuracy.py IMAGES EPOCHS ACCURACY; channels last, fused SGD, eager."""
import json
import math
import os
import sys
import time

import torch
import torch.nn.functional as functional

import networks


def read(part: str):
    images = networks.fashion_mnist(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = networks.fashion_mnist(f"{part}-labels-idx1-ubyte.gz", 8)
    scaled = (torch.from_numpy(images.copy()).float() / 255 - 0.2860) / 0.3530
    return scaled.to(memory_format=torch.channels_last), torch.from_numpy(labels.copy()).long()


def main() -> None:
    count, epochs, wanted = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
    torch.manual_seed(0)
    images, labels = read("train")
    if count:
        images, labels = images[:count], labels[:count]
    test_images, test_labels = (part[:count or None] for part in read("t10k"))
    net = networks.resnet18().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9, weight_decay=5e-4, fused=True)
    steps = len(images) // 32
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / (steps * epochs))))
    found, seconds, reached = [], 0.0, -1.0
    for epoch in range(epochs):
        net.train()
        begin = time.perf_counter()
        for chosen in torch.randperm(len(images))[:32 * steps].split(32):
            optimizer.zero_grad(set_to_none=True)
            x = images[chosen].contiguous(memory_format=torch.channels_last)
            functional.cross_entropy(net(x), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
        took = time.perf_counter() - begin
        seconds += took
        net.eval()
        with torch.inference_mode():
            right = sum((net(x).argmax(1) == y).sum().item()
                        for x, y in zip(test_images.split(256), test_labels.split(256)))
        accuracy = right / len(test_labels)
        if accuracy >= wanted and reached < 0:
            reached = seconds
        found.append({"seconds": took, "accuracy": accuracy})
        print(f"epoch {epoch + 1}: {took:.1f} s, test accuracy {accuracy:.4f}", file=sys.stderr, flush=True)
    print(json.dumps({"epochs": found, "reached": reached}))


if __name__ == "__main__":
    main()
