/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox FILE PROGRAM [ARGUMENT…]: runs a program under the system call filter that systemd would install
 * for profsend.service: the numbers in FILE are allowed, everything else is EPERM; and what its
 * MemoryDenyWriteExecute, RestrictAddressFamilies, RestrictRealtime, RestrictNamespaces and LockPersonality
 * refuse by argument (systemd: src/shared/seccomp-util.c; systemd.exec(5)). For machines where no systemd
 * runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBER         offsetof(struct seccomp_data, nr)
#define ARGUMENT(i)    (offsetof(struct seccomp_data, args) + 8 * (i)) /* the low half */
#define REFUSE(number) (SECCOMP_RET_ERRNO | (number))
#define NAMESPACES                                                                             \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | \
     CLONE_NEWCGROUP)

static struct sock_filter filter[BPF_MAXINSNS];
static unsigned short n;

static void put(unsigned short code, unsigned k, unsigned char yes, unsigned char no)
{
    if (n < BPF_MAXINSNS)
        filter[n++] = (struct sock_filter){.code = code, .k = k, .jt = yes, .jf = no};
}

/* Refuses a call one of whose arguments is `bad` in the bits of `mask`. */
static void refuse(unsigned call, unsigned argument, unsigned mask, unsigned bad, int error)
{
    put(BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    put(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(argument), 0, 0);
    put(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, bad, 0, 1);
    put(BPF_RET | BPF_K, REFUSE((unsigned)error), 0, 0);
}

/* The same, if one of the bits is set. */
static void refuse_any(unsigned call, unsigned argument, unsigned bits, int error)
{
    put(BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3);
    put(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(argument), 0, 0);
    put(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    put(BPF_RET | BPF_K, REFUSE((unsigned)error), 0, 0);
}

static void refuse_by_argument(void)
{
    refuse(SYS_mmap, 2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC, EPERM);
    refuse_any(SYS_mprotect, 2, PROT_EXEC, EPERM);
    refuse_any(SYS_pkey_mprotect, 2, PROT_EXEC, EPERM);
    refuse(SYS_sched_setscheduler, 1, ~0u, SCHED_FIFO, EPERM);
    refuse(SYS_sched_setscheduler, 1, ~0u, SCHED_RR, EPERM);
    refuse_any(SYS_clone, 0, NAMESPACES, EPERM);
    refuse_any(SYS_unshare, 0, NAMESPACES, EPERM);
    refuse(SYS_clone3, 0, 0, 0, ENOSYS); /* its flags are in memory: glibc then takes clone */
    refuse_any(SYS_personality, 0, ~0u, EPERM);
    /* every family but these */
    for (unsigned family = 0; family < AF_MAX; family++)
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
            refuse(SYS_socket, 0, ~0u, family, EAFNOSUPPORT);
}

int main(int argc, char **argv)
{
    FILE *numbers = argc > 2 ? fopen(argv[1], "re") : NULL;
    if (!numbers)
        return fprintf(stderr, "sandbox: FILE PROGRAM [ARGUMENT…]\n"), 125;
    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    put(BPF_RET | BPF_K, REFUSE(EPERM), 0, 0);
    refuse_by_argument();
    put(BPF_LD | BPF_W | BPF_ABS, NUMBER, 0, 0);
    for (unsigned call; fscanf(numbers, "%u", &call) == 1;) {
        put(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
        put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    }
    fclose(numbers);
    put(BPF_RET | BPF_K, REFUSE(EPERM), 0, 0);
    struct sock_fprog program = {.len = n, .filter = filter};
    if (n == BPF_MAXINSNS || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return perror("sandbox"), 125;
    execv(argv[2], argv + 2);
    return perror(argv[2]), 125;
}
