/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/foreign/errand.h"

/* Waits for a byte, and tells by another pipe that it was forgotten. */
struct waiting {
    struct errand errand;
    int for_byte, forgotten;
};

static void wait_for_byte(struct errand *e)
{
    char byte;
    (void)!read(((struct waiting *)e)->for_byte, &byte, 1);
}

static void tell(struct errand *e)
{
    (void)!write(((struct waiting *)e)->forgotten, "", 1);
    free(e);
}

static struct errand *waiting_for(const int byte[2], const int forgotten[2])
{
    struct waiting *w = calloc(1, sizeof *w);
    unit_made(w);
    *w = (struct waiting){{.go = wait_for_byte, .forget = tell}, byte[0], forgotten[1]};
    return &w->errand;
}

UNIT(what_comes_back_is_brought)
{
    char text[32] = "";
    ck_assert_int_eq(errand_read_path("/proc/self/comm", text, sizeof text, 1), (ssize_t)strlen(text));
    ck_assert_int_gt(strlen(text), 0);
    ck_assert_int_eq(errand_read_path("/proc/self/nothing", text, sizeof text, 1), -ENOENT);
    autoclose int fd = errand_open("/proc/self/mem", 0, 1);
    ck_assert_int_ge(fd, 0);
    uint64_t word = 42, same = 0;
    ck_assert_int_eq(errand_pread(fd, &same, sizeof same, (off_t)(uintptr_t)&word, 1), sizeof same);
    ck_assert_uint_eq(same, 42);
    ck_assert_int_eq(errand_pread(fd, &same, sizeof same, 0, 1), -EIO);
}

/* How long it takes until somebody who does not come back is left, or is not sent. */
static uint64_t time_to_leave(const int go_on[2], const int forgotten[2], uint32_t user)
{
    uint64_t begun = clock_monotonic();
    ck_assert_int_eq(errand_run(waiting_for(go_on, forgotten), user), -ETIMEDOUT);
    return clock_monotonic() - begun;
}

static int go_again(uint32_t user)
{
    char byte;
    return (int)errand_read_path("/proc/self/comm", &byte, 1, user);
}

static void come_back(const int go_on[2], const int forgotten[2], uint32_t n)
{
    char byte;
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_int_eq(write(go_on[1], "", 1), 1);
        ck_assert_int_eq(read(forgotten[0], &byte, 1), 1);
    }
}

UNIT(who_keeps_one_waiting_is_gone_for_again_but_hardly_waited_for)
{
    int go_on[2], forgotten[2];
    ck_assert_int_eq(pipe2(go_on, O_CLOEXEC) + pipe2(forgotten, O_CLOEXEC), 0);
    ck_assert_uint_ge(time_to_leave(go_on, forgotten, 7), ERRAND_WAIT_NS);
    ck_assert_int_eq(go_again(7), 1); /* one of his processes keeps us: others do not */
    ck_assert_uint_ge(time_to_leave(go_on, forgotten, 7), ERRAND_STEP_NS);
    uint64_t begun = clock_monotonic();
    ck_assert_int_eq(go_again(7), -ETIMEDOUT); /* he owes */
    ck_assert_int_eq(go_again(8), 1);          /* others do not */
    while (go_again(7) < 0)
        usleep(10000);
    ck_assert_uint_ge(clock_monotonic() - begun, ERRAND_OWED_NS / 2);
    come_back(go_on, forgotten, 2);
    ck_assert_int_eq(go_again(7), 1);
    for (int i = 0; i < 2; i++) {
        close(go_on[i]);
        close(forgotten[i]);
    }
}

/* Who is left at a process, or at a server, is one: others of the same user have theirs as before. */
UNIT(where_one_is_kept_no_other_goes)
{
    int go_on[2], forgotten[2];
    char byte;
    ck_assert_int_eq(pipe2(go_on, O_CLOEXEC) + pipe2(forgotten, O_CLOEXEC), 0);
    for (int n = 0; n < 3 * (int)ERRAND_OUT_MAX; n++) {
        struct errand *e = waiting_for(go_on, forgotten);
        e->where = 42;
        ck_assert_int_eq(errand_run(e, 7), -ETIMEDOUT);
        if (n > 0)
            ck_assert_int_eq(read(forgotten[0], &byte, 1), 1); /* was not sent */
        ck_assert_int_eq(go_again(7), 1);
    }
    ck_assert_int_eq(errand_read_path("/proc/42/comm", &byte, 1, 7), -ETIMEDOUT);
    ck_assert_int_ne(errand_read_path("/proc/42/comm", &byte, 1, 8), -ETIMEDOUT);
    come_back(go_on, forgotten, 1);
    ck_assert_int_ne(errand_read_path("/proc/42/comm", &byte, 1, 7), -ETIMEDOUT);
}

UNIT(where_an_errand_goes)
{
    ck_assert_uint_eq(errand_where("/proc/317/map_files/1-2"), 317);
    ck_assert_uint_eq(errand_where("/proc/317"), 317);
    ck_assert_uint_eq(errand_where("/proc/self/mem"), 0);
    ck_assert_uint_eq(errand_where("/"), 0);
    autoclose int folder = open("/proc", O_PATH | O_CLOEXEC), other = open("/proc/1", O_PATH | O_CLOEXEC);
    autoclose int file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC),
                  another = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ck_assert_uint_eq(errand_where_open(folder), errand_where_open(other)); /* of places the device counts */
    ck_assert_uint_ne(errand_where_open(file), errand_where_open(another));
    ck_assert_uint_gt(errand_where_open(file), UINT32_MAX);
    ck_assert_uint_eq(errand_where_open(-1), 0);
}

UNIT(of_one_user_s_so_many_are_out)
{
    int go_on[2], forgotten[2];
    char byte;
    ck_assert_int_eq(pipe2(go_on, O_CLOEXEC) + pipe2(forgotten, O_CLOEXEC), 0);
    for (uint32_t n = 0; n < ERRAND_OUT_MAX;) {
        if (time_to_leave(go_on, forgotten, 7) >= ERRAND_STEP_NS)
            n++;
        else
            ck_assert_int_eq(read(forgotten[0], &byte, 1), 1); /* was not sent */
        usleep(10000);
    }
    usleep(ERRAND_OWED_NS / 1000 + 10000);
    ck_assert_int_eq(go_again(7), -ETIMEDOUT);
    come_back(go_on, forgotten, 1);
    ck_assert_int_eq(go_again(7), 1);
    come_back(go_on, forgotten, ERRAND_OUT_MAX - 1);
    for (int i = 0; i < 2; i++) {
        close(go_on[i]);
        close(forgotten[i]);
    }
}

struct who {
    struct errand errand;
    pid_t pid, parent;
    int nice;
};

static void say_who(struct errand *e)
{
    struct who *w = (struct who *)e;
    w->pid = getpid();
    w->parent = getppid();
    w->nice = getpriority(PRIO_PROCESS, 0);
}

static void forget(struct errand *e)
{
    free(e);
}

static void ask_who(struct who *ret)
{
    autofree struct who *w = unit_made((struct who *)calloc(1, sizeof *w));
    w->errand = (struct errand){.go = say_who, .forget = forget};
    ck_assert_int_eq(errand_run(&w->errand, 10), 0);
    *ret = *w;
}

UNIT(who_goes_is_a_process_of_its_own_and_others_go_after_it)
{
    struct who first, second;
    if (IS_TRACED)
        unit_skip("AddressSanitizer: threads go themselves");
    ask_who(&first);
    ck_assert_int_ne(first.pid, getpid());
    ck_assert_int_eq(first.parent, getpid());
    ck_assert_int_eq(kill(first.pid, SIGKILL), 0);
    while (kill(first.pid, 0) == 0)
        usleep(1000);
    ask_who(&second);
    ck_assert_int_eq(second.parent, getpid());
    errand_renew();
    while (kill(second.pid, 0) == 0)
        usleep(1000);
    ask_who(&first);
    ck_assert_int_eq(first.parent, getpid());
}

static void *ask_as_one_that_is_less_urgent(void *ret)
{
    ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 1), 0);
    ask_who(ret);
    return NULL;
}

UNIT(who_goes_has_the_priority_of_who_sends)
{
    pthread_t thread;
    struct who first, second, third;
    const int own = getpriority(PRIO_PROCESS, 0);
    if (own == 19)
        unit_skip("there is no lower priority than that this runs with");
    ask_who(&first);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_as_one_that_is_less_urgent, &second), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ask_who(&third);
    ck_assert_int_eq(first.nice, own);
    ck_assert_int_eq(second.nice, own + 1); /* though one is idle */
    ck_assert_int_eq(third.nice, own);      /* likewise */
    ck_assert_int_eq(third.pid, first.pid);
}

static void compute(struct errand *e)
{
    uint64_t begun = clock_monotonic();
    (void)e;
    while (clock_monotonic() - begun < 2 * ERRAND_WAIT_NS)
        ;
}

UNIT(who_waits_for_nobody_but_a_processor_is_waited_for)
{
    autofree struct errand *e = unit_made((struct errand *)calloc(1, sizeof *e));
    *e = (struct errand){.go = compute, .forget = forget};
    ck_assert_int_eq(errand_run(e, 9), 0);
}

UNIT(many_users_keep_one_waiting_so_often_and_root_not_at_all)
{
    char byte;
    int go_on[2], forgotten[2];
    ck_assert_int_eq(pipe2(go_on, O_CLOEXEC) + pipe2(forgotten, O_CLOEXEC), 0);
    for (uint32_t i = 0; i < ERRAND_USERS; i++)
        ck_assert_int_eq(errand_run(waiting_for(go_on, forgotten), 100 + i), -ETIMEDOUT);
    uint64_t begun = clock_monotonic();
    for (uint32_t i = 0; i < 100; i++) {
        /* is not sent, and forgotten at once */
        ck_assert_int_eq(errand_run(waiting_for(go_on, forgotten), 200 + i), -ETIMEDOUT);
        ck_assert_int_eq(read(forgotten[0], &byte, 1), 1);
    }
    ck_assert_uint_lt(clock_monotonic() - begun, unit_patience(NSEC_PER_SEC));
    ck_assert_int_eq(errand_read_path("/proc/self/comm", &byte, 1, 0), 1);
    for (uint32_t i = 0; i < ERRAND_USERS; i++) {
        ck_assert_int_eq(write(go_on[1], "", 1), 1);
        ck_assert_int_eq(read(forgotten[0], &byte, 1), 1);
    }
    for (int i = 0; i < 2; i++) {
        close(go_on[i]);
        close(forgotten[i]);
    }
}
