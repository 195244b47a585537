# SPDX-License-Identifier: MIT
"""Trains a stack of linear layers for a while, and says how fast. Run two at once on virtual GPUs with shares
(`gdev run --vgpu …`), or one whose weights and gradients need more memory than its virtual GPU has.

usage: train.py [--seconds S] [--width N] [--layers N] [--batch N]

One JSON object: {"steps", "steps_per_s", "first_loss", "last_loss", "peak_mib", "total_mib"}"""

import argparse
import json
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("train.py: there is no PyTorch here: pip install torch")


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("seconds", 10), ("width", 4096), ("layers", 8), ("batch", 2048)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    width = options.width
    layers = [torch.nn.Linear(width, width, device="cuda") for _ in range(options.layers)]
    model = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    inputs = torch.randn(options.batch, width, device="cuda")
    losses, steps, start = [], 0, None
    while not start or time.perf_counter() - start < options.seconds or steps < 3:
        optimizer.zero_grad(set_to_none=True)
        loss = (model(inputs) - 0.1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # waits
        steps += start is not None  # the first loads what is needed
        start = start or time.perf_counter()
    seconds = time.perf_counter() - start
    print(json.dumps({"steps": steps, "steps_per_s": round(steps / seconds, 3), "first_loss": losses[0],
                      "last_loss": losses[-1], "peak_mib": torch.cuda.max_memory_allocated() >> 20,
                      "total_mib": torch.cuda.get_device_properties(0).total_memory >> 20}))
    return 0 if losses[-1] < losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
