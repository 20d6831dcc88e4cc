/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/macros.h"
#include "sender/foreign/errand.h"

/* host.arch has its own words for some machines (semantic conventions, "Host"). */
static const char *arch_of(const char *machine)
{
    if (strcmp(machine, "x86_64") == 0)
        return "amd64";
    return strcmp(machine, "aarch64") == 0 ? "arm64" : machine;
}

/* host.id is the machine-id where there is no cloud to ask (semantic conventions, "Host"). */
static void read_names(struct host *h)
{
    char text[4096];
    file_text("/etc/machine-id", h->id, sizeof h->id);
    h->id[strcspn(h->id, "\n")] = 0;
    file_text("/etc/os-release", text, sizeof text);
    static const char label[] = "PRETTY_NAME=\"";
    const char *at = strstr(text, label);
    if (at) {
        at += sizeof label - 1;
        snprintf(h->description, sizeof h->description, "%.*s", (int)strcspn(at, "\"\n"), at);
    }
}

void host_read(struct host *ret)
{
    struct host h = {0};
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(h.name, sizeof h.name, "%s", name.nodename);
        snprintf(h.release, sizeof h.release, "%.64s", name.release);
        snprintf(h.machine, sizeof h.machine, "%.64s", arch_of(name.machine));
    }
    read_names(&h);
    char notes[4096];
    const size_t n = file_text("/sys/kernel/notes", notes, sizeof notes);
    if (n > 0)
        request_kernel_build_id(bytes_of(notes, n), h.kernel_build_id, sizeof h.kernel_build_id);
    *ret = h;
}

void host_facts(const struct host *h, struct request_facts *facts)
{
    facts->host_name = bytes_str(h->name);
    facts->os_version = bytes_str(h->release);
    facts->host_arch = bytes_str(h->machine);
    facts->host_id = bytes_str(h->id);
    facts->os_description = bytes_str(h->description);
    facts->kernel_build_id = bytes_str(h->kernel_build_id);
}

uint64_t host_own_cpu(void)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) < 0)
        return 0;
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * NSEC_PER_SEC +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * NSEC_PER_USEC + errand_spent();
}

size_t host_own_memory(void)
{
    char text[128];
    unsigned long pages = 0;
    file_text("/proc/self/statm", text, sizeof text);
    if (sscanf(text, "%*u %lu", &pages) != 1)
        return 0;
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}
