/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/attach/refusal.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "proto/base/file.h"
#include "proto/base/macros.h"
#include "sender/attach/features.h"

static bool has(const struct refusal_facts *f, int capability)
{
    return f->capabilities >> capability & 1;
}

uint64_t refusal_capabilities(struct bytes status)
{
    static const char label[] = "\nCapEff:";
    const uint8_t *at = memmem(status.p, status.n, label, sizeof label - 1);
    if (!at)
        return 0;
    char hex[32] = "";
    size_t n = min_of((size_t)(status.p + status.n - at) - (sizeof label - 1), sizeof hex - 1);
    memcpy(hex, at + sizeof label - 1, n);
    return strtoull(hex, NULL, 16);
}

void refusal_facts(struct refusal_facts *ret)
{
    struct refusal_facts f = {.perf_event_paranoid = -1};
    char text[4096];
    size_t n = file_text("/proc/self/status", text, sizeof text);
    f.capabilities = n ? refusal_capabilities(bytes_of(text, n)) : UINT64_MAX;
    if (file_text("/proc/sys/kernel/perf_event_paranoid", text, sizeof text))
        f.perf_event_paranoid = atoi(text);
    f.has_sys = access("/sys/kernel", F_OK) == 0;
    f.has_btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
    f.has_lockdown =
        file_text("/sys/kernel/security/lockdown", text, sizeof text) && strstr(text, "[confidentiality]");
    struct rlimit memlock;
    f.memlock = UINT64_MAX;
    if (features().memlock && getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 && memlock.rlim_cur != RLIM_INFINITY)
        f.memlock = memlock.rlim_cur;
    struct utsname name;
    if (uname(&name) == 0)
        snprintf(f.release, sizeof f.release, "%.64s", name.release);
    *ret = f;
}

#define WHY_MAX 400

/* What the maps of many kinds on many CPUs take. */
#define MEMLOCK_LEAST (UINT64_C(256) << 20)

/* Adds a reason; what does not fit is cut. */
static void say(char why[WHY_MAX], const char *text)
{
    size_t n = strlen(why);
    snprintf(why + n, WHY_MAX - n, "; %s", text);
}

static bool is_too_old(const struct refusal_facts *f)
{
    unsigned major = 0, minor = 0;
    return sscanf(f->release, "%u.%u", &major, &minor) == 2 && (major < 5 || (major == 5 && minor < 10));
}

void refusal_explain(const struct refusal_facts *f, const char *doing, int r, const char *detail,
                     struct error *e)
{
    char why[WHY_MAX] = "", what[128];
    const int said = -r; /* by the kernel */
    bool admin = has(f, CAP_SYS_ADMIN);
    bool is_probe = strcmp(doing, REFUSAL_PROBES) == 0;
    if (!f->has_sys)
        say(why, "/sys is not mounted here: mount -t sysfs sysfs /sys");
    else if (!f->has_btf)
        say(why, "/sys/kernel/btf/vmlinux cannot be read: the kernel needs CONFIG_DEBUG_INFO_BTF=y");
    if (!admin && !has(f, CAP_BPF))
        say(why, "CAP_BPF is missing");
    if (!admin && !has(f, CAP_PERFMON)) {
        say(why, "CAP_PERFMON is missing (CAP_SYS_ADMIN would do for both)");
        if (f->perf_event_paranoid > 0)
            say(why, "kernel.perf_event_paranoid above 0 asks for CAP_PERFMON");
    }
    /* 3 and 4 are Debian's and Ubuntu's own. */
    if (!admin && has(f, CAP_PERFMON) && f->perf_event_paranoid > 2 && said == EACCES)
        say(why, "kernel.perf_event_paranoid above 2 asks for CAP_SYS_ADMIN: set it to 2");
    if (!admin && is_probe && (said == EPERM || said == EACCES))
        say(why, "CAP_SYS_ADMIN is missing, which user probes take to begin with");
    if (f->has_lockdown)
        say(why, "kernel lockdown is \"confidentiality\": BPF may not read kernel memory");
    if (f->memlock < MEMLOCK_LEAST && said == EPERM) {
        char limit[160];
        snprintf(
            limit, sizeof limit,
            "RLIMIT_MEMLOCK is %llu KiB, and before Linux 5.11 it bounds BPF's memory: LimitMEMLOCK=infinity",
            (unsigned long long)f->memlock / 1024);
        say(why, limit);
    }
    if (!*why && (said == EPERM || said == EACCES))
        say(why,
            "a security module, seccomp filter or container runtime forbids bpf(2) or perf_event_open(2)");
    const bool is_counter = bytes_starts(bytes_str(doing), REFUSAL_COUNTER);
    if (!*why && is_counter && (said == ENOENT || said == EOPNOTSUPP || said == EINVAL))
        say(why,
            "this CPU has none such, as most virtual machines have none of the CPU's at all; the kernel's "
            "(page-faults, context-switches …) are everywhere");
    /* All else was loaded by then: it is the file or the symbol, of which the loader tells. */
    if (!*why && !is_probe && (said == EINVAL || said == ENOENT || said == ESRCH)) {
        say(why, is_too_old(f) ? "profsend needs Linux 5.10 or later; this is"
                               : "this kernel lacks what profsend needs of BPF and perf events; it is");
        strncat(why, " ", WHY_MAX - strlen(why) - 1);
        strncat(why, f->release, WHY_MAX - strlen(why) - 1);
    }
    (void)libbpf_strerror(r, what, sizeof what); /* which has errors of its own */
    error_set(e, r, "%s: %s%s%s%s", doing, what, why, *detail ? "; the loader says: " : "", detail);
}
