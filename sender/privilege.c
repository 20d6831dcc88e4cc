#include "sender/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/log.h"
#include "proto/base/macros.h"

_Static_assert(PRIVILEGE_NICE == UINT64_C(1) << CAP_SYS_NICE && PRIVILEGE_PROBE == UINT64_C(1)
                                                                                       << CAP_SYS_ADMIN,
               "capabilities(7)");

uint64_t privilege_needed(void)
{
    static const int needed[] = {
        CAP_BPF,                /* row shards as files come; the iterator */
        CAP_PERFMON,            /* clocks of CPUs that come online; reading memory in BPF */
        CAP_SYS_PTRACE,         /* /proc/PID/{exe,environ,mem,map_files} of others */
        CAP_DAC_READ_SEARCH,    /* binaries and debug files that are not readable to all */
        CAP_CHECKPOINT_RESTORE, /* map_files: binaries deleted and replaced */
        CAP_SYSLOG,             /* addresses in /proc/kallsyms */
    };
    uint64_t bits = 0;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        bits |= UINT64_C(1) << needed[i];
    return bits;
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
    uint64_t keep = privilege_needed() | also;
    if (syscall(SYS_capget, &header, data) < 0) {
        log_warn("capabilities are left as they are: %s", strerror(errno));
        return;
    }
    /* On kernels where BPF or perf events take CAP_SYS_ADMIN only, having that and not CAP_BPF, it stays. */
    if (!(data[1].effective >> (CAP_BPF - 32) & 1))
        keep |= UINT64_C(1) << CAP_SYS_ADMIN;
    bound(keep);
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
