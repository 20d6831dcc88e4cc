/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/procs/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/foreign/errand.h"

/* A hexadecimal or decimal number at the front of *s, which moves behind it and the `end` character that must
 * follow. */
static bool number(struct bytes *s, unsigned base, char end, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i = 0;
    for (; i < s->n && i < 20; i++) {
        uint8_t c = s->p[i];
        unsigned digit = c >= '0' && c <= '9' ? c - '0' + 0u : c >= 'a' && c <= 'f' ? c - 'a' + 10u : 99;
        if (digit >= base)
            break;
        if (value > (UINT64_MAX - digit) / base)
            return false;
        value = value * base + digit;
    }
    if (i == 0 || i == s->n || s->p[i] != (uint8_t)end)
        return false;
    *ret = value;
    *s = bytes_of(s->p + i + 1, s->n - i - 1);
    return true;
}

static int add(struct maps *m, const struct region *r)
{
    if (m->regions.n == MAPS_REGIONS_MAX || (m->regions.n > 0 && r->start < vec_last(&m->regions)->end))
        return 0;
    struct region copy = *r;
    copy.path = arena_copy(&m->text, r->path);
    return copy.path.p && vec_append(&m->regions, copy) == 0 ? 1 : -ENOMEM;
}

/* What the name of the region of a process context begins with (OTEP 4719, "Reading protocol"). */
static bool is_context(struct bytes name)
{
    static const char *const names[] = {"[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (bytes_starts(name, names[i]))
            return true;
    return false;
}

/* Whether a region is memory without a file, or with one that the kernel made for it (memfd_create(2)), which
 * is on a device of its own. A file may have any name, and to read what is mapped of it is to ask its server.
 */
static bool is_memory(const struct region *r)
{
    static _Atomic uint64_t device; /* 0: not asked yet */
    struct stat st;
    if (r->major == 0 && r->minor == 0)
        return true;
    if (!device) {
        autoclose int fd = memfd_create("device", MFD_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            return false;
        device = (uint64_t)st.st_dev;
    }
    return makedev(r->major, r->minor) == device;
}

int maps_line(struct maps *m, struct bytes line)
{
    struct region r = {0};
    uint64_t major, minor;
    if (!number(&line, 16, '-', &r.start) || !number(&line, 16, ' ', &r.end) || r.end <= r.start)
        return 0;
    if (line.n < 5 || line.p[4] != ' ')
        return 0;
    bool is_code = line.p[2] == 'x';
    if (!is_code && (m->context || line.n >= 200 || !memmem(line.p, line.n, "OTEL_CTX", 8)))
        return 0;
    line = bytes_of(line.p + 5, line.n - 5);
    if (!number(&line, 16, ' ', &r.offset) || !number(&line, 16, ':', &major) ||
        !number(&line, 16, ' ', &minor))
        return 0;
    if (major > UINT32_MAX || minor > UINT32_MAX)
        return 0;
    r.major = (uint32_t)major;
    r.minor = (uint32_t)minor;
    if (!number(&line, 10, ' ',
                &r.inode)) /* the kernel writes a blank behind it also where no path follows */
        return 0;
    while (line.n > 0 && line.p[0] == ' ')
        line = bytes_of(line.p + 1, line.n - 1);
    r.path = line;
    if (is_code)
        return add(m, &r);
    if (is_memory(&r) && is_context(line))
        m->context = r.start;
    return 0;
}

/* Feeds the whole lines of the first n bytes; returns how many bytes they were, or -ENOMEM. */
static ssize_t feed(struct maps *m, const char *text, size_t n)
{
    size_t done = 0;
    for (const char *end; (end = memchr(text + done, '\n', n - done)); done = (size_t)(end - text) + 1) {
        int r = maps_line(m, bytes_of(text + done, (size_t)(end - text) - done));
        if (r < 0)
            return r;
    }
    return (ssize_t)done;
}

/* What it held gives way to what is read. */
static void begin_anew(struct maps *m)
{
    vec_clear(&m->regions);
    m->context = 0;
    arena_reset(&m->text, 4096);
}

int maps_read(struct maps *m, int fd, size_t max)
{
    size_t filled = 0, total = 0;
    bool skipping = false; /* inside a line that is too long */
    autofree char *text = malloc(MAPS_LINE_MAX);
    if (!text)
        return -ENOMEM;
    begin_anew(m);
    while (total < max) {
        ssize_t got = read(fd, text + filled, MAPS_LINE_MAX - filled);
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        total += (size_t)got;
        filled += (size_t)got;
        if (skipping) {
            char *end = memchr(text, '\n', filled);
            size_t drop = end ? (size_t)(end - text) + 1 : filled;
            memmove(text, text + drop, filled - drop);
            filled -= drop;
            skipping = !end;
        }
        ssize_t done = feed(m, text, filled);
        if (done < 0)
            return (int)done;
        memmove(text, text + done, filled - (size_t)done);
        filled -= (size_t)done;
        if (filled == MAPS_LINE_MAX) {
            skipping = true;
            filled = 0;
        }
    }
    return 0;
}

/* linux/fs.h as of 6.11, which Debian 12's headers are older than. */
struct procmap_query {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define PROCMAP_QUERY            _IOWR('f', 17, struct procmap_query)
#define PROCMAP_QUERY_EXECUTABLE 4u
#define PROCMAP_QUERY_OR_NEXT    16u

static int ask(int fd, struct procmap_query *q)
{
    if (ioctl(fd, PROCMAP_QUERY, q) == 0)
        return 0;
    switch (errno) {
    case ENOENT: return MAPS_NONE;
    case ESRCH: return MAPS_GONE;
    case ENOTTY: return MAPS_CANNOT;
    default: return -errno;
    }
}

static struct region region_of(const struct procmap_query *q)
{
    return (struct region){.start = q->start,
                           .end = q->end,
                           .offset = q->offset,
                           .inode = q->inode,
                           .major = q->major,
                           .minor = q->minor,
                           .path = BYTES_LIT("")};
}

int maps_query(int fd, uint64_t address, struct region *ret)
{
    char name[64]; /* of what is no file */
    struct procmap_query q = {.size = sizeof q, .flags = PROCMAP_QUERY_EXECUTABLE, .address = address};
    int r = ask(fd, &q);
    if (r != 0)
        return r;
    *ret = region_of(&q);
    q.name_size = sizeof name;
    q.name = (uintptr_t)name;
    if (q.inode == 0 && ask(fd, &q) == 0 && q.name_size && strcmp(name, "[vdso]") == 0)
        ret->path = BYTES_LIT("[vdso]");
    return 0;
}

int maps_read_code(struct maps *m, int fd, uint32_t max)
{
    int r = 0;
    uint64_t at = 0;
    autofree char *name = malloc(PATH_MAX);
    if (!name)
        return -ENOMEM;
    begin_anew(m);
    while (r == 0 && m->regions.n < max) {
        struct procmap_query q = {.size = sizeof q,
                                  .flags = PROCMAP_QUERY_EXECUTABLE | PROCMAP_QUERY_OR_NEXT,
                                  .address = at,
                                  .name_size = PATH_MAX,
                                  .name = (uintptr_t)name};
        r = ask(fd, &q);
        if (r != 0)
            break;
        struct region one = region_of(&q);
        if (q.name_size)
            one.path = bytes_str(name);
        r = min_of(add(m, &one), 0);
        at = q.end;
    }
    return r == MAPS_NONE ? 0 : r;
}

struct getting {
    struct errand errand;
    struct maps_wish wish;
    struct maps maps;
    int result;
    char path[];
};

static void forget_getting(struct errand *e)
{
    struct getting *g = (struct getting *)e;
    maps_release(&g->maps);
    free(g);
}

static void get(struct errand *e)
{
    struct getting *g = (struct getting *)e;
    autoclose int fd = open(g->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    g->result = fd < 0 ? -errno : MAPS_CANNOT;
    if (fd >= 0 && g->wish.for_code)
        g->result = maps_read_code(&g->maps, fd, g->wish.regions);
    if (g->result != MAPS_CANNOT)
        return;
    g->wish.has_read = true;
    g->result = maps_read(&g->maps, fd, g->wish.bytes);
}

int maps_get(struct maps *m, const char *path, struct maps_wish *wish, uint32_t user)
{
    size_t n = strlen(path) + 1;
    struct getting *g = calloc(1, sizeof *g + n);
    if (!g)
        return -ENOMEM;
    g->errand = (struct errand){.go = get, .forget = forget_getting, .where = errand_where(path)};
    g->wish = *wish;
    memcpy(g->path, path, n);
    int r = errand_run(&g->errand, user);
    if (r < 0)
        return r;
    maps_release(m);
    *m = g->maps;
    g->maps = (struct maps){0};
    r = g->result;
    wish->has_read = g->wish.has_read;
    wish->cost = g->errand.cost;
    forget_getting(&g->errand);
    return r;
}

struct asking {
    struct errand errand;
    int fd; /* its own; negative: it opens it */
    uint32_t pid, n;
    struct maps_asked asked[MAPS_ASK_MAX];
};

static void forget_asking(struct errand *e)
{
    struct asking *a = (struct asking *)e;
    cleanup_close(&a->fd);
    free(a);
}

static void go_asking(struct errand *e)
{
    char path[32];
    struct asking *a = (struct asking *)e;
    snprintf(path, sizeof path, "/proc/%u/maps", a->pid);
    if (a->fd < 0 && (a->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        a->fd = -errno;
    for (uint32_t i = 0; i < a->n && a->fd >= 0; i++)
        a->asked[i].found = maps_query(a->fd, a->asked[i].address, &a->asked[i].region);
}

int maps_ask(int *fd, uint32_t pid, uint32_t user, struct maps_asked *asked, uint32_t n)
{
    struct asking *a = malloc(sizeof *a);
    if (!a)
        return -ENOMEM;
    *a = (struct asking){
        .errand = {.go = go_asking, .forget = forget_asking, .where = pid}, .fd = -1, .pid = pid, .n = n};
    memcpy(a->asked, asked, n * sizeof *asked);
    if (*fd >= 0 && (a->fd = fcntl(*fd, F_DUPFD_CLOEXEC, 3)) < 0) { /* the caller may close his meanwhile */
        free(a);
        return -errno;
    }
    int r = errand_run(&a->errand, user);
    if (r < 0)
        return r;
    r = min_of(a->fd, 0);
    if (r == 0)
        memcpy(asked, a->asked, n * sizeof *asked);
    if (*fd < 0)
        *fd = take_fd(&a->fd);
    forget_asking(&a->errand);
    return r;
}

size_t maps_size(const struct maps *m)
{
    size_t size = m->regions.n * sizeof *m->regions.p;
    for (uint32_t i = 0; i < m->regions.n; i++)
        size += m->regions.p[i].path.n + 1;
    return size;
}

size_t maps_pack(struct maps *m)
{
    const size_t size = maps_size(m);
    struct region *packed = malloc(size + 1);
    if (!packed)
        return size;
    char *to = (char *)(packed + m->regions.n);
    for (uint32_t i = 0; i < m->regions.n; i++) {
        packed[i] = m->regions.p[i];
        packed[i].path = bytes_of(to, m->regions.p[i].path.n);
        memcpy(to, m->regions.p[i].path.p, m->regions.p[i].path.n + 1);
        to += m->regions.p[i].path.n + 1;
    }
    struct maps all = {.regions = {.p = packed, .n = m->regions.n, .room = m->regions.n},
                       .context = m->context};
    maps_release(m);
    *m = all;
    return size;
}

struct region *maps_find(const struct maps *m, uint64_t address)
{
    uint32_t at = first_where(m->regions.n, i, m->regions.p[i].end > address);
    return at < m->regions.n && m->regions.p[at].start <= address ? &m->regions.p[at] : NULL;
}

bool maps_have_musl(const struct maps *m)
{
    for (uint32_t i = 0; i < m->regions.n; i++) {
        struct bytes name = bytes_after_last(m->regions.p[i].path, '/');
        if (bytes_starts(name, "ld-musl-") || bytes_starts(name, "libc.musl-") || bytes_is(name, "libc.so"))
            return true;
    }
    return false;
}

void maps_release(struct maps *m)
{
    vec_release(&m->regions);
    arena_release(&m->text);
    *m = (struct maps){0};
}
