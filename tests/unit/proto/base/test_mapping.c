/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/mapping.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/unit.h"

#define PADDING 64u

static int file_of(const char *text, off_t length)
{
    char path[] = "/tmp/pg-mapping-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    if (length)
        ck_assert_int_eq(ftruncate(fd, length), 0);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

UNIT(a_file_is_there_with_zeros_behind_it)
{
    const off_t page = sysconf(_SC_PAGESIZE), lengths[] = {7, page, page + 1};
    for (int i = 0; i < 3; i++) {
        struct mapping m;
        int fd = file_of("mapping", lengths[i]);
        ck_assert_int_eq(mapping_open(&m, fd, PADDING), 0);
        close(fd);
        ck_assert_uint_eq(m.bytes.n, (size_t)lengths[i]);
        ck_assert(bytes_starts(m.bytes, "mapping"));
        for (size_t k = 7; k < m.bytes.n + PADDING; k++)
            ck_assert_uint_eq(m.bytes.p[k], 0);
        ck_assert(!mapping_close(&m));
    }
}

static size_t pages_there(const struct mapping *m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
    char line[256];
    unsigned long from;
    FILE *f = unit_made(fopen("/proc/self/smaps", "re"));
    bool is_it = false;
    while (fgets(line, sizeof line, f)) {
        char dash;
        if (sscanf(line, "%lx%c", &from, &dash) == 2 && dash == '-')
            is_it = from == (unsigned long)(uintptr_t)m->bytes.p;
        size_t kib;
        if (is_it && sscanf(line, "Rss: %zu kB", &kib) == 1)
            n = kib * 1024 / page;
    }
    fclose(f);
    return n;
}

UNIT(what_was_used_goes_and_comes_again)
{
    struct mapping m;
    autoclose int fd = file_of("mapping", 3 * MAPPING_STEP);
    uint32_t sum = 0;
    ck_assert_int_eq(mapping_open(&m, fd, PADDING), 0);
    for (size_t i = 0; i < 3 * MAPPING_STEP; i += 512) {
        sum += m.bytes.p[i];
        mapping_used(&m, 512);
    }
    ck_assert_uint_eq(sum, 'm');
    ck_assert_uint_eq(pages_there(&m), 0); /* the last step ends with the file */
    ck_assert(bytes_starts(m.bytes, "mapping"));
    ck_assert_uint_gt(pages_there(&m), 0);
    mapping_used(NULL, 1);
    ck_assert(!mapping_close(&m));
}

UNIT(what_is_cut_off_while_it_is_open_reads_as_zeros)
{
    struct mapping m;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 8 * page;
    autoclose int fd = file_of("mapping", (off_t)n);
    ck_assert_int_eq(mapping_open(&m, fd, PADDING), 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)page), 0);
    ck_assert_uint_eq(m.bytes.p[5 * page + 3], 0);
    ck_assert_uint_eq(m.bytes.p[2 * page], 0);
    ck_assert(bytes_starts(m.bytes, "mapping"));
    mapping_give_back(&m);
    ck_assert_uint_eq(m.bytes.p[n - 1], 0);
    ck_assert(bytes_starts(m.bytes, "mapping"));
    ck_assert(mapping_close(&m));

    lseek(fd, 0, SEEK_SET);
    ck_assert_int_eq(mapping_open(&m, fd, PADDING), 0); /* the next one is another one's */
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), (off_t)page);
    ck_assert(!mapping_close(&m));
    ck_assert(!mapping_close(&m)); /* a second time it is nothing */
}

UNIT(what_is_written_while_it_is_open_is_told)
{
    struct mapping m;
    const struct timespec then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    autoclose int fd = file_of("mapping", 0);
    ck_assert_int_eq(futimens(fd, then), 0);
    ck_assert_int_eq(mapping_open(&m, fd, PADDING), 0);
    ck_assert_int_eq(pwrite(fd, "M", 1, 0), 1); /* of the same length */
    ck_assert(mapping_close(&m));
}

UNIT(what_cannot_be_mapped_is_to_be_read)
{
    struct mapping m = {0};
    int ends[2], empty = file_of("", 0), begun = file_of("begun", 0),
                 made_up = open("/proc/self/status", O_RDONLY);
    ck_assert_int_eq(pipe(ends), 0);
    lseek(begun, 1, SEEK_SET);
    ck_assert_int_eq(mapping_open(&m, empty, PADDING), MAPPING_NONE);
    ck_assert_int_eq(mapping_open(&m, begun, PADDING), MAPPING_NONE);
    ck_assert_int_eq(mapping_open(&m, made_up, PADDING), MAPPING_NONE);
    ck_assert_int_eq(mapping_open(&m, ends[0], PADDING), MAPPING_NONE);
    ck_assert(!mapping_close(&m));
    close(empty), close(begun), close(made_up), close(ends[0]), close(ends[1]);
}
