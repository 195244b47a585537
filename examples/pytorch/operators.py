# SPDX-License-Identifier: MIT
"""PyTorch's own list of operators (op_db of torch.testing), each run forward and backward on samples of its own.

usage: operators.py [--passes N] [--match TEXT] [--out FILE]

Prints a JSON object: the seconds of each pass over all cases, and how many cases ran. FILE gets a JSON object a case: its
name, the milliseconds of each pass, a hash of what it computed in the first, or the error. Seeds are fixed: whoever runs the
same cases on the same device gets the same bits. `gdev run python3 operators.py`, and again without gdev."""

import argparse
import hashlib
import json
import sys
import time
import types
import unittest
import warnings

import torch

try:
    import expecttest  # noqa: F401
except ImportError:  # torch.testing derives a class from one of it, and needs no more for the list
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)

from torch.testing._internal.common_methods_invocations import op_db

TYPES = (torch.float32, torch.int64, torch.complex64)
SAMPLES = 2  # of each operator and type: the first ones
# Their results are what happened to be in memory, or the order in which threads came.
RANDOM = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)


def add_bits(hashed, value):
    for tensor in tensors(value):
        tensor = tensor.detach().resolve_conj().resolve_neg()
        if tensor.is_sparse or tensor.layout != torch.strided or tensor.is_quantized:
            continue
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.float()
        hashed.update(tensor.cpu().contiguous().numpy().tobytes())


def run(op, dtype):
    """The operator on its first samples, and the gradient of its results' sum: a hash of all that."""
    torch.manual_seed(1)
    hashed = hashlib.sha1()
    grad = dtype.is_floating_point and op.supports_autograd
    samples = op.sample_inputs("cuda", dtype, requires_grad=grad)
    for _, sample in zip(range(SAMPLES), samples):
        result = op(sample.input, *sample.args, **sample.kwargs)
        add_bits(hashed, result)
        leaves = [t for t in tensors([sample.input, *sample.args]) if t.requires_grad and t.is_leaf]
        ends = [t.sum() for t in tensors(result) if t.requires_grad and t.dtype.is_floating_point]
        if leaves and ends:
            add_bits(hashed, [g for g in torch.autograd.grad(sum(ends), leaves, allow_unused=True) if g is not None])
    torch.cuda.synchronize()
    return hashed.hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--match", default="")
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.zeros(1, device="cuda")  # the context is not what is measured
    torch.cuda.synchronize()
    cases = [(op, dtype) for op in op_db for dtype in TYPES
             if options.match in op.name and dtype in op.supported_dtypes("cuda")]
    rows, seconds = {}, []
    for _ in range(options.passes):
        start = time.perf_counter()
        for op, dtype in cases:
            name = f"{op.name}.{op.variant_test_name} {dtype}"
            row = rows.setdefault(name, {"case": name, "ms": []})
            begin = time.perf_counter()
            try:
                bits = run(op, dtype)
                row.setdefault("bits", "any" if op.name in RANDOM else bits)
            except Exception as error:  # what it says is compared, too
                row.setdefault("error", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            row["ms"].append((time.perf_counter() - begin) * 1000)
        seconds.append(time.perf_counter() - start)
    if options.out:
        with open(options.out, "w") as out:
            for row in rows.values():
                out.write(json.dumps(row) + "\n")
    print(json.dumps({"cases": len(cases), "failed": sum("error" in row for row in rows.values()), "seconds": seconds}))


if __name__ == "__main__":
    main()
