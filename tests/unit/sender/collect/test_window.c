/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sender/collect/window.h"

static struct process one = {.serial = 1}, two = {.serial = 2};

static struct sample_head head(uint32_t tid, uint32_t cpu, uint64_t time, const char *comm)
{
    struct sample_head h = {.kind = SAMPLE_STACK, .tid = tid, .cpu = cpu, .time = time};
    strcpy(h.comm, comm);
    return h;
}

static const struct frame stack_a[] = {{FRAME_FILE, 0, 1, 0x10}, {FRAME_FILE, 0, 1, 0x20}};
static const struct frame stack_b[] = {{FRAME_FILE, 0, 1, 0x10}, {FRAME_FILE, 0, 2, 0x20}};

static uint32_t add(struct window *w, struct process *p, struct sample_head h, const struct frame *stack)
{
    ck_assert(window_add(w, p, &h, stack, 2, bytes_of(NULL, 0)));
    return window_samples(w);
}

UNIT(equal_samples_are_one_with_many_times)
{
    cleanup(window_release) struct window w = {0};
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 100, "t"), stack_a), 1);
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 200, "t"), stack_a), 1);
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 300, "t"), stack_a), 1);
    const struct window_sample *s = &w.sample.p[0];
    ck_assert_uint_eq(s->n_times, 3);
    uint64_t sum = 0, n = 0;
    for (uint32_t at = s->first_time; at != WINDOW_NO_TIME; at = w.time.p[at].next, n++)
        sum += w.time.p[at].ns;
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(sum, 600);
}

UNIT(whatever_differs_is_another_sample)
{
    cleanup(window_release) struct window w = {0};
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 1, "t"), stack_a), 1);
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 1, "t"), stack_b), 2);
    ck_assert_uint_eq(add(&w, &two, head(1, 0, 1, "t"), stack_a), 3);
    ck_assert_uint_eq(add(&w, &one, head(2, 0, 1, "t"), stack_a), 4);
    ck_assert_uint_eq(add(&w, &one, head(1, 1, 1, "t"), stack_a), 5);
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 1, "u"), stack_a), 6);
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 1, "t"), stack_a), 6);
    struct sample_head wait = head(1, 0, 1, "t");
    wait.source = SAMPLE_FROM_WAIT;
    wait.value = 77;
    ck_assert_uint_eq(add(&w, &one, wait, stack_a), 7);
    ck_assert_uint_eq(w.time.p[w.sample.p[6].first_time].value, 77);
    wait.value = 78;
    ck_assert_uint_eq(add(&w, &one, wait, stack_a), 7); /* the weight is the hit's */
    wait.detail = SAMPLE_WAIT_DISK;
    ck_assert_uint_eq(add(&w, &one, wait, stack_a), 8);
    ck_assert_uint_eq(w.sample.p[0].n_times, 2);
    ck_assert_uint_eq(w.stacks.n, 2);
    window_clear(&w);
    ck_assert_uint_eq(window_samples(&w), 0);
    ck_assert_uint_eq(add(&w, &one, head(1, 0, 1, "t"), stack_b), 1);
    ck_assert_uint_eq(w.sample.p[0].n_times, 1);
}

UNIT(what_is_over_the_limit_is_counted)
{
    cleanup(window_release) struct window w = {0};
    struct sample_head h = head(1, 0, 1, "t");
    for (uint32_t i = 0; i < WINDOW_SAMPLES_MAX; i++)
        if (!window_add(&w, &one, &h, stack_a, 2, bytes_of(NULL, 0)))
            ck_abort_msg("sample %u was dropped", i);
    ck_assert(!window_add(&w, &one, &h, stack_a, 2, bytes_of(NULL, 0)));
    ck_assert_uint_eq(w.dropped, 1);
    ck_assert(!window_add(&w, &one, &h, stack_a, 0, bytes_of(NULL, 0)));
    ck_assert_uint_eq(w.sample.p[0].n_times, WINDOW_SAMPLES_MAX);
}

UNIT(a_window_holds_its_processes_until_it_is_cleared)
{
    struct window w = {0}, other = {0};
    add(&w, &one, head(1, 0, 1, "t"), stack_a);
    add(&w, &two, head(1, 0, 1, "t"), stack_a);
    add(&w, &one, head(2, 0, 1, "t"), stack_b);
    ck_assert_uint_eq(w.process.n, 2);
    ck_assert_uint_eq(one.held, 1);
    window_close(&w);
    add(&other, &two, head(1, 0, 1, "t"), stack_a); /* the next one's, while this one is named */
    ck_assert_uint_eq(other.process.n, 1);
    ck_assert_uint_eq(two.held, 2);
    ck_assert_ptr_eq(w.process.p[w.sample.p[1].process].process, &two);
    ck_assert_ptr_eq(w.process.p[w.sample.p[2].process].process, &one);
    window_clear(&w);
    ck_assert_uint_eq(one.held, 0);
    ck_assert_uint_eq(two.held, 1);
    window_release(&w);
    window_release(&other);
    ck_assert_uint_eq(two.held, 0);
}

UNIT(what_a_window_takes_is_limited)
{
    static struct frame deep[FRAMES_MAX];
    cleanup(window_release) struct window w = {0};
    uint32_t n = 0;
    for (bool added = true; added && n < WINDOW_SAMPLES_MAX; n += added) {
        struct sample_head h = head(1, 0, n, "t");
        deep[0].address = n;
        added = window_add(&w, &one, &h, deep, FRAMES_MAX, bytes_of(NULL, 0));
    }
    ck_assert_uint_lt(n, 2 * (WINDOW_BYTES_MAX / sizeof deep));
    ck_assert_uint_gt(n, WINDOW_BYTES_MAX / sizeof deep / 2);
    ck_assert_uint_eq(w.dropped, 1);
    window_clear(&w);
    add(&w, &one, head(1, 0, 1, "t"), stack_a); /* there is room again */
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

UNIT(a_file_is_open_once_in_a_window)
{
    static const struct binary_key x = {.inode = 1}, y = {.inode = 2};
    cleanup(window_release) struct window w = {0}, other = {0};
    uint32_t at_x = 0, at_y = 0;
    ck_assert_uint_eq(window_file(&w, 7, &x, &at_x), 0);
    ck_assert_uint_eq(window_file(&w, 8, &y, &at_y), 1);
    ck_assert_uint_eq(window_file(&w, 7, &x, &at_x), 0);
    const struct process in[] = {{.pid = 10}, {.pid = 11}, {.pid = 12}, {.pid = 13}};
    ck_assert(window_wants(&w, 0, &in[0]));
    window_met(&w, 0, &in[0], BYTES_LIT("/bin/x"), -1); /* its process was gone */
    ck_assert(!window_wants(&w, 0, &in[0]) && window_wants(&w, 0, &in[1]));
    int fd = open("/dev/null", O_RDONLY), second = open("/dev/null", O_RDONLY);
    window_met(&w, 0, &in[1], BYTES_LIT("/bin/x"), fd);
    window_met(&w, 0, &in[2], BYTES_LIT("/bin/x"), second);
    ck_assert(!window_wants(&w, 0, &in[3]) && is_open(fd) && !is_open(second));
    ck_assert_uint_eq(w.n_open, 1);
    ck_assert_str_eq(w.file.p[0].path, "/bin/x");
    ck_assert_uint_eq(window_file(&other, 8, &y, &at_y), 0); /* another window, other indices */
    ck_assert_uint_eq(window_file(&other, 7, &x, &at_x), 1);
    ck_assert_int_lt(other.file.p[1].fd, 0);
    window_clear(&w);
    ck_assert(!is_open(fd));
}

/* As many files of a user's as he has processes to run them in. */
static uint32_t open_files(struct window *w, uint32_t user, uint32_t n)
{
    const struct binary_key key = {.inode = 1};
    uint32_t n_wanted = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct process process = {.pid = user + i + 1, .user = user};
        uint32_t remark = UINT32_MAX, at = window_file(w, w->file.n + 1, &key, &remark);
        unit_made(at == UINT32_MAX ? NULL : w);
        if (!window_wants(w, at, &process))
            continue;
        n_wanted++;
        window_met(w, at, &process, BYTES_LIT("/bin/x"), open("/dev/null", O_RDONLY));
    }
    return n_wanted;
}

UNIT(one_user_s_files_leave_others_room)
{
    cleanup(window_release) struct window w = {0};
    ck_assert_uint_eq(open_files(&w, 1000, WINDOW_OPEN_MAX + 10), WINDOW_OPEN_MAX);
    ck_assert_uint_eq(open_files(&w, 2000, WINDOW_OPEN_MAX), WINDOW_OPEN_MAX / 2);
    ck_assert_uint_eq(open_files(&w, 0, 10), 10);
    ck_assert_uint_eq(open_files(&w, 1000, 10), 0); /* he has as many as anybody */
    ck_assert_uint_eq(w.n_open, WINDOW_OPEN_MAX);
    uint32_t n_open = 0, n_root = 0;
    for (uint32_t i = 0; i < w.file.n; i++) {
        n_open += w.file.p[i].fd >= 0;
        n_root += w.file.p[i].fd >= 0 && w.file.p[i].holder == holder_of(0);
    }
    ck_assert_uint_eq(n_open, WINDOW_OPEN_MAX);
    ck_assert_uint_eq(n_root, 10);
    window_clear(&w);
    ck_assert_uint_eq(open_files(&w, 0, 10), 10);
}
