# SPDX-License-Identifier: MIT
"""Programs of PyTorch, CuPy, and JAX, as their users write them: nothing here knows of gdev.

usage: programs.py [NAME...]     (without a name: all; --list says which)

One JSON object a line: {"program", "result": a number, "bits": a hash of what was computed, "ms": of a step,
"peak_mib": of device memory}, or "skipped" or "error" with the reason. Seeds are fixed: whoever runs the
same programs on the same device gets the same results. `gdev run python3 programs.py`, and again without gdev."""

import hashlib
import json
import statistics
import sys
import time

try:
    import torch
except ImportError:
    torch = None

SKIP = "skipped"


def bits(tensor):
    return hashlib.sha1(tensor.detach().float().cpu().numpy().tobytes()).hexdigest()[:12]


def timed(step, count=10, warm=3):
    """(What the last step returned, milliseconds of the median step.)"""
    times = []
    for i in range(warm + count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        value = step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1000)
    return value, statistics.median(times[warm:])


# ---- matrices: cuBLAS ----


def matmul(dtype, tf32=False, size=4096):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    product, ms = timed(lambda: a @ b)
    right = a[:64].double() @ b.double()
    wrong = ((product[:64].double() - right).abs().max() / right.abs().max()).item()
    assert wrong < 0.02, f"off by {wrong}"
    return product, ms


def matmul_fp32():
    return matmul(torch.float32)


def matmul_tf32():
    return matmul(torch.float32, tf32=True)


def matmul_bf16():
    return matmul(torch.bfloat16)


def matmul_fp16():
    return matmul(torch.float16)


def solve():
    """cuSOLVER, and the host in between."""
    a = torch.randn(512, 512, device="cuda") + 100 * torch.eye(512, device="cuda")
    b = torch.randn(512, 8, device="cuda")
    x, ms = timed(lambda: torch.linalg.solve(a, b))
    assert (a @ x - b).abs().max().item() < 1e-3
    return x, ms


def fft():
    x = torch.randn(256, 4096, device="cuda")
    y, ms = timed(lambda: torch.fft.irfft(torch.fft.rfft(x)))
    assert (x - y).abs().max().item() < 1e-4
    return y, ms


# ---- training ----


def trainer(model, inputs, targets, **options):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **options)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step


def learns(step, **options):
    first = step().item()
    loss, ms = timed(step, **options)
    assert loss.item() < first, f"loss {first} became {loss.item()}"
    return loss, ms


def mlp(width=1024):
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width),
                               torch.nn.ReLU(), torch.nn.Linear(width, 10)).cuda()


def batch(size=512, width=1024):
    return torch.randn(size, width, device="cuda"), torch.randint(0, 10, (size,), device="cuda")


def train_mlp():
    return learns(trainer(mlp(), *batch()), count=30)


def train_conv():
    """cuDNN: convolutions and batch normalisation, there and back. With its deterministic algorithms: left to choose,
    it computes other bits in every run, with whatever driver library, and there would be nothing to compare."""
    torch.backends.cudnn.deterministic = True
    layers, channels = [], 3
    for width in (32, 64, 128):
        layers += [torch.nn.Conv2d(channels, width, 3, stride=2, padding=1), torch.nn.BatchNorm2d(width),
                   torch.nn.ReLU()]
        channels = width
    model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                torch.nn.Linear(channels, 10)).cuda()
    images = torch.randn(128, 3, 64, 64, device="cuda")
    return learns(trainer(model, images, torch.randint(0, 10, (128,), device="cuda")))


class Classifier(torch.nn.Module if torch else object):
    """A small transformer over tokens."""

    def __init__(self, width=512, layers=4):
        super().__init__()
        self.tokens = torch.nn.Embedding(1000, width)
        layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, layers)
        self.head = torch.nn.Linear(width, 10)

    def forward(self, tokens):
        return self.head(self.encoder(self.tokens(tokens)).mean(1))


def train_transformer():
    tokens = torch.randint(0, 1000, (32, 256), device="cuda")
    step = trainer(Classifier().cuda(), tokens, torch.randint(0, 10, (32,), device="cuda"))

    def mixed():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return step()

    return learns(mixed)


def attention(backend):
    from torch.nn.attention import sdpa_kernel
    q, k, v = (torch.randn(8, 16, 1024, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
               for _ in range(3))

    def step():
        with sdpa_kernel([backend]):
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
        return out

    return timed(step)


def attention_flash():
    from torch.nn.attention import SDPBackend
    return attention(SDPBackend.FLASH_ATTENTION)


def attention_cudnn():
    from torch.nn.attention import SDPBackend
    return attention(SDPBackend.CUDNN_ATTENTION)


def train_compiled():
    """Triton writes the kernels, ptxas compiles them."""
    return learns(trainer(torch.compile(mlp()), *batch()), count=30)


def train_graph():
    """A step of training as a CUDA graph."""
    step = trainer(mlp(), *batch(), capturable=True)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            first = step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    _, ms = timed(graph.replay, count=30)
    assert loss.item() < first.item()
    return loss, ms


# ---- streams, processes, memory ----


def streams():
    """Four streams that wait for each other by events."""
    inputs = [torch.randn(1024, 1024, device="cuda") for _ in range(4)]
    lanes = [torch.cuda.Stream() for _ in range(4)]

    def step():
        outs = []
        for lane, x in zip(lanes, inputs):
            lane.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(lane):
                outs.append((x @ x).relu())
        for lane in lanes:
            torch.cuda.current_stream().wait_stream(lane)
        return sum(outs)

    return timed(step)


class Numbers(torch.utils.data.Dataset if torch else object):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((3, 64, 64), float(index))


def loader():
    """A DataLoader with processes and page-locked memory."""
    batches = torch.utils.data.DataLoader(Numbers(), batch_size=16, num_workers=2, pin_memory=True)
    start = time.perf_counter()
    total = sum(data.to("cuda", non_blocking=True).mean() for data in batches)
    ms = (time.perf_counter() - start) * 1000
    assert total.item() == sum(range(64)) / 16
    return total, ms


def double(tensor, done):
    tensor.mul_(2)
    torch.cuda.synchronize()
    done.set()


def sharing():
    """Another process works on the same tensor (CUDA IPC)."""
    context = torch.multiprocessing.get_context("spawn")
    tensor, done = torch.arange(1000, device="cuda", dtype=torch.float32), context.Event()
    start = time.perf_counter()
    child = context.Process(target=double, args=(tensor, done))
    child.start()
    done.wait(60)
    ms = (time.perf_counter() - start) * 1000
    child.join(60)
    assert tensor.sum().item() == 999000, tensor.sum().item()
    return tensor, ms


def triton_kernel():
    import triton
    import triton.language as tl
    global tl_add

    @triton.jit
    def tl_add(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

    globals()["tl"] = tl
    x, y = (torch.randn(1 << 24, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    _, ms = timed(lambda: tl_add[(x.numel() // 1024,)](x, y, out, x.numel(), BLOCK=1024))
    assert torch.equal(out, x + y)
    return out, ms


def nvrtc():
    """A kernel that NVRTC compiles."""
    kernel = torch.cuda._compile_kernel(  # a number of Python's is a double
        'extern "C" __global__ void scale(float *x, double by, int n)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= by; }", "scale")
    x = torch.ones(1 << 20, device="cuda")
    _, ms = timed(lambda: kernel((4096, 1, 1), (256, 1, 1), (x, 2.0, x.numel())))
    assert (x == 2.0**13).all()
    return x, ms


# ---- CuPy and JAX ----


def cupy():
    import cupy
    cupy.random.seed(1)
    a = cupy.random.randn(2048, 2048, dtype=cupy.float32)
    twice = cupy.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x", "twice")
    times = []
    for _ in range(8):
        start = time.perf_counter()
        value = cupy.linalg.norm(twice(a @ a) - 2 * (a @ a)) + cupy.sort(a, axis=None)[-1]
        cupy.cuda.runtime.deviceSynchronize()
        times.append((time.perf_counter() - start) * 1000)
    result = torch.tensor([float(value)])
    return result, statistics.median(times[2:])


def jax():
    import jax as library
    import jax.numpy as jnp
    key = library.random.PRNGKey(0)
    weights = library.random.normal(key, (1024, 1024)) * 0.03
    inputs = library.random.normal(key, (512, 1024))
    step = library.jit(library.value_and_grad(lambda w: jnp.mean((jnp.tanh(inputs @ w) - 0.5) ** 2)))
    times, first = [], None
    for _ in range(20):
        start = time.perf_counter()
        loss, gradient = step(weights)
        weights = (weights - 10 * gradient).block_until_ready()
        first = first or float(loss)
        times.append((time.perf_counter() - start) * 1000)
    assert float(loss) < first, f"loss {first} became {float(loss)}"
    return torch.tensor([float(loss)]), statistics.median(times[3:])


PROGRAMS = [matmul_fp32, matmul_tf32, matmul_bf16, matmul_fp16, solve, fft, train_mlp, train_conv,
            train_transformer, attention_flash, attention_cudnn, train_compiled, train_graph, streams, loader,
            sharing, triton_kernel, nvrtc, cupy, jax]


def run(program):
    about = {"program": program.__name__}
    try:
        torch.manual_seed(1)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        result, ms = program()
        about |= {"result": float(result.detach().double().mean()), "bits": bits(result), "ms": round(ms, 4),
                  "peak_mib": torch.cuda.max_memory_allocated() >> 20}
    except ImportError as missing:
        about[SKIP] = str(missing)
    except Exception as error:  # the others go on
        about["error"] = f"{type(error).__name__}: {error}"[:600]
    print(json.dumps(about), flush=True)
    return "error" not in about


def main():
    names = sys.argv[1:]
    if names == ["--list"]:
        print(*(program.__name__ for program in PROGRAMS))
        return 0
    if not torch or not torch.cuda.is_available():
        print(json.dumps({"program": "torch", SKIP: "no PyTorch here, or it sees no GPU"}))
        return 77
    chosen = [program for program in PROGRAMS if not names or program.__name__ in names]
    return 0 if all([run(program) for program in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
