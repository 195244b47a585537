# SPDX-License-Identifier: MIT
"""Collective operations of NCCL through torch.distributed, as one process of one GPU uses them; with torchrun, as
several. One JSON object a line: {"program", "result", "ms"}, or "error" with the reason."""

import json
import os
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    print(json.dumps({"program": "nccl", "skipped": str(missing)}))
    sys.exit(0)

COUNT = 1 << 24  # of 4 bytes
RANK, RANKS, LOCAL = (int(os.environ.get(name, default))
                      for name, default in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))


def vector(value, count=COUNT):
    return torch.full((count,), float(value), device="cuda")


def same(tensor, value):
    assert bool((tensor == value).all()), f"{tensor.flatten()[:4].tolist()} in place of {value}"
    return float(value)


SUM = RANKS * (RANKS + 1) // 2  # of each rank's number, the first of which is 1


def all_reduce():
    data = vector(RANK + 1)
    dist.all_reduce(data)
    return same(data, SUM)


def broadcast():
    data = vector(RANK + 1)
    dist.broadcast(data, 0)
    return same(data, 1)


def all_gather():
    data = vector(0, COUNT * RANKS)
    dist.all_gather_into_tensor(data, vector(RANK + 1))
    for rank in range(RANKS):
        same(data[COUNT * rank:COUNT * (rank + 1)], rank + 1)
    return float(RANKS)


def reduce_scatter():
    data = vector(0)
    dist.reduce_scatter_tensor(data, vector(RANK + 1, COUNT * RANKS))
    return same(data, SUM)


def group():
    """A communicator beside the first one"""
    data = vector(RANK + 1)
    dist.all_reduce(data, group=dist.new_group(list(range(RANKS))))
    return same(data, SUM)


def train():
    """Steps of a model whose gradients are reduced; all ranks have the same data."""
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256).cuda(), device_ids=[LOCAL])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data, losses = torch.randn(64, 256, device="cuda"), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], f"the loss does not fall: {losses}"
    return losses[-1]


def initialise():
    torch.cuda.set_device(LOCAL)
    about = {} if "MASTER_ADDR" in os.environ else {
        "init_method": f"file://{tempfile.mkdtemp()}/ranks", "rank": RANK, "world_size": RANKS}
    dist.init_process_group("nccl", **about)
    dist.barrier()
    return float(".".join(map(str, torch.cuda.nccl.version()[:2])))


def say(name, operation, warm=False):
    """Whether it was right."""
    try:
        if warm:
            operation()
            torch.cuda.synchronize()
        start = time.perf_counter()
        value = operation()
        torch.cuda.synchronize()
        found = {"result": value, "ms": (time.perf_counter() - start) * 1000}
    except Exception as error:  # whatever a library says: the next operation may work
        found = {"error": f"{type(error).__name__}: {error}"[:2000]}
    if not RANK:
        print(json.dumps({"program": f"nccl.{name}", **found}), flush=True)
    return "error" not in found


def main():
    if not say("initialise", initialise):
        return 1
    good = [say(operation.__name__, operation, warm=True)
            for operation in (all_reduce, broadcast, all_gather, reduce_scatter, group, train)]
    dist.destroy_process_group()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
