/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/producers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "tests/lib/unit.h"

static char *text(void)
{
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(stats_prometheus(&out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    size_t n;
    return (char *)buffer_take(&out, &n);
}

static bool says(const char *line)
{
    autofree char *all = text();
    return strstr(all, line) != NULL;
}

UNIT(threads_add_up_by_name_and_layout)
{
    struct stats *a = unit_made(stats_new()), *b = unit_made(stats_new());
    producers_add(a, STATS_LAYOUT_1_10, BYTES_LIT("x"));
    producers_add(a, STATS_LAYOUT_1_10, BYTES_LIT("y"));
    producers_add(b, STATS_LAYOUT_1_10, BYTES_LIT("y"));
    producers_add(b, STATS_LAYOUT_1_5, BYTES_LIT("y"));
    producers_add(NULL, STATS_LAYOUT_1_5, BYTES_LIT("y"));
    producers_add(b, STATS_LAYOUT_1_7, BYTES_LIT(""));
    ck_assert(says("# TYPE profgate_requests_by_producer_total counter\n"
                   "profgate_requests_by_producer_total{layout=\"1.10\",producer=\"x\"} 1\n"
                   "profgate_requests_by_producer_total{layout=\"1.5\",producer=\"y\"} 1\n"
                   "profgate_requests_by_producer_total{layout=\"1.10\",producer=\"y\"} 2\n"
                   "profgate_requests_by_producer_total{layout=\"1.7\",producer=\"unknown\"} 1\n#"));
}

UNIT(nothing_is_said_before_the_first_request)
{
    ck_assert(!says("profgate_requests_by_producer_total"));
}

/* The sixty-fifth name and all after it are "other", in every thread, and the known ones go on. */
UNIT(names_are_bounded)
{
    struct stats *a = unit_made(stats_new()), *b = unit_made(stats_new());
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "p%d", i);
        producers_add(i % 2 ? a : b, STATS_LAYOUT_1_10, bytes_str(name));
    }
    producers_add(a, STATS_LAYOUT_1_10, BYTES_LIT("p0"));
    ck_assert(says("{layout=\"1.10\",producer=\"p0\"} 2\n"));
    ck_assert(says("{layout=\"1.10\",producer=\"p63\"} 1\n"));
    ck_assert(!says("producer=\"p64\""));
    ck_assert(says("{layout=\"1.10\",producer=\"other\"} 36\n"));
    autofree char *all = text();
    int n = 0;
    for (const char *at = all; (at = strstr(at, "producer=\"")); at++)
        n++;
    ck_assert_int_eq(n, STATS_PRODUCERS + 1);
}

/* What a peer calls itself cannot break out of its label, nor make it long. */
UNIT(names_are_cut_and_cleaned)
{
    struct stats *s = unit_made(stats_new());
    char longer[PRODUCER_NAME_MAX + 40];
    memset(longer, 'a', sizeof longer);
    memcpy(longer + PRODUCER_NAME_MAX - 1, "\xc3\xa9", 2); /* would be cut in two */
    producers_add(s, STATS_LAYOUT_1_10, bytes_of(longer, sizeof longer));
    producers_add(s, STATS_LAYOUT_1_10, BYTES_LIT("q\"b\\n\nz"));
    producers_add(s, STATS_LAYOUT_1_10, BYTES_LIT("caf\xc3\xa9"));
    producers_add(s, STATS_LAYOUT_1_10, BYTES_LIT("bad\xff"));
    memset(longer, 0x80, sizeof longer);
    producers_add(s, STATS_LAYOUT_1_10, bytes_of(longer, sizeof longer));
    char want[200], as[PRODUCER_NAME_MAX], questions[PRODUCER_NAME_MAX + 1] = {0};
    memset(as, 'a', sizeof as);
    memset(questions, '?', PRODUCER_NAME_MAX);
    snprintf(want, sizeof want, "producer=\"%.63s\"} 1\n", as);
    ck_assert(says(want));
    snprintf(want, sizeof want, "producer=\"%s\"} 1\n", questions);
    ck_assert(says(want));
    ck_assert(says("producer=\"q\\\"b\\\\n?z\"} 1\n"));
    ck_assert(says("producer=\"caf\xc3\xa9\"} 1\n"));
    ck_assert(says("producer=\"bad?\"} 1\n"));
}

UNIT(the_batch_has_a_point_for_each)
{
    struct stats *s = unit_made(stats_new());
    producers_add(s, STATS_LAYOUT_1_10, BYTES_LIT("x"));
    producers_add(s, STATS_LAYOUT_1_8, BYTES_LIT("x"));
    struct metric_batch *b = unit_made(stats_batch(NULL, 0, clock_realtime(), NULL));
    const struct metric *m = &b->resources[0].metrics[b->resources[0].n_metrics - 1];
    ck_assert(bytes_is(m->name, "profgate.requests_by_producer"));
    ck_assert(m->kind == METRIC_SUM && m->n_points == 2);
    ck_assert(bytes_is(m->points[0].attrs[0].key, "layout") &&
              bytes_is(m->points[0].attrs[0].value.text, "1.8"));
    ck_assert(bytes_is(m->points[1].attrs[1].key, "producer") &&
              bytes_is(m->points[1].attrs[1].value.text, "x"));
    ck_assert_int_eq(m->points[0].integer + m->points[1].integer, 2);
    metric_batch_free(b);
    for (size_t limit = 64; limit < 65536; limit += 512) { /* memory may run out anywhere */
        struct budget budget = BUDGET_INIT(limit, NULL);
        b = stats_batch(NULL, 0, clock_realtime(), &budget);
        metric_batch_free(b);
        ck_assert_uint_eq(budget.used, 0);
    }
}

static pthread_barrier_t barrier;

static void *come_all_at_once(void *unused)
{
    struct stats *s = unit_made(stats_new());
    char name[16];
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 80; i++) {
        snprintf(name, sizeof name, "t%d", i);
        producers_add(s, STATS_LAYOUT_1_9, bytes_str(name));
    }
    return s;
}

UNIT(threads_that_come_at_once_agree_on_the_names)
{
    pthread_t threads[4];
    pthread_barrier_init(&barrier, NULL, ARRAY_LEN(threads));
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_all_at_once, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    char line[64];
    for (int i = 0; i < STATS_PRODUCERS; i++) {
        snprintf(line, sizeof line, "{layout=\"1.9\",producer=\"t%d\"} 4\n", i);
        ck_assert(says(line));
    }
    ck_assert(says("{layout=\"1.9\",producer=\"other\"} 64\n"));
}
