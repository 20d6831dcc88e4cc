/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/config gateway/export */
/* What files get, and what becomes of what they do not take. */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/export/file/exporter.h"
#include "tests/unit/gateway/export/opened.h"

static char *slurp(const char *path)
{
    FILE *f = unit_made(fopen(path, "r"));
    char *text = calloc(1, 65536);
    ck_assert_uint_gt(fread(text, 1, 65535, f), 0);
    fclose(f);
    return text;
}

UNIT(metrics_to_a_file)
{
    char folder[UNIT_PATH_MAX], path[UNIT_PATH_MAX + 16], moved[UNIT_PATH_MAX + 16];
    unit_new_folder(folder);
    snprintf(path, sizeof path, "%s/out.json", folder);
    snprintf(moved, sizeof moved, "%s/out.json.1", folder);
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct metric_batch *b = batch_of(1), *none = batch_of(0);
    struct file_settings settings = {.path = path};
    struct exporter *x = open_metrics(&exporter_file, &settings, loop, stats);
    exporter_push_metrics(x, b);
    exporter_push_metrics(x, b);
    exporter_push_metrics(x, none); /* no empty envelope */
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 2);
    ck_assert_int_eq(rename(path, moved), 0);
    exporter_push_metrics(x, b); /* to a new file */
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 3);
    static const char line[] =
        "{\"resourceMetrics\":[{\"resource\":{},\"scopeMetrics\":[{\"scope\":{},\"metrics\":[{\"name\":\"m\",\"sum\":"
        "{\"dataPoints\":[{\"timeUnixNano\":\"1\",\"asInt\":\"0\"}],\"aggregationTemporality\":1,"
        "\"isMonotonic\":true}}]}]}]}\n";
    char *first = slurp(moved), *second = slurp(path), twice[1000];
    snprintf(twice, sizeof twice, "%s%s", line, line);
    ck_assert_str_eq(first, twice);
    ck_assert_str_eq(second, line);
    drain_until(x, loop, 0);
    free(first);
    free(second);
    metric_batch_free(b);
    metric_batch_free(none);
    io_loop_free(loop);
}

/* A request that can be told from others: a string table of one. */
static uint8_t *profiles_of(char name, size_t *ret_n)
{
    static const uint8_t text[] = {0x12, 0x03, 0x2a, 0x01};
    uint8_t *p = unit_made(calloc(1, sizeof text + 1));
    memcpy(p, text, sizeof text);
    p[sizeof text] = (uint8_t)name;
    *ret_n = sizeof text + 1;
    return p;
}

static void push_profiles(struct export_profiles *x, char name)
{
    size_t n;
    uint8_t *p = profiles_of(name, &n);
    ck_assert(reserve(x, 100));
    export_profiles_push(x, plain(p, n), 100, 3, export_profiles_all(x), NULL);
}

UNIT(profiles_to_files_in_order)
{
    char folder[UNIT_PATH_MAX], path[2][UNIT_PATH_MAX + 16];
    unit_new_folder(folder);
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct budget memory = BUDGET_INIT(1000, NULL);
    struct exporter *to[2];
    for (int format = FILE_JSON; format <= FILE_PROTO; format++) {
        snprintf(path[format], sizeof path[format], "%s/%d", folder, format);
        struct file_settings s = {.path = path[format], .format = format};
        struct export_context c = {
            .name = "file", .signal = CONFIG_TAKES_PROFILES, .loop = loop, .stats = stats, .budget = &memory};
        ck_assert_int_eq(exporter_open(&to[format], &exporter_file.config, &s, &c, NULL), 0);
    }
    struct export_profiles *x = unit_made(export_profiles_new(to, 2));
    ck_assert(!export_profiles_terms(x).no_references);
    ck_assert(!reserve(x, 600)); /* the second does not fit the budget: then neither has it */
    ck_assert_uint_eq(memory.used, 0);
    for (char name = 'a'; name <= 'c'; name++)
        push_profiles(x, name);
    ck_assert_uint_eq(memory.used, 2 * 3 * 5);
    UNTIL(loop, stats->value[STATS_EXPORT_PROFILES_SENT] == 6);
    ck_assert_uint_eq(memory.used, 0);
    push_profiles(x, 'd'); /* what is queued leaves before the end */
    close_profiles(x, to, 2, loop, clock_monotonic() + unit_patience(10 * (uint64_t)NSEC_PER_SEC));
    ck_assert_uint_eq(stats->value[STATS_EXPORT_PROFILES_SENT], 8);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    char *json = slurp(path[FILE_JSON]), *proto = slurp(path[FILE_PROTO]);
    ck_assert_str_eq(
        json, "{\"dictionary\":{\"stringTable\":[\"a\"]}}\n{\"dictionary\":{\"stringTable\":[\"b\"]}}\n"
              "{\"dictionary\":{\"stringTable\":[\"c\"]}}\n{\"dictionary\":{\"stringTable\":[\"d\"]}}\n");
    ck_assert(
        memcmp(proto, "\0\0\0\5\x12\3*\1a\0\0\0\5\x12\3*\1b\0\0\0\5\x12\3*\1c\0\0\0\5\x12\3*\1d\0", 37) == 0);
    free(json);
    free(proto);
    io_loop_free(loop);
}

/* No file takes them: each is counted, at the end those that still wait, and memory that was out on the way.
 */
UNIT(profiles_that_no_file_takes_are_counted)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct file_settings settings = {.path = "/dev/full"};
    if (access("/dev/full", W_OK) < 0)
        unit_skip("no /dev/full");
    struct exporter *to = open_one(&exporter_file, &settings, CONFIG_TAKES_PROFILES, loop, stats);
    struct export_profiles *x = unit_made(export_profiles_new(&to, 1));
    push_profiles(x, 'a');
    UNTIL(loop, stats->value[STATS_EXPORT_PROFILES_RETRIED] > 1);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 0);
    ck_assert(reserve(x, 100));
    to->kind->push_profiles(to, NULL, 100, 7, NULL);
    UNTIL(loop, stats->value[STATS_FORWARD_DROPPED] == 7);
    push_profiles(x, 'b');
    push_profiles(x, 'c');
    close_profiles(x, &to, 1, loop, 0);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_PROFILES_FAILED], 3);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 16);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_PROFILES_SENT], 0);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    io_loop_free(loop);
}

UNIT(metrics_in_protobuf_behind_their_length)
{
    char folder[UNIT_PATH_MAX], path[UNIT_PATH_MAX + 16];
    unit_new_folder(folder);
    snprintf(path, sizeof path, "%s/out", folder);
    struct io_loop *loop = unit_made(io_loop_new());
    struct file_settings settings = {.path = path, .format = FILE_PROTO};
    struct exporter *x = open_metrics(&exporter_file, &settings, loop, NULL);
    struct metric_batch *b = batch_of(2);
    struct buffer wanted = BUFFER_INIT(0);
    uint32_t from = 0, place = 0;
    ck_assert_int_eq(metrics_encode_proto(b, SIZE_MAX, &from, &place, &wanted), 0);
    exporter_push_metrics(x, b);
    drain_until(x, loop, clock_monotonic() + unit_patience(10 * (uint64_t)NSEC_PER_SEC));
    char *file = slurp(path);
    ck_assert_uint_eq((uint8_t)file[3], wanted.n);
    ck_assert(memcmp(file, "\0\0", 3) == 0 && memcmp(file + 4, wanted.p, wanted.n) == 0);
    free(file);
    buffer_release(&wanted);
    metric_batch_free(b);
    io_loop_free(loop);
}

/* Windows of deltas that are written to a disk without room are there when it has some again, whole and in
 * order. */
UNIT(what_a_full_disk_refused_is_written_when_there_is_room)
{
    enum { WINDOWS = 20 };
    char folder[UNIT_PATH_MAX], path[UNIT_PATH_MAX + 16];
    unit_new_folder(folder);
    snprintf(path, sizeof path, "%s/out", folder);
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct file_settings settings = {.path = path};
    struct exporter *x = open_metrics(&exporter_file, &settings, loop, stats);
    struct metric_batch *b = batch_of(5);
    struct rlimit was, full;
    struct buffer line = BUFFER_INIT(0);
    ck_assert_int_eq(metrics_encode_json(b, &line), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    full = was;
    full.rlim_cur = 2 * line.n + line.n / 2;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
    for (int i = 0; i < WINDOWS; i++)
        exporter_push_metrics(unit_made(x), b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_RETRIED] >= 2);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_SENT], 2);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_FAILED], 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == WINDOWS);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 0);
    drain_until(x, loop, 0);
    char *file = slurp(path);
    ck_assert_uint_eq(strlen(file), WINDOWS * line.n);
    for (int i = 0; i < WINDOWS; i++)
        ck_assert_int_eq(memcmp(file + (size_t)i * line.n, line.p, line.n), 0);
    free(file);
    buffer_release(&line);
    metric_batch_free(b);
    io_loop_free(loop);
}

UNIT(a_full_disk_is_counted_and_leaves_no_half_line)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct file_settings settings = {.path = "/dev/full"};
    struct metric_batch *b = batch_of(5);
    if (access("/dev/full", W_OK) < 0)
        unit_skip("no /dev/full");
    struct exporter *x = open_metrics(&exporter_file, &settings, loop, stats);
    exporter_push_metrics(x, b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_RETRIED] == 1);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_FAILED], 0);
    drain_until(x, loop, 0);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_SENT], 0);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_FAILED], 1);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 5);
    metric_batch_free(b);
    io_loop_free(loop);
}

/* What nobody reads: a FIFO that is full. Neither a push nor the end waits for it. */
UNIT(a_file_that_takes_nothing_is_waited_for_until_the_end_and_no_longer)
{
    char folder[UNIT_PATH_MAX], path[UNIT_PATH_MAX + 16];
    static uint8_t fill[4096];
    unit_new_folder(folder);
    snprintf(path, sizeof path, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK), writer = open(path, O_WRONLY | O_NONBLOCK);
    ck_assert(reader >= 0 && writer >= 0);
    while (write(writer, fill, sizeof fill) > 0)
        ;
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct budget memory = BUDGET_INIT((size_t)512 << 10, NULL);
    struct file_settings settings = {.path = path};
    struct export_context c = {
        .name = "file", .signal = CONFIG_TAKES_METRICS, .loop = loop, .stats = stats, .budget = &memory};
    struct exporter *x = NULL;
    struct metric_batch *b = batch_of(100);
    ck_assert_int_eq(exporter_open(&x, &exporter_file.config, &settings, &c, NULL), 0);
    for (int i = 0; i < 200; i++) { /* some 5 KB each: the budget is full after a hundred */
        exporter_push_metrics(unit_made(x), b);
        io_loop_run_once(loop, 0);
    }
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_SENT], 0);
    ck_assert_uint_gt(stats->value[STATS_EXPORT_METRICS_FAILED], 0); /* the oldest made room */
    ck_assert_uint_gt(memory.used, 0);
    drain_until(x, loop, clock_monotonic() + 50 * NSEC_PER_MSEC);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_FAILED], 200);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 200 * 100);
    ck_assert_uint_eq(memory.used, 0);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    metric_batch_free(b);
    io_loop_free(loop);
    close(reader); /* the thread that writes hears EPIPE, and goes */
    close(writer);
}
