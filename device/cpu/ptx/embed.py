#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a file's bytes as a C array: embed.py INPUT OUTPUT NAME."""
import sys

data = open(sys.argv[1], "rb").read()
with open(sys.argv[2], "w") as out:
    out.write("extern const unsigned char %s[];\nextern const unsigned %s_size;\n" % (sys.argv[3], sys.argv[3]))
    out.write("const unsigned char %s[] __attribute__((aligned(16))) = {" % sys.argv[3])
    out.write(",".join(map(str, data)))
    out.write("};\nconst unsigned %s_size = %d;\n" % (sys.argv[3], len(data)))
