#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes of functions.def what the build and the documentation need of it.

usage: generate.py functions.def HEADER... -- table.c libcuda.map coverage.md labels.h cuda_names.h known.c

Every implemented function is compiled under the name gdev_NAME, and exported by a wrapper of its own name that
notes the call when somebody traces. The prototypes come from the headers; a function whose prototype is
not there, or too odd, is exported as it is.
"""
import re
import sys
from collections import namedtuple

API_OLDEST = 4000

# own: no plain name of a program means it.
Variant = namedtuple("Variant", "version mode symbol implemented own")


def parse(path):
    """[(name, [Variant])], in the order of the file."""
    functions = []
    for line in open(path):
        words = line.split("#")[0].split()
        if not words:
            continue
        name, variants, symbols = words[0], [], {}
        for word in words[1:]:
            if "=" in word:
                version, symbol = word.split("=")
                variants.append(Variant(int(version), "alias", symbol, False, False))
                continue
            own, version, mode, plus = re.fullmatch(r"(\()?(\d+)(ptds|ptsz)?(\+)?\)?", word).groups()
            version = int(version)
            if mode:
                newest = max((v for v in symbols if v <= version), default=None)
                symbol = f"{symbols.get(newest, name)}_{mode}"
            else:
                symbol = symbols[version] = name if not symbols else f"{name}_v{len(symbols) + 1}"
            variants.append(Variant(version, mode, symbol, bool(plus), bool(own)))
        functions.append((name, variants))
    return functions


def prototypes(paths):
    """{symbol: (parameters as text, [their names])}"""
    found = {}
    texts = [re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S) for path in paths]
    for text in texts:
        for symbol, parameters in re.findall(r"\bCUresult\s+(?:CUDAAPI\s+)?(cu\w+)\s*\(([^;{}()]*)\)\s*;", text):
            parameters = " ".join(parameters.split())
            named = [] if parameters == "void" else parameters.split(",")
            names = [re.search(r"(\w+)\s*(?:\[\w*\])?$", parameter) for parameter in named]
            if all(names):
                found.setdefault(symbol, (parameters, [name[1] for name in names]))
    for text in texts:
        for like, symbol in re.findall(r"__typeof__\((cu\w+)\)\s+(cu\w+);", text):
            if like in found:
                found.setdefault(symbol, found[like])
    return found


def traced(functions, known):
    """[(name, symbol)] of the functions that have wrappers."""
    symbols = {}
    for name, variants in functions:
        for _, _, symbol, implemented, _ in variants:
            if implemented and symbol in known:
                symbols.setdefault(symbol, name)
    return [(name, symbol) for symbol, name in symbols.items()]


def labels(functions, known):
    out = ["/* Generated from functions.def: what the wrappers of functions.c call. */"]
    out += [f'extern __typeof__({symbol}) {symbol} __asm__("gdev_{symbol}");' for _, symbol in traced(functions, known)]
    return "\n".join(out) + "\n"


RESULTS_32 = {"int", "unsigned int", "unsigned", "CUdevice", "uint32_t"}
RESULTS_64 = {"size_t", "CUdeviceptr", "uint64_t", "unsigned long long", "CUmemGenericAllocationHandle"}
HANDLES = {"CUcontext", "CUmodule", "CUfunction", "CUlibrary", "CUkernel", "CUstream", "CUevent", "CUmemoryPool",
           "CUgraph", "CUgraphExec", "CUgraphNode", "CUlinkState", "CUdeviceptr"}


STRUCTURES = {"CUipcMemHandle", "CUipcEventHandle", "CUmemLocation", "float"}


def kind(text):
    """How calls.c shows a parameter of that C type."""
    base = " ".join(word for word in text.replace("*", " * ").split())
    if base == "const char *":
        return "CALL_TEXT"
    if base.endswith(" *") and base[:-2] in RESULTS_32 | RESULTS_64 | HANDLES:
        return "CALL_RESULT_32" if base[:-2] in RESULTS_32 else "CALL_RESULT_64"
    if "*" in base or "[" in base or base in HANDLES:
        return "CALL_POINTER"
    return "CALL_NUMBER"


def arguments(parameters, names):
    """The fields of calls.c's list of what a call was given; what is passed as a structure is left out."""
    rows = []
    for parameter, name in zip(parameters.split(","), names):
        text = re.sub(rf"\b{name}\s*(\[\w*\])?$", lambda match: "*" if match[1] else "", parameter.strip()).strip()
        if text not in STRUCTURES:
            rows.append(f'{{"{name}", {kind(text)}, (uint64_t){name}}}, ')
    return "".join(rows) + "{NULL}"


def wrapper(name, symbol, prototype):
    parameters, names = prototype
    call = f"{symbol}({', '.join(names)})"
    return f"""static __attribute__((noinline, cold)) CUresult note_{symbol}({parameters})
{{
	uint64_t begin_ns_ = gdev_traced() ? gdev_trace_begin() : 0;
	uint64_t start_ns_ = calls_begin();
	CUresult result_ = {call};
	if (start_ns_)
		calls_end("{name}", start_ns_);
	if (begin_ns_)
		gdev_trace_end("{name}", begin_ns_, (int)result_);
	if (calls_logged) {{
		const struct call_argument arguments_[] = {{{arguments(parameters, names)}}};
		calls_say("{symbol}", result_, arguments_);
	}}
	return result_;
}}
__attribute__((visibility("default"))) __typeof__({symbol}) traced_{symbol} __asm__("{symbol}");
CUresult traced_{symbol}({parameters})
{{
	return gdev_traced() || calls_logged ? note_{call} : {call};
}}
"""


def table(functions, known):
    out = ["/* Generated from functions.def. */", '#include "lib/cuda/internal.h"', ""]
    out += [wrapper(name, symbol, known[symbol]) for name, symbol in traced(functions, known)]
    rows, seen = [], set()
    for name, variants in functions:
        for version, mode, symbol, implemented, _ in variants:
            if mode == "alias":
                continue
            if symbol in seen:
                continue
            seen.add(symbol)
            if not implemented:
                out.append(f'__attribute__((visibility("default"))) CUresult none_{symbol}(void) __asm__("{symbol}");')
                out.append(f"CUresult none_{symbol}(void)\n{{\n\treturn not_there(\"{symbol}\");\n}}\n")
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
    symbols = sorted({symbol for _, variants in functions for _, mode, symbol, _, _ in variants if mode != "alias"})
    return "{\nglobal:\n" + "".join(f"\t{s};\n" for s in symbols) + "local:\n\t*;\n};\n"


def named_from(version):
    """The API version from which a header calls a variant by the plain name: at once in the early days,
    since then at the next major version, so that programs of the same one keep compiling."""
    return version if version < 11030 else (version + 999) // 1000 * 1000


def meanings(variants):
    """[(API version, what the plain name means from it on)], newest first."""
    modes = {v.symbol.rsplit("_", 1)[0]: v.mode for v in variants if v.mode not in (None, "alias")}
    result = {}
    for variant in variants:
        if variant.mode not in (None, "alias") or variant.own:
            continue
        mode = modes.get(variant.symbol)
        version = named_from(variant.version) if result else API_OLDEST
        result[max(version, API_OLDEST)] = f"GDEV_{mode.upper()}({variant.symbol})" if mode else variant.symbol
    return sorted(result.items(), reverse=True)


def names(functions, known):
    public = {re.sub(r"_v\d$", "", symbol) for symbol in known}
    out = ["/* SPDX-License-Identifier: MIT", " *",
           " * What the plain names of calls mean, by the version of the API that a program is written for and by",
           " * whether its default stream is one per thread. Included by cuda.h. Made from lib/cuda/functions.def",
           " * by `ninja -C build cuda-names`; do not edit.", " */",
           "#ifndef GDEV_CUDA_NAMES_H", "#define GDEV_CUDA_NAMES_H", "",
           "#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(GDEV_CUDA_WITHOUT_NAMES)"]
    out += [f"__typeof__({v.symbol.rsplit('_', 1)[0]}) {v.symbol};"
            for name, variants in functions if name in public
            for v in variants if v.mode not in (None, "alias") and not v.own]
    out += ["#endif", "", "#ifndef GDEV_CUDA_WITHOUT_NAMES /* the library itself calls each version by its symbol */",
            "#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM",
            "#define GDEV_PTDS(name) name##_ptds", "#define GDEV_PTSZ(name) name##_ptsz", "#else",
            "#define GDEV_PTDS(name) name", "#define GDEV_PTSZ(name) name", "#endif"]
    for name, variants in functions:
        if name not in public:
            continue
        by_version = meanings(variants)
        for i, (version, meaning) in enumerate(by_version):
            last = i == len(by_version) - 1
            if len(by_version) > 1:
                out.append("#else" if last else f"#{'el' if i else ''}if GDEV_CUDA_API_VERSION >= {version}")
            if meaning != name:
                out.append(f"#define {name} {meaning}")
            elif len(by_version) > 1:
                out.pop()
        if len(by_version) > 1:
            out.append("#endif")
    out += ["#endif", "#endif"]
    return "\n".join(out) + "\n"


def versions(variants):
    """Which symbols work, where some do not."""
    def listed(works):
        return ", ".join(f"`{v.symbol}` ({v.version // 1000}.{v.version % 1000 // 10})"
                         for v in variants if v.mode is None and v.implemented == works)

    return f": {listed(True)}; not {listed(False)}" if listed(False) else ""


def coverage(functions, _):
    done = [name for name, variants in functions if any(v.implemented for v in variants)]
    out = ["# CUDA Driver API: what exists", "",
           "Made from `lib/cuda/functions.def` by `ninja -C build cuda-coverage`; do not edit.", "",
           f"{len(done)} of {len(functions)} functions work. The others are there too, so that programs link and",
           "start: they return `CUDA_ERROR_NOT_SUPPORTED`, and say so once each when `GDEV_LOG` is set.", "",
           "A function may have several symbols, one for each version of CUDA that changed it, and a program has the one that",
           "its cuda.h means by the name. All of a function's work unless it is said which do not; a symbol without a suffix",
           "is the oldest.", "",
           "## Works", ""]
    out += [f"- `{name}`{versions(variants)}" for name, variants in sorted(functions) if name in done]
    out += ["", "## Not supported", ""]
    out += [f"- `{name}`" for name in sorted(n for n, _ in functions if n not in done)]
    return "\n".join(out) + "\n"


def known_names(functions, _):
    """Every name that a program may ask for, plain or of a symbol, sorted for a search: whether it works as it is asked
    for by name, and as it is linked with. A plain name may mean any version when it is asked for, and is the symbol of
    the oldest."""
    rows = {}
    for name, variants in functions:
        real = [v for v in variants if v.mode != "alias"]
        linked = {v.symbol: int(v.implemented) for v in real}
        rows.update({symbol: (works, works) for symbol, works in linked.items()})
        rows[name] = (int(any(linked.values())), linked.get(name, -1))
    out = ["/* Generated from functions.def, for the doctor. */", '#include "cli/doctor.h"', "",
           "const struct doctor_function doctor_functions[] = {"]
    out += [f'\t{{"{name}", {asked}, {linked}}},' for name, (asked, linked) in sorted(rows.items())]
    out += ["};", "const size_t doctor_function_count = sizeof doctor_functions / sizeof doctor_functions[0];", ""]
    return "\n".join(out)


def main():
    inputs, outputs = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    functions, known = parse(inputs[0]), prototypes(inputs[1:])
    for path, make in zip(outputs, (table, version_script, coverage, labels, names, known_names)):
        with open(path, "w") as file:
            file.write(make(functions, known))


main()
