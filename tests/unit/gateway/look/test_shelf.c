/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view rules/match dep_sqlite3 */
/* Stacks on disk: there after a restart and after kill -9, damaged files named and the rest served, bounded.
 */
#include "gateway/look/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "gateway/look/store.h"
#include "gateway/look/tap.h"
#include "gateway/look/tree.h"
#include "proto/base/clock.h"
#include "proto/base/rng.h"
#include "tests/bench/vary.h"
#include "tests/lib/unit.h"

#define BEGIN (1795338000ull * NSEC_PER_SEC)

static char folder[UNIT_PATH_MAX];
static struct look_store *store;
static struct look_tap *tap;
static struct profiles view;
static unsigned char *body;
static uint64_t now = BEGIN, retention_ns = 3600ull * NSEC_PER_SEC;

static void open_store(uint64_t bytes_max)
{
    const struct look_store_options options = {16u << 20, retention_ns, 1000000};
    struct error e = {""};
    store = unit_made(look_store_new(&options, NULL));
    ck_assert_msg(look_store_keep_in(store, folder, bytes_max, &e) == 0, "%s", e.text);
    tap = unit_made(look_tap_new(&store->rates, &store->budget, 8u << 20));
}

static void close_store(void)
{
    look_tap_free(tap);
    look_store_free(store);
}

static void take(const char *name)
{
    struct error e = {""};
    size_t n;
    ck_assert_int_eq(profiles_init(&view, NULL), 0);
    body = unit_data(name, &n);
    ck_assert_int_eq(profiles_decode(&view, bytes_of(body, n), &profiles_limits_default, &e), 0);
}

static void leave(void)
{
    profiles_release(&view);
    free(body);
}

static void push(void)
{
    for (uint32_t i = 0; i < view.profile.n; i++)
        view.profile.time_unix_nano[i] = now;
    look_tap_push(tap, &view, now);
    look_store_add(store, look_tap_take(tap), now);
    now += LOOK_SLICE_NS;
    look_store_tick(store, now, now);
}

static struct budget *tree_budget; /* NULL: unlimited */

/* What a tree of all that is kept adds up to; of that many nodes, gathered so many at once. */
static uint64_t total_of(enum look_level level, uint32_t most, uint32_t gathered_max, uint32_t *ret_nodes)
{
    cleanup(look_tree_release) struct look_tree tree;
    struct look_found found;
    struct look_select select = {.from_ns = level == LOOK_COARSE ? 0 : BEGIN - NSEC_PER_SEC,
                                 .to_ns = now + 3600ull * NSEC_PER_SEC,
                                 .type = BYTES_LIT(LOOK_CPU_TYPE)};
    ck_assert_int_eq(look_tree_init(&tree, tree_budget, LOOK_LINES, most), 0);
    tree.gathered_max = gathered_max;
    tree.keep = most;
    ck_assert_int_eq(look_tree_gather(&tree, 0, store, &select, 0, &found), 0);
    ck_assert_int_eq(look_tree_grow(&tree), 0);
    ck_assert_int_eq(look_tree_sum(&tree), 0);
    ck_assert_int_eq(found.level, level);
    const uint64_t sum = tree.total[0].p[LOOK_ROOT];
    *ret_nodes = tree.dict.nodes.n;
    return sum;
}

static uint64_t total(enum look_level level)
{
    uint32_t nodes;
    return total_of(level, LOOK_ALL_NODES, LOOK_GATHERED_MAX, &nodes);
}

/* The n-th file whose name has this in it; its path. */
static bool find_file(const char *part, char ret[2 * UNIT_PATH_MAX])
{
    DIR *d = opendir(folder);
    bool found = false;
    ck_assert_ptr_nonnull(d);
    for (struct dirent *entry; !found && (entry = readdir(d));) {
        const size_t n = strlen(entry->d_name), k = strlen(part);
        found = strstr(entry->d_name, part) && (part[0] != '.' || strcmp(entry->d_name + n - k, part) == 0);
        snprintf(ret, 2 * UNIT_PATH_MAX, "%s/%.80s", folder, entry->d_name);
    }
    closedir(d);
    return found;
}

UNIT(what_was_kept_is_there_after_a_restart)
{
    unit_new_folder(folder);
    take("connector/ebpf-mixed-0003.pb");
    open_store(1u << 30);
    for (int i = 0; i < 70; i++)
        push();
    const uint64_t sum = total(LOOK_FINE);
    ck_assert_uint_gt(sum, 0);
    ck_assert_uint_eq(total(LOOK_COARSE), sum);
    close_store();
    open_store(1u << 30);
    ck_assert_uint_eq(store->n_epochs, 0);
    ck_assert_uint_eq(total(LOOK_FINE), sum);
    ck_assert_uint_eq(total(LOOK_COARSE), sum);
    push();
    ck_assert_uint_eq(total(LOOK_FINE), sum / 70 * 71);
    ck_assert_uint_eq(total(LOOK_COARSE), sum / 70 * 71);
    close_store();
    leave();
}

UNIT(a_folder_is_one_process_s)
{
    struct look_shelf *first = NULL, *second = NULL;
    struct error e = {""};
    unit_new_folder(folder);
    ck_assert_int_eq(look_shelf_open(&first, folder, 1u << 30, &e), 0);
    ck_assert_int_lt(look_shelf_open(&second, folder, 1u << 30, &e), 0);
    ck_assert(strstr(e.text, "in use by another process"));
    look_shelf_close(first);
    ck_assert_int_eq(look_shelf_open(&first, folder, 1u << 30, &e), 0);
    look_shelf_close(first);
}

/* Of a file that nobody has open. */
static int64_t rows_of(const char *path, const char *table)
{
    struct sqlite3 *db = NULL;
    struct sqlite3_stmt *s = NULL;
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(s), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

/* The child says what it has written; it is killed in the middle of something. */
static void child(int out)
{
    retention_ns = 24 * 3600ull * NSEC_PER_SEC; /* one epoch */
    open_store(1u << 30);
    for (uint32_t n = 1;; n++) {
        push();
        const uint32_t sealed = n > 3 ? n - 3 : 0; /* open: this slice and the two before */
        if (write(out, &sealed, sizeof sealed) != sizeof sealed)
            _exit(1);
    }
}

UNIT(what_was_written_is_there_after_a_kill)
{
    struct rng rng;
    int64_t packs = 0;
    rng_seed(&rng, 3);
    take("connector/ebpf-go-0003.pb");
    for (unsigned round = 0; round < unit_rounds(12); round++) {
        int ends[2];
        uint32_t sealed = 0, told;
        unit_new_folder(folder);
        now = BEGIN;
        ck_assert_int_eq(pipe(ends), 0);
        const pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            child(ends[1]);
        close(ends[1]);
        const uint32_t enough = 5 + (uint32_t)(rng_next(&rng) % 300);
        while (sealed < enough && read(ends[0], &told, sizeof told) == sizeof told)
            sealed = told;
        ck_assert_uint_ge(sealed, enough);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(ends[0], &told, sizeof told) == sizeof told)
            sealed = told;
        close(ends[0]);
        char path[2 * UNIT_PATH_MAX];
        ck_assert(find_file(".sqlite", path));
        packs += rows_of(path, "pack");
        uint64_t one = 0;
        for (uint32_t k = 0; k < view.sample.n; k++)
            one += (uint64_t)profiles_sample_value(&view, k);
        open_store(1u << 30);
        now = BEGIN + (sealed + 100) * LOOK_SLICE_NS;
        ck_assert_uint_ge(total(LOOK_FINE), sealed * one * (uint64_t)view.profile.period[0]);
        ck_assert_uint_eq(total(LOOK_COARSE), total(LOOK_FINE));
        close_store();
    }
    ck_assert_int_gt(packs, 0); /* also while it grew */
    leave();
}

/* Whatever is in a file: what is wrong is left out, and a file that cannot be read is set aside. */
UNIT(damage_is_left_out)
{
    char path[2 * UNIT_PATH_MAX];
    struct rng rng;
    struct stat st;
    rng_seed(&rng, 4);
    unit_new_folder(folder);
    take("connector/ebpf-go-0003.pb");
    open_store(1u << 30);
    for (int i = 0; i < 12; i++)
        push();
    const uint64_t sum = total(LOOK_FINE);
    close_store();
    ck_assert(find_file(".sqlite", path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    uint8_t *whole = malloc((size_t)st.st_size);
    ck_assert(whole && pread(fd, whole, (size_t)st.st_size, 0) == st.st_size);
    close(fd);
    uint32_t whole_sums = 0, rounds = unit_rounds(60);
    for (uint32_t round = 0; round < rounds; round++) {
        const off_t at = (off_t)(rng_next(&rng) % (uint64_t)st.st_size);
        const uint8_t byte = whole[at] ^ (uint8_t)(1u << rng_next(&rng) % 8);
        const bool cuts = round % 5 == 4;
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ck_assert(fd >= 0 && pwrite(fd, whole, (size_t)(cuts ? at : st.st_size), 0) >= 0);
        if (!cuts)
            ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        open_store(1u << 30);
        const uint64_t found = total(LOOK_FINE);
        ck_assert_uint_le(found, sum);
        whole_sums += found == sum;
        close_store();
    }
    ck_assert_uint_lt(whole_sums, rounds);
    free(whole);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert(fd >= 0 && write(fd, "no database at all, but a text that somebody left here", 54) == 54);
    close(fd);
    open_store(1u << 30);
    ck_assert_uint_eq(total(LOOK_FINE), 0);
    ck_assert(find_file("damaged", path));
    close_store();
    leave();
}

/* The last few of them are for people to look at. */
UNIT(files_set_aside_are_bounded)
{
    char path[2 * UNIT_PATH_MAX];
    unit_new_folder(folder);
    for (int i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "%s/epoch-%d.sqlite", folder, i + 1);
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ck_assert(fd >= 0 && write(fd, path, sizeof path) == sizeof path);
        close(fd);
    }
    open_store(1u << 30);
    close_store();
    uint32_t n = 0;
    for (; find_file("damaged", path); n++)
        ck_assert_int_eq(unlink(path), 0);
    ck_assert_uint_eq(n, 4);
}

UNIT(files_are_bounded)
{
    uint64_t most = 0;
    unit_new_folder(folder);
    take("connector/ebpf-go-0003.pb");
    open_store(1u << 20);
    for (int i = 0; i < 40; i++) {
        uint64_t bytes = 0;
        push();
        if (store->n_epochs > 0)
            store->epochs[store->n_epochs - 1]->began_ns -= 901ull * NSEC_PER_SEC; /* an epoch each */
        for (uint32_t k = 0; k < look_shelf_n(store->shelf); k++)
            bytes += look_shelf_at(store->shelf, k)->bytes;
        most = max_of(most, bytes);
    }
    /* what is being written is never deleted: one file and its log may come on top */
    ck_assert_uint_le(most, 2u << 20);
    ck_assert_uint_gt(look_shelf_n(store->shelf), 1);
    ck_assert_uint_lt(look_shelf_n(store->shelf), 20);
    close_store();
    leave();
}

/* What is open when the clock is set back is sealed, and what was of the future keeps nothing that is too
 * old. */
UNIT(a_clock_that_jumps_keeps_nothing_waiting)
{
    const uint64_t year_ns = 365 * 24 * 3600ull * NSEC_PER_SEC;
    unit_new_folder(folder);
    take("connector/ebpf-go-0003.pb");
    open_store(1u << 30);
    push();
    now += year_ns;
    push();
    now -= year_ns;
    push();
    for (uint32_t i = 0; i < store->n_epochs; i++)
        for (uint32_t k = 0; k < store->epochs[i]->open.n; k++)
            if (store->epochs[i]->open.p[k].level == LOOK_FINE)
                ck_assert_uint_le(store->epochs[i]->open.p[k].at, now / LOOK_SLICE_NS);
    for (int i = 0; i < 20; i++, now += 600ull * NSEC_PER_SEC)
        push();
    const uint64_t oldest = (now - retention_ns - 1200ull * NSEC_PER_SEC) / LOOK_SLICE_NS;
    ck_assert_uint_gt(look_shelf_n(store->shelf), 2);
    for (uint32_t i = 0; i < look_shelf_n(store->shelf); i++)
        ck_assert_uint_ge(look_shelf_at(store->shelf, i)->newest, oldest);
    for (uint32_t i = 0; i < store->n_epochs; i++)
        ck_assert_uint_ge(store->epochs[i]->newest, oldest);
    close_store();
    leave();
}

/* Of six files of the same, however much of them is gathered at once, and whatever of it is shown. */
UNIT(files_are_one_tree)
{
    uint32_t nodes, other;
    unit_new_folder(folder);
    take("connector/ebpf-go-0003.pb");
    open_store(1u << 30);
    for (int i = 0; i < 6; i++) {
        push();
        store->epochs[store->n_epochs - 1]->began_ns -= 901ull * NSEC_PER_SEC; /* an epoch each */
    }
    close_store();
    open_store(1u << 30);
    ck_assert_uint_eq(look_shelf_n(store->shelf), 6);
    const uint64_t sum = total_of(LOOK_FINE, LOOK_ALL_NODES, UINT32_MAX, &nodes);
    ck_assert_uint_gt(nodes, 1000);
    ck_assert_uint_eq(total_of(LOOK_FINE, LOOK_ALL_NODES, 100, &other), sum);
    ck_assert_uint_eq(other, nodes);
    ck_assert_uint_eq(total_of(LOOK_FINE, 500, UINT32_MAX, &other), sum);
    ck_assert_uint_eq(other, LOOK_FIRST_NODE + 500);
    ck_assert_uint_eq(total_of(LOOK_FINE, 500, 100, &other), sum);
    ck_assert_uint_eq(other, LOOK_FIRST_NODE + 500);
    close_store();
    leave();
}

/* A tree of a few nodes takes no more memory for the names of all files than for those of some. */
UNIT(names_of_many_files_need_not_be_in_memory)
{
    struct budget budget = BUDGET_INIT((size_t)700 << 10, NULL);
    struct varied varied;
    uint32_t nodes;
    unit_new_folder(folder);
    take("connector/ebpf-go-0003.pb");
    ck_assert_int_eq(varied_find(&varied, &view), 0);
    open_store(1u << 30);
    for (uint32_t i = 0; i < 12; i++) {
        varied_set(&varied, i);
        push();
        store->epochs[store->n_epochs - 1]->began_ns -= 901ull * NSEC_PER_SEC; /* an epoch each */
    }
    close_store();
    open_store(1u << 30);
    ck_assert_uint_eq(look_shelf_n(store->shelf), 12);
    tree_budget = &budget;
    const uint64_t sum = total_of(LOOK_FINE, 100, 100, &nodes);
    ck_assert_uint_eq(nodes, LOOK_FIRST_NODE + 100);
    tree_budget = NULL;
    ck_assert_uint_eq(budget.used, 0);
    ck_assert_uint_eq(total_of(LOOK_FINE, LOOK_ALL_NODES, UINT32_MAX, &nodes), sum);
    close_store();
    free(varied.end);
    leave();
}

UNIT(a_folder_that_takes_nothing_costs_nothing_else)
{
    unit_new_folder(folder);
    take("connector/ebpf-go-0003.pb");
    open_store(1u << 30);
    char path[2 * UNIT_PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", folder);
    ck_assert(unlink(path) == 0 && rmdir(folder) == 0);
    for (int i = 0; i < 10; i++)
        push();
    ck_assert_uint_eq(look_shelf_n(store->shelf), 0);
    const uint64_t sum = total(LOOK_FINE);
    ck_assert_uint_gt(sum, 0);
    close_store();
    leave();
}
