#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes of functions.def what the build and the documentation need of it.

usage: generate.py functions.def cuda.h exports.h table.c libcuda.map coverage.md labels.h

Every implemented function is compiled under the name gdev_NAME, and exported by a wrapper of its own name that
notes the call when somebody traces. The prototypes come from the two headers; a function whose prototype is
not there, or too odd, is exported as it is.
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


def prototypes(paths):
    """{symbol: (parameters as text, [their names])}"""
    found = {}
    for path in paths:
        text = re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S)
        for symbol, parameters in re.findall(r"\bCUresult\s+(?:CUDAAPI\s+)?(cu\w+)\s*\(([^;{}()]*)\)\s*;", text):
            parameters = " ".join(parameters.split())
            named = [] if parameters == "void" else parameters.split(",")
            names = [re.search(r"(\w+)\s*(?:\[\w*\])?$", parameter) for parameter in named]
            if all(names):
                found.setdefault(symbol, (parameters, [name[1] for name in names]))
        for like, symbol in re.findall(r"__typeof__\((cu\w+)\)\s+(cu\w+);", text):
            if like in found:
                found.setdefault(symbol, found[like])
    return found


def traced(functions, known):
    """[(name, symbol)] of the functions that have wrappers."""
    symbols = {}
    for name, variants in functions:
        for _, _, symbol, implemented in variants:
            if implemented and symbol in known:
                symbols.setdefault(symbol, name)
    return [(name, symbol) for symbol, name in symbols.items()]


def labels(functions, known):
    out = ["/* Generated from functions.def: what the wrappers of functions.c call. */"]
    out += [f'extern __typeof__({symbol}) {symbol} __asm__("gdev_{symbol}");' for _, symbol in traced(functions, known)]
    return "\n".join(out) + "\n"


def wrapper(name, symbol, prototype):
    parameters, names = prototype
    call = f"{symbol}({', '.join(names)})"
    return f"""static __attribute__((noinline, cold)) CUresult note_{symbol}({parameters})
{{
	uint64_t begin_ns_ = gdev_trace_begin();
	CUresult result_ = {call};
	gdev_trace_end("{name}", begin_ns_, (int)result_);
	return result_;
}}
__attribute__((visibility("default"))) __typeof__({symbol}) traced_{symbol} __asm__("{symbol}");
CUresult traced_{symbol}({parameters})
{{
	return gdev_traced() ? note_{call} : {call};
}}
"""


def table(functions, known):
    out = ["/* Generated from functions.def. */", '#include "lib/cuda/internal.h"', ""]
    out += [wrapper(name, symbol, known[symbol]) for name, symbol in traced(functions, known)]
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


def version_script(functions, _):
    symbols = sorted({symbol for _, variants in functions for _, _, symbol, _ in variants})
    return "{\nglobal:\n" + "".join(f"\t{s};\n" for s in symbols) + "local:\n\t*;\n};\n"


def coverage(functions, _):
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
    functions, known = parse(sys.argv[1]), prototypes(sys.argv[2:4])
    for path, make in zip(sys.argv[4:], (table, version_script, coverage, labels)):
        with open(path, "w") as file:
            file.write(make(functions, known))


main()
