/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_sqlite3 */
#include "proto/journal/journal.h"

#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "tests/lib/unit.h"

static char folder[64];

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/pg-journal-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static const char *path(const char *ending)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/a.sqlite%s", folder, ending);
    return text;
}

static struct {
    atomic_uint set_aside, damaged, expired, failed, recovered, evicted, put_back;
} events;

static void on_event(void *user, const struct journal_event *e)
{
    switch (e->kind) {
    case JOURNAL_SET_ASIDE: events.set_aside++; break;
    case JOURNAL_DAMAGED: events.damaged += (unsigned)e->records; break;
    case JOURNAL_EXPIRED: events.expired += (unsigned)e->items; break;
    case JOURNAL_FAILED: events.failed++; break;
    case JOURNAL_RECOVERED: events.recovered++; break;
    case JOURNAL_EVICTED: events.evicted += (unsigned)e->items; break;
    case JOURNAL_PUT_BACK: events.put_back++; break;
    case JOURNAL_DELETED:
    case JOURNAL_OVER: break;
    }
}

static struct journal_options options(void)
{
    memset(&events, 0, sizeof events);
    return (struct journal_options){
        .folder = folder, .name = "a", .bytes_max = 64u << 20, .waiting_max = 16u << 20, .tell = on_event};
}

static struct journal *open_with(struct journal_options o)
{
    struct journal *j = NULL;
    struct error e = {0};
    ck_assert_msg(journal_open(&j, &o, &e) == 0, "%s", e.text);
    return unit_made(j);
}

struct done {
    atomic_uint n, failed;
};

static void on_done(void *arg, int r)
{
    struct done *d = arg;
    d->failed += r < 0;
    d->n++;
}

static void wait_done(struct done *d, unsigned n)
{
    unit_until(d->n >= n, usleep(1000));
}

static uint64_t add(struct journal *j, struct bytes body, uint64_t items, struct done *d)
{
    ck_assert(journal_reserve(j, body.n + 5));
    struct journal_record r = {JOURNAL_PROFILES, items, 7, body};
    return journal_add(j, &r, body.n + 5, on_done, d);
}

/* ---- reading ---- */

struct reading {
    struct journal_read read;
    atomic_bool done;
};

static void on_read(struct journal_read *r)
{
    container_of(r, struct reading, read)->done = true;
}

/* The next one behind a number; its body is the caller's. */
static struct journal_read next(struct journal *j, uint64_t after)
{
    struct reading r = {
        .read = {.kind = JOURNAL_PROFILES, .after = after, .done = on_read, .body = BUFFER_INIT(0)}};
    journal_read(j, &r.read);
    while (!r.done)
        usleep(200);
    return r.read;
}

static void expect(struct journal *j, uint64_t after, const char *text, uint64_t items)
{
    struct journal_read r = next(j, after);
    ck_assert_uint_ne(r.number, 0);
    ck_assert_uint_eq(r.items, items);
    ck_assert_uint_eq(r.info, 7);
    ck_assert_msg(r.body.n == strlen(text) && memcmp(r.body.p, text, r.body.n) == 0, "%.*s", (int)r.body.n,
                  (const char *)r.body.p);
    buffer_release(&r.body);
}

static unsigned count_records(struct journal *j)
{
    unsigned n = 0;
    for (uint64_t after = 0;; n++) {
        struct journal_read r = next(j, after);
        buffer_release(&r.body);
        if (r.number == 0)
            return n;
        ck_assert_uint_gt(r.number, after);
        after = r.number;
    }
}

/* Deletions are committed a moment later. */
static void wait_records(struct journal *j, uint64_t n)
{
    unit_until(journal_counts(j).records == n, usleep(1000));
}

/* ---- cases ---- */

static void note_over(void *user, const struct journal_event *e)
{
    if (e->kind == JOURNAL_OVER)
        atomic_store((atomic_bool *)user, true);
}

UNIT(who_ends_it_is_told_when_all_is_written)
{
    struct done d = {0};
    atomic_bool is_over = false;
    begin();
    struct journal_options o = options();
    o.gather_ns = (uint64_t)3600 * NSEC_PER_SEC;
    o.tell = note_over;
    o.user = &is_over;
    struct journal *j = open_with(o);
    add(j, bytes_str("one"), 1, &d);
    ck_assert(!is_over);
    ck_assert_uint_eq(journal_counts(j).records, 1);
    ck_assert_uint_eq(journal_counts(j).waiting, 1);
    ck_assert_uint_eq(journal_counts(j).waiting_bytes, 3);
    journal_end(j);
    unit_until(atomic_load(&is_over), usleep(1000));
    wait_done(&d, 1);
    ck_assert_uint_eq(d.failed, 0);
    ck_assert(!journal_reserve(j, 1));
    ck_assert_uint_eq(journal_counts(j).records, 1);
    ck_assert_uint_eq(journal_counts(j).waiting, 0);
    ck_assert_int_ne(access(path("-wal"), F_OK),
                     0); /* it has gone into the file: closing waits for no disk */
    journal_close(j);
    j = open_with(options());
    expect(j, 0, "one", 1);
    journal_close(j);
    end();
}

UNIT(what_was_added_is_there_after_a_restart_until_it_is_removed)
{
    struct done d = {0};
    begin();
    struct journal *j = open_with(options());
    uint64_t one = add(j, bytes_str("one"), 1, &d), two = add(j, bytes_str("two"), 22, &d);
    ck_assert_uint_lt(one, two);
    wait_done(&d, 2);
    ck_assert_uint_eq(d.failed, 0);
    ck_assert_uint_eq(journal_counts(j).records, 2);
    ck_assert_uint_eq(journal_counts(j).bytes, 6);
    journal_remove(j, one);
    journal_close(j);

    j = open_with(options());
    ck_assert_uint_eq(journal_counts(j).records, 1);
    expect(j, 0, "two", 22);
    struct done more = {0};
    ck_assert_uint_gt(add(j, bytes_str("three"), 3, &more), two);
    expect(j, two, "three", 3); /* what waits is written first */
    journal_close(j);
    end();
}

UNIT(it_is_on_disk_when_that_is_said_whoever_dies_then)
{
    begin();
    int pipe_[2];
    ck_assert_int_eq(pipe(pipe_), 0);
    pid_t child = fork();
    if (child == 0) {
        struct done d = {0};
        struct journal *j = open_with(options());
        for (unsigned i = 0; i < 100; i++)
            add(j, bytes_str("acknowledged"), 1, &d);
        wait_done(&d, 100);
        if (write(pipe_[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    char said;
    close(pipe_[1]); /* a child that failed says nothing, and that is heard */
    const ssize_t heard = read(pipe_[0], &said, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(pipe_[0]);
    ck_assert_int_eq(heard, 1);
    struct journal *j = open_with(options());
    ck_assert_uint_eq(count_records(j), 100);
    journal_close(j);
    end();
}

UNIT(what_is_removed_before_its_turn_is_safe_and_never_written)
{
    struct done d = {0};
    begin();
    struct journal *j = open_with(options());
    for (unsigned i = 0; i < 1000; i++)
        journal_remove(j, add(j, bytes_str("gone"), 1, &d));
    wait_done(&d, 1000);
    ck_assert_uint_eq(d.failed, 0);
    journal_close(j);
    j = open_with(options());
    ck_assert_uint_eq(journal_counts(j).records, 0);
    journal_close(j);
    end();
}

UNIT(it_is_bounded_in_bytes_waiting_and_kept)
{
    struct done d = {0};
    struct journal_options o = options();
    o.bytes_max = 100;
    o.waiting_max = 60;
    begin();
    struct journal *j = open_with(o);
    ck_assert(journal_reserve(j, 60));
    ck_assert(!journal_reserve(j, 1)); /* in memory */
    journal_cancel(j, 60);
    uint64_t number = add(j, bytes_str("0123456789012345678901234567890123456789"), 1, &d);
    wait_done(&d, 1);
    ck_assert(journal_reserve(j, 60));
    journal_cancel(j, 60);
    add(j, bytes_str("0123456789012345678901234567890123456789"), 1, &d);
    wait_done(&d, 2);
    ck_assert(!journal_reserve(j, 21)); /* on disk */
    journal_remove(j, number);
    unit_until(journal_reserve(j, 60), usleep(1000));
    journal_cancel(j, 60);
    journal_close(j);
    end();
}

UNIT(what_is_too_old_goes_and_is_counted)
{
    struct done d = {0};
    begin();
    struct journal *j = open_with(options());
    add(j, bytes_str("old"), 5, &d);
    wait_done(&d, 1);
    journal_close(j);
    usleep(2000);
    struct journal_options o = options();
    o.age_max_ns = 1000000;
    j = open_with(o);
    ck_assert_uint_eq(journal_counts(j).records, 0);
    ck_assert_uint_eq(events.expired, 5);
    journal_close(j);
    end();
}

static uint64_t a_year_ahead(void)
{
    return clock_realtime() + 365 * 86400 * (uint64_t)NSEC_PER_SEC;
}

static uint64_t a_year_behind(void)
{
    return clock_realtime() - 365 * 86400 * (uint64_t)NSEC_PER_SEC;
}

UNIT(a_wall_clock_that_jumps_makes_nothing_old_or_young)
{
    struct done d = {0};
    struct journal_options o = options();
    o.age_max_ns = 3600 * (uint64_t)NSEC_PER_SEC;
    o.realtime = a_year_ahead;
    begin();
    struct journal *j = open_with(o);
    add(j, bytes_str("of a wrong clock"), 1, &d);
    wait_done(&d, 1);
    journal_close(j);
    o.realtime = a_year_behind; /* put right, and too far */
    j = open_with(o);
    add(j, bytes_str("of another"), 1, &d);
    wait_done(&d, 2);
    ck_assert_uint_eq(count_records(j), 2);
    journal_close(j);
    o.age_max_ns = 20 * NSEC_PER_MSEC; /* of both: who waits long enough goes, also while this runs */
    usleep(5000);
    memset(&events, 0, sizeof events);
    j = open_with(o);
    unit_until(events.expired >= 2, usleep(1000));
    journal_close(j);
    end();
}

UNIT(the_oldest_make_room_where_that_is_wanted)
{
    struct done d = {0};
    struct journal_options o = options();
    o.bytes_max = 10;
    o.evicts = true;
    begin();
    struct journal *j = open_with(o);
    const char *const bodies[] = {"aaaa", "bbbb", "cccc"};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(journal_reserve(j, 4));
        struct journal_record r = {JOURNAL_PROFILES, 1u << i, 7, bytes_str(bodies[i])};
        journal_add(j, &r, 4, on_done, &d);
        wait_done(&d, i + 1);
    }
    ck_assert_uint_eq(d.failed, 0);
    ck_assert_uint_eq(events.evicted, 1);
    ck_assert_uint_eq(journal_counts(j).bytes, 8);
    expect(j, 0, "bbbb", 2);
    ck_assert(!journal_reserve(j, 11)); /* not even alone */
    journal_close(j);
    o.bytes_max = 5; /* less than what is there */
    j = open_with(o);
    ck_assert(journal_reserve(j, 4));
    struct journal_record r = {JOURNAL_PROFILES, 8, 7, bytes_str("dddd")};
    journal_add(j, &r, 4, on_done, &d);
    wait_done(&d, 4);
    ck_assert_uint_eq(events.evicted, 7);
    expect(j, 0, "dddd", 8);
    journal_close(j);
    end();
}

/* A shell's, in which $F is the folder. */
static void shell(const char *what)
{
    char command[512];
    snprintf(command, sizeof command, "F=%s; %s", folder, what);
    ck_assert_int_eq(system(command), 0);
}

UNIT(a_folder_that_was_removed_is_made_again_with_all_that_was_in_it)
{
    static const char *const harms[] = {"rm -r $F", "rm $F/a.sqlite", "mv $F $F.away; mkdir $F",
                                        "cp -r $F $F.away; rm -r $F; mv $F.away $F"};
    for (size_t i = 0; i < ARRAY_LEN(harms); i++) {
        struct done d = {0};
        begin();
        struct journal *j = open_with(options());
        add(j, bytes_str("one"), 1, &d);
        wait_done(&d, 1);
        shell(harms[i]);
        uint64_t two = add(j, bytes_str("two"), 2, &d);
        wait_done(&d, 2);
        ck_assert_uint_eq(d.failed, 0);
        ck_assert_uint_eq(events.put_back, 1);
        journal_close(j);
        j = open_with(options());
        ck_assert_uint_eq(count_records(j), 2);
        expect(j, two - 1, "two", 2);
        journal_close(j);
        shell("rm -rf $F.away");
        end();
    }
}

UNIT(nothing_is_said_to_be_safe_while_the_folder_cannot_be_made_again)
{
    struct done d = {0};
    char above[32];
    begin();
    snprintf(above, sizeof above, "%.31s", folder);
    snprintf(folder, sizeof folder, "%s/in/a", above);
    shell("mkdir $(dirname $F)");
    struct journal *j = open_with(options());
    add(j, bytes_str("one"), 1, &d);
    wait_done(&d, 1);
    shell("rm -r $(dirname $F)");
    add(j, bytes_str("two"), 2, &d);
    wait_done(&d, 2);
    ck_assert_uint_eq(d.failed, 1);
    ck_assert(!journal_reserve(j, 1));
    shell("mkdir $(dirname $F)");
    unit_until(journal_reserve(j, 8), usleep(10000));
    journal_cancel(j, 8);
    add(j, bytes_str("three"), 3, &d);
    wait_done(&d, 3);
    ck_assert_uint_eq(d.failed, 1);
    ck_assert_uint_eq(count_records(j), 2);
    ck_assert(events.failed > 0 && events.recovered == 1);
    journal_close(j);
    snprintf(folder, sizeof folder, "%s", above);
    end();
}

UNIT(another_process_is_refused)
{
    begin();
    struct journal *j = open_with(options()), *other;
    struct journal_options o = options();
    struct error e;
    ck_assert_int_lt(journal_open(&other, &o, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.text, "in use"));
    journal_close(j);
    end();
}

static void sql(const char *text)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path(""), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

UNIT(records_of_other_kinds_are_left_alone_and_counted_and_a_newer_file_is_refused)
{
    struct done d = {0};
    struct journal_options o = options();
    struct journal *j;
    struct error e;
    begin();
    j = open_with(o);
    add(j, bytes_str("ours"), 1, &d);
    wait_done(&d, 1);
    journal_close(j);
    sql("INSERT INTO record VALUES(99, 42, 1, 1, 1, 3, 4, 'new')");
    o.age_max_ns = 3600 * (uint64_t)NSEC_PER_SEC;
    j = open_with(o);
    ck_assert_uint_eq(journal_counts(j).unknown, 1);
    ck_assert_uint_eq(count_records(j), 1);
    journal_close(j);
    j = open_with(o);
    ck_assert_uint_eq(journal_counts(j).unknown, 1);
    journal_close(j);
    sql("PRAGMA user_version=2");
    ck_assert_int_lt(journal_open(&j, &o, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.text, "newer"));
    end();
}

UNIT(a_mark_is_for_the_next_process)
{
    begin();
    struct journal *j = open_with(options());
    ck_assert_uint_eq(journal_counts(j).mark, 0);
    journal_mark(j, 17);
    journal_close(j);
    j = open_with(options());
    ck_assert_uint_eq(journal_counts(j).mark, 17);
    ck_assert_uint_eq(journal_counts(j).records, 0);
    journal_mark(j, 0);
    journal_close(j);
    j = open_with(options());
    ck_assert_uint_eq(journal_counts(j).mark, 0);
    journal_close(j);
    end();
}

/* ---- damage ---- */

static void fill(unsigned n)
{
    struct done d = {0};
    struct journal *j = open_with(options());
    static char body[40000];
    for (unsigned i = 0; i < n; i++) {
        memset(body, 'a' + (int)(i % 26), sizeof body);
        add(j, bytes_of(body, sizeof body), 1, &d);
        wait_done(&d, i + 1);
    }
    journal_close(j);
}

static unsigned set_aside_files(void)
{
    glob_t found;
    unsigned n = glob(path(".damaged-*"), 0, NULL, &found) == 0 ? (unsigned)found.gl_pathc : 0;
    globfree(&found);
    return n;
}

UNIT(a_flipped_byte_costs_no_more_than_its_record_or_the_file_is_set_aside)
{
    for (unsigned round = 0; round < unit_rounds(40); round++) {
        begin();
        fill(20);
        struct stat st;
        ck_assert_int_eq(stat(path(""), &st), 0);
        int fd = open(path(""), O_RDWR);
        off_t where = (off_t)((uint64_t)st.st_size * round / 40) + (round % 2 ? 77 : 0);
        char byte;
        ck_assert_int_eq(pread(fd, &byte, 1, where), 1);
        byte ^= 0x55;
        ck_assert_int_eq(pwrite(fd, &byte, 1, where), 1);
        close(fd);
        struct journal_options o = options();
        struct journal *j = NULL;
        struct error e;
        int r = journal_open(&j, &o, &e);
        if (r == 0) {
            unsigned left = count_records(j);
            ck_assert_msg(left + events.damaged >= 19 || set_aside_files() == 1,
                          "byte %ld: %u left, %u damaged", (long)where, left, events.damaged);
            struct done d = {0};
            add(j, bytes_str("goes on"), 1, &d);
            wait_done(&d, 1);
            ck_assert_uint_eq(d.failed, 0);
            journal_close(j);
        } else { /* the head says that it is something else: nothing is touched */
            ck_assert_msg(strstr(e.text, "something else") || strstr(e.text, "newer"), "%s", e.text);
        }
        end();
    }
}

UNIT(a_truncated_file_is_set_aside_and_what_can_be_read_of_it_goes_on)
{
    begin();
    fill(20);
    struct stat st;
    ck_assert_int_eq(stat(path(""), &st), 0);
    ck_assert_int_eq(truncate(path(""), st.st_size / 2), 0);
    struct journal *j = open_with(options());
    unsigned left = count_records(j);
    ck_assert_uint_eq(set_aside_files(), 1);
    ck_assert_uint_eq(events.set_aside, 1);
    ck_assert_msg(left >= 5 && left < 20, "%u", left);
    struct done d = {0};
    add(j, bytes_str("goes on"), 1, &d);
    wait_done(&d, 1);
    ck_assert_uint_eq(d.failed, 0);
    journal_close(j);
    j = open_with(options());
    ck_assert_uint_eq(count_records(j), left + 1);
    journal_close(j);
    end();
}

UNIT(no_database_at_all_is_set_aside)
{
    begin();
    int fd = open(path(""), O_RDWR | O_CREAT, 0600);
    char noise[8192];
    memset(noise, 0x5a, sizeof noise);
    ck_assert_int_eq(write(fd, noise, sizeof noise), (int)sizeof noise);
    close(fd);
    struct journal *j = open_with(options());
    ck_assert_uint_eq(set_aside_files(), 1);
    ck_assert_uint_eq(count_records(j), 0);
    journal_close(j);
    end();
}

/* ---- a disk that takes nothing ---- */

/* Files may not grow from here on, or may again. */
static void set_full(bool is_full)
{
    struct stat st = {0};
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert(!is_full || stat(path("-wal"), &st) == 0);
    limit.rlim_cur = is_full ? (rlim_t)st.st_size : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

UNIT(a_full_disk_still_gives_what_is_on_it_and_does_not_hold_up_the_end)
{
    struct done d = {0};
    begin();
    struct journal *j = open_with(options());
    const uint64_t one = add(j, bytes_str("one"), 1, &d);
    add(j, bytes_str("two"), 2, &d);
    wait_done(&d, 2);
    set_full(true);
    journal_remove(j, one);
    expect(j, one, "two", 2); /* although the deletion cannot be committed */
    for (uint64_t i = 0; i < 600; i++)
        journal_remove(j, one); /* many of them */
    const unsigned before = events.failed;
    usleep(500000);
    ck_assert_uint_le(events.failed - before, 10); /* it is tried again now and then, not without pause */
    journal_close(j);
    set_full(false);
    end();
}

UNIT(a_disk_that_its_own_records_filled_is_used_again_when_they_are_delivered)
{
    struct done d = {0};
    uint64_t number[21];
    static char body[100000];
    begin();
    struct journal *j = open_with(options());
    journal_mark(j, 77);
    for (unsigned i = 0; i < 20; i++)
        number[i] = add(j, bytes_of(body, sizeof body), 1, &d);
    wait_done(&d, 20);
    set_full(true);
    for (unsigned i = 0; i < 19; i++)
        journal_remove(j, number[i]);
    usleep(500000);
    ck_assert_uint_eq(journal_counts(j).records, 20); /* one of them is still needed */
    struct journal_read left = next(j, number[18]);
    ck_assert_uint_eq(left.body.n, sizeof body);
    buffer_release(&left.body);
    journal_remove(j, number[19]);
    wait_records(j, 0);
    unit_until(journal_reserve(j, 8), usleep(1000));
    journal_cancel(j, 8);
    number[20] = add(j, bytes_str("new"), 3, &d);
    wait_done(&d, 21);
    ck_assert_uint_eq(d.failed, 0);
    ck_assert_uint_gt(number[20], number[19]);
    ck_assert_uint_eq(events.set_aside, 0);
    journal_close(j);
    set_full(false);
    j = open_with(options());
    ck_assert_uint_eq(journal_counts(j).mark, 77);
    expect(j, 0, "new", 3);
    journal_close(j);
    end();
}

UNIT(nobody_else_may_read_the_files)
{
    struct done d = {0};
    struct stat st;
    begin();
    chmod(folder, 0755);
    mode_t before = umask(022);
    struct journal *j = open_with(options());
    add(j, bytes_str("secret"), 1, &d);
    wait_done(&d, 1);
    for (const char *const *ending = (const char *const[]){"", "-wal", ".lock", NULL}; *ending; ending++) {
        ck_assert_int_eq(stat(path(*ending), &st), 0);
        ck_assert_msg((st.st_mode & 0777) == 0600, "%s: %o", path(*ending), st.st_mode & 0777);
    }
    journal_close(j);
    umask(before);
    end();
}

UNIT(nobody_is_let_in_to_find_out_that_the_disk_takes_nothing)
{
    struct done d = {0};
    static char body[100000];
    begin();
    struct journal *j = open_with(options());
    add(j, bytes_str("one"), 1, &d);
    wait_done(&d, 1);
    set_full(true);
    const uint64_t two = add(j, bytes_of(body, sizeof body), 2, &d);
    wait_done(&d, 2);
    ck_assert_uint_eq(d.failed, 1);
    while (events.failed < 3) { /* it is tried without anybody */
        ck_assert(!journal_reserve(j, 8));
        usleep(1000);
    }
    set_full(false);
    unit_until(journal_reserve(j, 8), usleep(1000));
    journal_cancel(j, 8);
    add(j, bytes_str("three"), 3, &d); /* has room at once */
    wait_done(&d, 3);
    ck_assert_uint_eq(d.failed, 1);
    ck_assert_uint_eq(events.recovered, 1);
    expect(j, two - 1, "three", 3);
    journal_close(j);
    j = open_with(options());
    ck_assert_uint_eq(count_records(j), 2); /* what was only tried is none */
    journal_close(j);
    end();
}

UNIT(a_deletion_that_finds_room_lets_nobody_in)
{
    struct done d = {0};
    static char body[100000];
    begin();
    struct journal *j = open_with(options());
    const uint64_t one = add(j, bytes_str("one"), 1, &d);
    add(j, bytes_str("two"), 1, &d);
    wait_done(&d, 2);
    set_full(true);
    add(j, bytes_of(body, sizeof body), 2, &d);
    wait_done(&d, 3);
    struct stat st;
    ck_assert_int_eq(stat(path("-wal"), &st), 0);
    const rlim_t little = (rlim_t)st.st_size + 65536; /* room for a deletion */
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = little;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    journal_remove(j, one);
    wait_records(j, 1);
    ck_assert(!journal_reserve(j, 8));
    ck_assert_uint_eq(events.recovered, 0);
    journal_close(j);
    set_full(false);
    end();
}

/* ---- many threads ---- */

struct producer {
    struct journal *j;
    struct done *d;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    for (unsigned i = 0; i < 200; i++) {
        while (!journal_reserve(p->j, 1000))
            usleep(1000);
        static char body[1000];
        struct journal_record r = {JOURNAL_PROFILES, 1, 7, bytes_of(body, sizeof body)};
        uint64_t number = journal_add(p->j, &r, 1000, on_done, p->d);
        if (i % 2)
            journal_remove(p->j, number);
    }
    return NULL;
}

UNIT(many_threads_add_and_remove_and_the_sums_are_right)
{
    struct done d = {0};
    pthread_t threads[4];
    begin();
    struct journal *j = open_with(options());
    struct producer p = {j, &d};
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, &p), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    wait_done(&d, 800);
    ck_assert_uint_eq(d.failed, 0);
    wait_records(j, 400);
    ck_assert_uint_eq(count_records(j), 400);
    journal_close(j);
    j = open_with(options());
    ck_assert_uint_eq(journal_counts(j).records, 400);
    ck_assert_uint_eq(journal_counts(j).bytes, 400000);
    journal_close(j);
    end();
}
