/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "sender/run/sandbox.h"

static void *thread(void *argument)
{
    *(int *)argument = unshare(CLONE_NEWUSER) < 0 ? errno : 0;
    return NULL;
}

UNIT(what_a_profiler_does_not_do_is_refused_in_every_thread)
{
    pthread_t one;
    int said = 0;
    if (prctl(PR_GET_SECCOMP) != 0)
        unit_skip("there is a filter already");
    sandbox_enter();
    if (prctl(PR_GET_SECCOMP) == 0)
        unit_skip("no filter in builds with AddressSanitizer");
    ck_assert(unshare(CLONE_NEWNS) < 0 && errno == EPERM);
    ck_assert(mount("none", "/tmp", "tmpfs", 0, NULL) < 0 && errno == EPERM);
    ck_assert(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 && errno == EPERM);
    ck_assert(setuid(getuid()) < 0 && errno == EPERM);
    ck_assert(fork() < 0 && errno == EPERM);
    ck_assert_int_eq(pthread_create(&one, NULL, thread, &said), 0);
    ck_assert_int_eq(pthread_join(one, NULL), 0);
    ck_assert_int_eq(said, EPERM);
    sandbox_enter(); /* once is enough */
}
