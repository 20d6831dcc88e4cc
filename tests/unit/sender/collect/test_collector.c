/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is written over in place is another file, for whoever is sampled in it from then on. */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/collect/collector.h"
#include "sender/unwind/key.h"

#define START (500 * UINT64_C(10000000)) /* 500 ticks of 10 ms */
#define BASE  UINT64_C(0x10000000)

static char root[UNIT_PATH_MAX], library[UNIT_PATH_MAX + 16];
static struct collector collector;

static void put(uint32_t pid, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%u/%s", root, pid, name);
    autoclose int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* The library is this program and some bytes more. */
static void write_library(size_t more)
{
    autoclose int self = open("/proc/self/exe", O_RDONLY),
                  fd = open(library, O_CREAT | O_TRUNC | O_RDWR, 0600);
    static char text[1 << 20];
    for (ssize_t n; (n = read(self, text, sizeof text)) > 0;)
        ck_assert_int_eq(write(fd, text, (size_t)n), n);
    ck_assert_int_eq(write(fd, text, more), (ssize_t)more);
}

/* A process that has the library mapped, whole. */
static void make_process(uint32_t pid)
{
    struct stat st;
    char line[400];
    snprintf(line, sizeof line, "%s/%u", root, pid);
    ck_assert_int_eq(mkdir(line, 0700), 0);
    ck_assert_int_eq(stat(library, &st), 0);
    snprintf(line, sizeof line, "%lx-%lx r-xp 00000000 %02x:%02x %lu %s\n", (unsigned long)BASE,
             (unsigned long)(BASE + (uint64_t)st.st_size), major(st.st_dev), minor(st.st_dev),
             (unsigned long)st.st_ino, library);
    put(pid, "maps", line);
    snprintf(line, sizeof line, "%u (x) S 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 500 1000 1\n", pid);
    put(pid, "stat", line);
    put(pid, "status", "Name:\tx\n");
    put(pid, "cgroup", "0::/\n");
    put(pid, "environ", "");
}

static void begin(void)
{
    unit_new_folder(root);
    snprintf(library, sizeof library, "%s/library.so", root);
    write_library(1);
    make_process(7);
    ck_assert_int_eq(collector_init(&collector, root), 0);
}

/* A frame in the library's code, which the walk knew by `serial`, or had a mark for. The file it is of in the
 * window; NULL: none. */
static const struct window_file *sampled(uint32_t pid, uint32_t serial)
{
    struct elf elf;
    struct source source;
    autoclose int self = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(source_file(&source, self), 0);
    ck_assert_int_eq(elf_read(&elf, &source), 0);
    uint64_t body[SAMPLE_FRAME_WORDS], offset = elf.segment[0].file_offset + 16;
    struct sample_frame from = {.kind = SAMPLE_FRAME_CODE,
                                .extra = (uint16_t)(offset >> UNWIND_PAGE_BITS),
                                .file = serial,
                                .where = BASE + offset};
    struct sample_head h = {.kind = SAMPLE_STACK,
                            .pid = pid,
                            .tid = pid,
                            .start = START,
                            .n_user = 1,
                            .user_end = UNWIND_END_ROOT,
                            .flags = SAMPLE_EXACT,
                            .comm = "x"};
    memcpy(body, &from, sizeof from);
    uint32_t n;
    collector_stack(&collector, &h, body, clock_monotonic());
    ck_assert_uint_eq(collector.window.dropped, 0);
    ck_assert_uint_ge(collector.window.sample.n, 1);
    const struct window_sample *s = &collector.window.sample.p[collector.window.sample.n - 1];
    const struct frame *frame = window_frames(&collector.window, s->stack, &n);
    ck_assert_uint_eq(n, 1);
    return frame->kind == FRAME_FILE ? &collector.window.file.p[frame->file] : NULL;
}

static void next_window(void)
{
    static struct window window;
    collector_take(&collector, &window);
    window_clear(&window);
    window_release(&window);
}

/* The mark that the library has now; `device`: as the walk saw it. */
static uint32_t mark_on(uint32_t device)
{
    struct stat st;
    ck_assert_int_eq(stat(library, &st), 0);
    struct unwind_key key = {
        .inode = st.st_ino, .size = (uint64_t)st.st_size, .mtime = key_time(&st), .device = device};
    return unwind_mark(&key);
}

static uint32_t mark(void)
{
    struct stat st;
    ck_assert_int_eq(stat(library, &st), 0);
    return mark_on(major(st.st_dev) << 20 | minor(st.st_dev));
}

static uint64_t size_of_library(void)
{
    struct stat st;
    ck_assert_int_eq(stat(library, &st), 0);
    return (uint64_t)st.st_size;
}

UNIT(another_process_has_what_was_written_over_the_file_that_the_first_one_had)
{
    begin();
    const struct window_file *file = unit_made(sampled(7, mark()));
    ck_assert_uint_eq(file->key.content.size, size_of_library());
    write_library(2);
    make_process(8);
    file = unit_made(sampled(8, mark()));
    ck_assert_uint_eq(file->key.content.size, size_of_library());
    next_window();
    write_library(3);
    make_process(9);
    file = unit_made(sampled(9, mark()));
    ck_assert_uint_eq(file->key.content.size, size_of_library());
    next_window();
    collector_release(&collector);
}

static bool on_code(void *user, uint32_t serial, uint32_t whose, bool opens, struct collector_code *ret)
{
    struct stat st;
    ck_assert_int_eq(stat(library, &st), 0);
    *ret = (struct collector_code){.fd = -1,
                                   .key = {.inode = st.st_ino,
                                           .major = major(st.st_dev),
                                           .minor = minor(st.st_dev),
                                           .content = *(struct foreign_content *)user}};
    return true;
}

UNIT(what_a_walk_met_is_not_what_was_written_over_it_since)
{
    begin();
    struct stat st;
    ck_assert_int_eq(stat(library, &st), 0);
    struct foreign_content met = foreign_content(&st);
    collector.code = on_code;
    collector.code_user = &met;
    write_library(2);
    ck_assert_ptr_null(sampled(7, 1));
    ck_assert_int_eq(stat(library, &st), 0);
    met = foreign_content(&st);
    ck_assert_uint_eq(unit_made(sampled(7, 2))->key.content.size, size_of_library());
    next_window();
    collector_release(&collector);
}

/* Nor where its user has no allowance left to have it opened; mappings look the same. */
UNIT(what_is_mapped_in_place_of_what_a_walk_met_has_not_its_names_for_want_of_allowance)
{
    begin();
    uint64_t now = clock_monotonic();
    struct stat st;
    collector.code = on_code;
    struct foreign_content met;
    collector.code_user = &met;
    ck_assert_int_eq(stat(library, &st), 0);
    met = foreign_content(&st);
    ck_assert_ptr_nonnull(sampled(7, 1));
    write_library(2);
    ck_assert_int_eq(stat(library, &st), 0);
    met = foreign_content(&st);
    struct process *process = unit_made(procs_get(collector.procs, 7, 7, START, "x", false, now));
    allowance_charge(procs_allowance(collector.procs, process, now), INT64_C(1) << 40);
    next_window();
    ck_assert_ptr_null(sampled(7, 2));
    ck_assert_uint_eq(collector.replaced, 1);
    next_window();
    collector_release(&collector);
}

UNIT(what_a_walk_met_without_knowing_it_is_not_what_has_come_since)
{
    begin();
    uint32_t met = mark();
    write_library(2);
    ck_assert_ptr_null(sampled(7, met));
    ck_assert_uint_eq(collector.replaced, 1);
    ck_assert_uint_eq(unit_made(sampled(7, mark()))->key.content.size, size_of_library());
    next_window();
    struct stat st;
    ck_assert_int_eq(stat(library, &st), 0);
    if (major(st.st_dev)) { /* else the walk may see another one than we do */
        ck_assert_ptr_null(sampled(7, mark_on(0x00900001)));
        ck_assert_uint_eq(collector.replaced, 2);
    }
    next_window();
    collector_release(&collector);
}

UNIT(what_a_walk_met_outside_of_files_is_in_none_that_has_come_since)
{
    begin();
    ck_assert_ptr_null(sampled(7, 0));
    ck_assert_uint_eq(collector.replaced, 0); /* generated code has no name there to lose */
    collector_release(&collector);
}
