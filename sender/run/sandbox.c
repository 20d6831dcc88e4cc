/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/sandbox.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>

#include "proto/base/log.h"
#include "proto/base/macros.h"

static const int refused[] = {
    /* other processes */
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(process_madvise),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kcmp),
    SCMP_SYS(migrate_pages),
    SCMP_SYS(move_pages),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    /* who we are */
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setreuid),
    SCMP_SYS(setregid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setresgid),
    SCMP_SYS(setfsuid),
    SCMP_SYS(setfsgid),
    SCMP_SYS(setgroups),
    /* what the system looks like */
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(chroot),
    SCMP_SYS(pivot_root),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(fspick),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(chown),
    SCMP_SYS(fchown),
    SCMP_SYS(lchown),
    SCMP_SYS(fchownat),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(quotactl),
    SCMP_SYS(acct),
    SCMP_SYS(fanotify_init),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(vhangup),
    /* the kernel itself */
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(reboot),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    SCMP_SYS(syslog),
    /* ways around a filter, and what exploits are made of */
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(keyctl),
    SCMP_SYS(personality),
    SCMP_SYS(modify_ldt),
};

/* NOLINTNEXTLINE(readability-identifier-naming) */
static void seccomp_free(scmp_filter_ctx *filter)
{
    if (*filter)
        seccomp_release(*filter);
}

static int build(scmp_filter_ctx filter)
{
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(refused) && r == 0; i++) {
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
        r = -r == EDOM ? 0 : r; /* this machine has no such call */
    }
    /* Threads are made, and who runs errands (sender/foreign); processes with memory of their own are not.
     * clone3's flags cannot be looked at: glibc then uses clone. */
    r = r ? r : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return r ? r
             : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_VM, 0));
}

void sandbox_enter(void)
{
    if (IS_TRACED || prctl(PR_GET_SECCOMP) != 0)
        return; /* it has one already: systemd's, a container's, or ours before SIGHUP */
    cleanup(seccomp_free) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;
    r = r ? r : build(filter);
    r = r ? r : seccomp_load(filter);
    if (r < 0)
        log_warn("system calls are not filtered: %s", strerror(-r));
}
