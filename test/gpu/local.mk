# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/gpu/probe.cu
