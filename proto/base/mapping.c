/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/mapping.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* For the handler: the one that is open. */
static struct {
    uint8_t *from, *end;
    size_t page;
    volatile sig_atomic_t is_cut;
} open_one;

/* A page behind the file's end was touched: all from there on becomes zeros. Only async-signal-safe calls;
 * mmap is one in Linux, being nothing but a system call. Anybody else's fault comes again, and ends us. */
static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;
    (void)context;
    if (at >= open_one.from && at < open_one.end) {
        at -= (uintptr_t)at % open_one.page;
        if (mmap(at, (size_t)(open_one.end - at), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == at) {
            open_one.is_cut = 1;
            return;
        }
    }
    signal(signal_number, SIG_DFL);
}

static size_t up_to_page(size_t n, size_t page)
{
    return (n + page - 1) / page * page;
}

int mapping_open(struct mapping *ret, int fd, size_t padding)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0 || lseek(fd, 0, SEEK_CUR) != 0)
        return MAPPING_NONE;
    const size_t n = (size_t)st.st_size, room = up_to_page(n, page) + up_to_page(padding, page);
    uint8_t *p = mmap(NULL, room, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return -ENOMEM;
    if (mmap(p, n, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(p, room);
        return MAPPING_NONE;
    }
    open_one.from = p;
    open_one.end = p + room;
    open_one.page = page;
    open_one.is_cut = 0;
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO}, NULL);
    *ret = (struct mapping){bytes_of(p, n), room, 0};
    return 0;
}

bool mapping_close(struct mapping *m)
{
    const bool is_cut = open_one.is_cut;
    if (m->room == 0)
        return false;
    signal(SIGBUS, SIG_DFL);
    munmap((void *)(uintptr_t)m->bytes.p, m->room);
    open_one.from = open_one.end = NULL;
    open_one.is_cut = 0;
    *m = (struct mapping){0};
    return is_cut;
}

void mapping_give_back(struct mapping *m)
{
    m->used = 0;
    if (m->bytes.n > 0)
        madvise((void *)(uintptr_t)m->bytes.p, m->bytes.n, MADV_DONTNEED);
}
