#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes of functions.def what the build and the documentation need of it.

usage: generate.py functions.def table.c libcuda.map [coverage.md]
"""
import re
import sys


def parse(path):
    """[(name, [(version, mode, symbol, implemented)])], in the order of the file."""
    functions = []
    for line in open(path):
        words = line.split("#")[0].split()
        if not words:
            continue
        name, variants, symbols = words[0], [], {}
        for word in words[1:]:
            version, mode, plus = re.fullmatch(r"(\d+)(ptds|ptsz)?(\+)?", word).groups()
            version = int(version)
            if mode:
                newest = max((v for v in symbols if v <= version), default=None)
                symbol = f"{symbols.get(newest, name)}_{mode}"
            else:
                symbol = symbols[version] = name if not symbols else f"{name}_v{len(symbols) + 1}"
            variants.append((version, mode, symbol, bool(plus)))
        functions.append((name, variants))
    return functions


def table(functions):
    out = ["/* Generated from functions.def. */", '#include "lib/cuda/internal.h"', ""]
    rows, seen = [], set()
    for name, variants in functions:
        for version, mode, symbol, implemented in variants:
            if symbol in seen:
                continue
            seen.add(symbol)
            if not implemented:
                out.append(f'__attribute__((visibility("default"))) CUresult none_{symbol}(void) __asm__("{symbol}");')
                out.append(f"CUresult none_{symbol}(void)\n{{\n\treturn not_supported(\"{symbol}\");\n}}\n")
            else:
                # Its address is all that is needed, whatever header declares it.
                out.append(f"extern char address_of_{symbol}[] __asm__(\"{symbol}\");")
            address = f"address_of_{symbol}" if implemented else f"(void *)none_{symbol}"
            per_thread = "CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM" if mode else "0"
            rows.append((name, version, per_thread, address))
    rows.sort(key=lambda row: (row[0], row[2], row[1]))
    out += ["", "/* By name, then mode, then version. */", "const struct cuda_function cuda_functions[] = {"]
    out += [f'\t{{"{name}", {version}, {mode}, {address}}},' for name, version, mode, address in rows]
    out += ["};", "const size_t cuda_function_count = array_length(cuda_functions);", ""]
    return "\n".join(out)


def version_script(functions):
    symbols = sorted({symbol for _, variants in functions for _, _, symbol, _ in variants})
    return "{\nglobal:\n" + "".join(f"\t{s};\n" for s in symbols) + "local:\n\t*;\n};\n"


def coverage(functions):
    done = [name for name, variants in functions if any(v[3] for v in variants)]
    out = ["# CUDA Driver API: what exists", "",
           "Made from `lib/cuda/functions.def` by `ninja -C build cuda-coverage`; do not edit.", "",
           f"{len(done)} of {len(functions)} functions work. The others are there too, so that programs link and",
           "start: they return `CUDA_ERROR_NOT_SUPPORTED`, and say so once each when `GDEV_LOG` is set.", "",
           "## Works", ""]
    out += [f"- `{name}`" for name in sorted(done)]
    out += ["", "## Not supported", ""]
    out += [f"- `{name}`" for name in sorted(n for n, _ in functions if n not in done)]
    return "\n".join(out) + "\n"


def main():
    functions = parse(sys.argv[1])
    outputs = zip(sys.argv[2:], (table, version_script, coverage))
    for path, make in outputs:
        with open(path, "w") as file:
            file.write(make(functions))


main()
