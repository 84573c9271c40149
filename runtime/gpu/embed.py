#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a C file that holds images of GPU kernels: embed.py OUT.c IMAGE.fatbin...

An image is named after its file.  Without images the file says that there are none."""
import os, sys

def words(data):
    """The bytes as 64-bit words, which compile eight times faster and are aligned as the driver wants them."""
    data += bytes(-len(data) % 8)
    values = [data[i:i + 8] for i in range(0, len(data), 8)]
    text = [f"0x{int.from_bytes(v, sys.byteorder):x}," for v in values]
    return "\n".join("    " + " ".join(text[i:i + 4]) for i in range(0, len(text), 4))

def main(out, paths):
    lines = ["/* Made by runtime/gpu/embed.py from the kernels (*.cu): do not edit. */",
             '#include "runtime/gpu/images.h"', ""]
    rows = []
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        with open(path, "rb") as f:
            data = f.read()
        if not data:
            sys.exit(f"embed.py: {path} is empty")
        lines += [f"static const uint64_t {name}_image[] = {{", words(data), "};", ""]
        rows.append(f'    {{ "{name}", {name}_image }},')
    lines += ["const struct rt_gpu_image rt_gpu_images[] = {"] + rows + ["    { 0, 0 },", "};"]
    with open(out + ".tmp", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    os.rename(out + ".tmp", out)    # whole or not at all

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
