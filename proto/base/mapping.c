/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"

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
    ret->room = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0 || lseek(fd, 0, SEEK_CUR) != 0)
        return MAPPING_NONE;
    const size_t n = (size_t)st.st_size, room = up_to_page(n, page) + up_to_page(padding, page);
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    uint8_t *p = own >= 0 ? mmap(NULL, room, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    const bool is_mapped =
        p != MAP_FAILED && mmap(p, n, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED;
    if (!is_mapped) {
        if (p != MAP_FAILED)
            munmap(p, room);
        if (own >= 0)
            close(own);
        return own >= 0 && p != MAP_FAILED ? MAPPING_NONE : -ENOMEM;
    }
    lseek(fd, 0, SEEK_END);
    open_one.from = p;
    open_one.end = p + room;
    open_one.page = page;
    open_one.is_cut = 0;
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO}, NULL);
    *ret = (struct mapping){bytes_of(p, n), room, 0, own, st};
    return 0;
}

bool mapping_close(struct mapping *m)
{
    struct stat is;
    if (m->room == 0)
        return false;
    const bool is_changed = open_one.is_cut || fstat(m->fd, &is) < 0 || is.st_size != m->was.st_size ||
                            !clock_is_same(is.st_mtim, m->was.st_mtim);
    signal(SIGBUS, SIG_DFL);
    munmap((void *)(uintptr_t)m->bytes.p, m->room);
    close(m->fd);
    open_one.from = open_one.end = NULL;
    open_one.is_cut = 0;
    *m = (struct mapping){0};
    return is_changed;
}

void mapping_give_back(struct mapping *m)
{
    m->used = 0;
    if (m->bytes.n > 0)
        madvise((void *)(uintptr_t)m->bytes.p, m->bytes.n, MADV_DONTNEED);
}
