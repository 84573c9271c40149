# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/topo/topo.c runtime/topo/resource.c runtime/topo/topo.h
