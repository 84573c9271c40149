/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --doctor: the container, the launcher, and what the PCI bus and the kernel do to
 * transfers between devices: IOMMU, ACS, GPUDirect RDMA. */
#include "launcher/info/info.h"
#include "runtime/boot/launched.h"

#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PCI: the extended capabilities begin at 0x100 of the configuration space, as a list; ACS is
 * number 13, its control word at +6 (PCI Express base specification, 7.7.11).  The bits that send
 * transfers between two devices to the root complex: request and completion redirect, upstream
 * forwarding. */
#define PCI_EXTENDED 0x100
#define PCI_CAP_ACS 13
#define PCI_ACS_CONTROL 6
#define PCI_ACS_REDIRECTS 0x1c

static bool any(const char *pattern)
{
    glob_t g;
    bool found = glob(pattern, GLOB_NOSORT, NULL, &g) == 0;
    globfree(&g);
    return found;
}

static void check_container(void)
{
    bool docker = access("/.dockerenv", F_OK) == 0,
         podman = access("/run/.containerenv", F_OK) == 0;
    bool kubernetes = access("/var/run/secrets/kubernetes.io", F_OK) == 0;
    bool apptainer = access("/.singularity.d", F_OK) == 0;
    const char *name = kubernetes  ? "Kubernetes"
                       : docker    ? "Docker"
                       : podman    ? "Podman"
                       : apptainer ? "Apptainer"
                                   : NULL;
    char found[96];
    if (!name)
        return;
    snprintf(found, sizeof found, "%s; docs/CONTAINERS.md", name);
    info_say(true, "container", found, "");
}

static void check_launcher(void)
{
    struct rt_launched by;
    char found[160];
    rt_launched_find(&by);
    if (by.how == RT_LAUNCHED_ALONE)
        return;
    bool lost = by.how == RT_LAUNCHED_SEVERAL;
    snprintf(found, sizeof found, "%.80s%s", by.by,
             lost                         ? ": processes that cannot find each other"
             : by.how == RT_LAUNCHED_PMIX ? ", by PMIx"
                                          : ", by PMI-1");
    info_say(!lost, "launcher", found, lost ? by.advice : "");
}

/* Whether the kernel translates the addresses of devices, page by page. */
static bool translates(void)
{
    glob_t g;
    bool found = false;
    if (glob("/sys/kernel/iommu_groups/*/type", GLOB_NOSORT, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc && !found; i++) {
            char type[16] = "";
            int fd = open(g.gl_pathv[i], O_RDONLY | O_CLOEXEC);
            if (fd >= 0 && read(fd, type, sizeof type - 1) > 0)
                found = !strncmp(type, "DMA", 3);
            if (fd >= 0)
                close(fd);
        }
    globfree(&g);
    return found;
}

/* 1: this bridge redirects, 0: it does not, -1: its configuration cannot be read. */
static int redirects(const char *path)
{
    uint8_t c[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, c, sizeof c);
    if (fd >= 0)
        close(fd);
    if (n < 64)
        return -1;
    if (c[0x0b] != 6 || c[0x0a] != 4) /* class: bridge, PCI to PCI */
        return 0;
    if (n <= PCI_EXTENDED)
        return -1;
    for (unsigned at = PCI_EXTENDED, steps = 0; at >= PCI_EXTENDED && at + 8 <= n && steps < 64;
         steps++) {
        if ((c[at] | c[at + 1] << 8) == PCI_CAP_ACS)
            return (c[at + PCI_ACS_CONTROL] & PCI_ACS_REDIRECTS) != 0;
        at = (unsigned)(c[at + 2] >> 4 | c[at + 3] << 4) & 0xffc;
    }
    return 0;
}

static void check_acs(void)
{
    glob_t g;
    int n = 0, unread = 0;
    char found[96];
    if (glob("/sys/bus/pci/devices/*/config", 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) {
            int r = redirects(g.gl_pathv[i]);
            n += r > 0;
            unread += r < 0;
        }
    globfree(&g);
    snprintf(found, sizeof found,
             n        ? "%d bridges send transfers between devices to the root complex"
             : unread ? "unknown: only root can read it"
                      : "redirects nothing",
             n);
    info_say(
        !n, "PCIe ACS", found,
        "disable ACS in the BIOS, or with setpci ECAP_ACS+6.w=0 for each bridge; not in virtual "
        "machines, which need it");
}

/* The open kernel modules export memory by dma-buf. */
static bool is_open_driver(void)
{
    char text[256] = "";
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    if (f && !fgets(text, sizeof text, f))
        *text = '\0';
    if (f)
        fclose(f);
    return strstr(text, "Open Kernel Module") != NULL;
}

static void check_devices(void)
{
    bool gpu = any("/dev/nvidia[0-9]*"), rdma = any("/sys/class/infiniband/*");
    if (!gpu && !rdma)
        return;
    bool slow = translates();
    info_say(!slow, "IOMMU",
             slow ? "translates the addresses of devices" : "off, or passed through",
             "boot with iommu=pt (amd_iommu=on or intel_iommu=on before it, for virtual machines)");
    check_acs();
    if (!gpu || !rdma)
        return;
    bool peer = access("/sys/module/nvidia_peermem", F_OK) == 0;
    bool open_module = is_open_driver();
    info_say(peer || open_module, "GPUDirect RDMA",
             peer          ? "nvidia_peermem is loaded"
             : open_module ? "by dma-buf"
                           : "nvidia_peermem is not loaded",
             "modprobe nvidia_peermem, or the open kernel modules of the driver (dma-buf); device "
             "messages between hosts pass through host memory until then");
}

void info_doctor_host(void)
{
    check_container();
    check_launcher();
    check_devices();
}
