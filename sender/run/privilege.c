/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

/* NOLINTNEXTLINE(misc-redundant-expression): equal is what they must be */
_Static_assert(PRIVILEGE_PCAP == UINT64_C(1) << CAP_SETPCAP, "capabilities(7)");
/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(PRIVILEGE_NICE == UINT64_C(1) << CAP_SYS_NICE && PRIVILEGE_PROBE == UINT64_C(1)
                                                                                       << CAP_SYS_ADMIN,
               "capabilities(7)");

/* As bits 1 << CAP_… (capabilities(7)). */
static uint64_t needed_ones(void)
{
    static const int needed[] = {
        CAP_BPF,                /* row shards as files come; the iterator */
        CAP_PERFMON,            /* clocks of CPUs that come online; reading memory in BPF */
        CAP_SYS_PTRACE,         /* /proc/PID/{exe,environ,mem,map_files} of others */
        CAP_DAC_READ_SEARCH,    /* binaries and debug files that are not readable to all */
        CAP_CHECKPOINT_RESTORE, /* map_files: binaries deleted and replaced */
        CAP_SYSLOG,             /* where the kernel and its modules begin */
    };
    uint64_t bits = 0;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        bits |= UINT64_C(1) << needed[i];
    return bits;
}

static const struct {
    int capability;
    const char *name, *lost; /* without it */
} wanted[] = {
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE",
     "processes of other users have no executable, service name or container, their native frames no names"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH",
     "programs that only their owner may read are unwound by frame pointer and have no names"},
    {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE",
     "native frames of programs deleted or replaced while they run have no names"},
    /* CAP_SYSLOG: kernel frames have names, but no addresses. */
};

/* The number in a file of /proc/sys, or -1. */
static int read_setting(const char *path)
{
    char text[16];
    return file_text(path, text, sizeof text) ? atoi(text) : -1;
}

/* kernel: Documentation/admin-guide/LSM/Yama.rst: not even with CAP_SYS_PTRACE. */
#define PTRACE_NOBODY 3

/* Debian's and Ubuntu's kernels know a perf_event_paranoid above 2 (and have it by default): no perf event
 * without CAP_SYS_ADMIN, CAP_PERFMON or not. */
static bool clocks_take_admin(void)
{
    return read_setting("/proc/sys/kernel/perf_event_paranoid") > 2;
}

/* What does not keep us from sampling but is missing in the samples. The two capabilities that do are not
 * told here: sampler_open refuses, and says which. */
static void say_missing(uint64_t effective)
{
    bool is_admin = effective >> CAP_SYS_ADMIN & 1;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        bool is_there = effective >> wanted[i].capability & 1;
        if (!is_there && !(wanted[i].capability == CAP_CHECKPOINT_RESTORE && is_admin))
            log_warn("%s is missing: %s", wanted[i].name, wanted[i].lost);
    }
    if (access("/proc/self/stat", R_OK) < 0)
        log_warn("/proc cannot be read: processes have no names, and native frames none either");
    if (read_setting("/proc/sys/kernel/yama/ptrace_scope") == PTRACE_NOBODY)
        log_warn(
            "kernel.yama.ptrace_scope is %d: what processes publish of themselves (OTEP 4719) is not read",
            PTRACE_NOBODY);
}

static void bound(uint64_t keep)
{
    for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
        if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EPERM)
            log_warn("capability %d stays in the bounding set: %s", cap, strerror(errno));
}

void privilege_drop(uint64_t also)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    uint64_t keep = needed_ones() | also;
    if (syscall(SYS_capget, &header, data) < 0) {
        log_warn("capabilities are left as they are: %s", strerror(errno));
        return;
    }
    bool is_first = gettid() == getpid();
    uint64_t effective = (uint64_t)data[1].effective << 32 | data[0].effective;
    /* On kernels where BPF takes CAP_SYS_ADMIN only, having that and not CAP_BPF, it stays; where perf events
     * do, with the thread that opens a clock when a CPU comes online. */
    if (!(effective >> CAP_BPF & 1) || (is_first && clocks_take_admin()))
        keep |= UINT64_C(1) << CAP_SYS_ADMIN;
    static bool was_said; /* the first thread's */
    if (is_first && !was_said) {
        was_said = true;
        say_missing(effective);
    }
    bound(keep | PRIVILEGE_PROBE); /* for root, who may ask for probes when he has the options read again */
    for (int i = 0; i < 2; i++) {
        uint32_t mask = (uint32_t)(keep >> 32 * i);
        data[i].effective &= mask;
        data[i].permitted &= mask;
        data[i].inheritable &= mask;
    }
    if (syscall(SYS_capset, &header, data) < 0)
        log_warn("capabilities are left as they are: %s", strerror(errno));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        log_warn("new privileges cannot be ruled out: %s", strerror(errno));
}
