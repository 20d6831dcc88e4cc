/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/look proto/otlp/view */
/*
 * What keeping stacks costs, in CPU time of one thread, beside the goal: scripts/bench-look has the files.
 *
 *     bench_look FILE.pb …
 *     bench_look --day FOLDER FILE.pb …       a host's requests, one after the other, replayed as 24 hours
 *
 * Requests are decoded first; pushed in variants (vary.h: half of the names are new, so nearly all stacks
 * are), then again as they are, then so many that they are thinned. Then an hour in slices of 10 s, and a
 * week in coarse ones, are asked about. For instructions instead of times:
 *
 *     valgrind --tool=callgrind --toggle-collect=look_tap_push bench_look FILE.pb …
 */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/look/answer.h"
#include "gateway/look/tap.h"
#include "proto/base/clock.h"
#include "tests/bench/vary.h"
#include "tests/bench/whole_file.h"

#define FILES_MAX 1024u
#define VARIANTS  8u
#define BEGIN_NS  (1795338000ull * NSEC_PER_SEC)

struct request {
    struct profiles view;
    uint64_t at_ns; /* its first profile's time */
    struct varied varied;
};

static struct request requests[FILES_MAX];
static uint32_t n_requests;

struct bench {
    struct look_store *store;
    struct look_tap *tap;
    uint64_t now, tap_ns, store_ns, samples, seconds;
};

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static struct bench begin(uint32_t per_second)
{
    const struct look_store_options options = {256u << 20, 8 * 86400ull * NSEC_PER_SEC, per_second};
    struct bench b = {.store = look_store_new(&options, NULL), .now = BEGIN_NS};
    b.tap = b.store ? look_tap_new(&b.store->rates, &b.store->budget, options.memory / 8) : NULL;
    if (!b.tap)
        fail("out of memory");
    return b;
}

static void end(struct bench *b)
{
    look_tap_free(b->tap);
    look_store_free(b->store);
}

static void push(struct bench *b, struct request *r)
{
    for (uint32_t i = 0; i < r->view.profile.n; i++)
        r->view.profile.time_unix_nano[i] = b->now;
    const uint64_t from = clock_thread();
    look_tap_push(b->tap, &r->view, b->now);
    b->tap_ns += clock_thread() - from;
    b->samples += r->view.sample.n;
}

/* A second goes by. */
static void hand_over(struct bench *b, uint64_t step_ns)
{
    const uint64_t from = clock_thread();
    look_store_add(b->store, look_tap_take(b->tap), b->now);
    b->now += step_ns;
    b->seconds++;
    look_store_tick(b->store, b->now, b->now);
    b->store_ns += clock_thread() - from;
}

static void say(const char *what, double value, const char *unit, const char *goal)
{
    printf("| %-58s | %10.*f %-12s | %-10s |\n", what, value < 1 ? 3 : 1, value, unit, goal);
}

static void forget(struct bench *b)
{
    b->tap_ns = b->store_ns = b->samples = b->seconds = 0;
}

static void measure_cost(void)
{
    struct bench b = begin(1000000);
    for (uint32_t variant = 0; variant < VARIANTS; variant++)
        for (uint32_t i = 0; i < n_requests; i++) {
            varied_set(&requests[i].varied, variant);
            push(&b, &requests[i]);
            hand_over(&b, NSEC_PER_SEC);
        }
    say("worker, a sample, stacks new (names of half of the frames)", (double)b.tap_ns / (double)b.samples,
        "ns", "");
    say("store's thread, the same", (double)b.store_ns / (double)b.samples, "ns", "");
    const double both = (double)(b.tap_ns + b.store_ns) / (double)b.samples;
    say("5,000 such samples a second, of a core", both * 5000 / 1e7, "%", "<= 2");
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < b.store->n_epochs; i++)
        nodes += b.store->epochs[i]->dict.nodes.n;
    say("memory of a node, all told", (double)b.store->budget.used / (double)max_of(nodes, 1ull), "bytes",
        "<= 73");
    forget(&b);
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t i = 0; i < n_requests; i++) {
            push(&b, &requests[i]);
            hand_over(&b, NSEC_PER_SEC);
        }
    say("worker, a sample, stacks known, all kept", (double)b.tap_ns / (double)b.samples, "ns", "<= 350");
    say("store's thread, the same", (double)b.store_ns / (double)b.samples, "ns", "");
    end(&b);
}

/* A hundred thousand samples a second. */
static void measure_thinned(void)
{
    struct bench b = begin(5000);
    for (uint32_t second = 0; second < 30; second++) {
        if (second == 10)
            forget(&b);
        for (uint64_t sent = 0; sent < 100000;)
            for (uint32_t i = 0; i < n_requests && sent < 100000; sent += requests[i++].view.sample.n)
                push(&b, &requests[i]);
        hand_over(&b, NSEC_PER_SEC);
    }
    say("worker, a sample, at 100,000 a second (5,000 kept)", (double)b.tap_ns / (double)b.samples, "ns",
        "<= 50");
    say("both threads then, of a core", (double)(b.tap_ns + b.store_ns) / 1e7 / (double)b.seconds, "%", "");
    end(&b);
}

static void measure_query(struct bench *b, const char *what, enum look_endpoint endpoint, const char *query,
                          const char *goal)
{
    uint64_t best = UINT64_MAX;
    size_t bytes = 0;
    for (uint32_t i = 0; i < 5; i++) {
        struct look_answer answer;
        const uint64_t from = clock_thread();
        if (look_answer(b->store, endpoint, bytes_str(query), b->now, 0, &answer) < 0)
            fail(what);
        if (answer.status != 200) {
            printf("| %-58s | %.*s", what, BYTES_FMT(buffer_bytes(&answer.body)));
            buffer_release(&answer.body);
            return;
        }
        best = min_of(best, clock_thread() - from);
        bytes = answer.body.n;
        buffer_release(&answer.body);
    }
    char text[96];
    snprintf(text, sizeof text, "%s (%zu KB)", what, bytes >> 10);
    say(text, (double)best / 1e6, "ms", goal);
}

static void measure_queries(void)
{
    struct bench b = begin(1000000);
    for (uint32_t slice = 0; slice < 360; slice++) {
        for (uint32_t i = slice % 2; i < n_requests; i += 2) {
            varied_set(&requests[i].varied, slice % VARIANTS);
            push(&b, &requests[i]);
        }
        hand_over(&b, LOOK_SLICE_NS);
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b.store->n_epochs; i++)
        for (uint32_t k = 0; k < b.store->epochs[i]->slices.n; k++)
            bytes += b.store->epochs[i]->slices.p[k].data.n;
    say("slices, bytes a sample", (double)bytes / (double)b.samples, "bytes", "");
    printf("(an hour: %.1f million samples, %u epochs)\n", (double)b.samples / 1e6, b.store->n_epochs);
    measure_query(&b, "flame of an hour", LOOK_FLAME, "from=now-1h", "<= 25");
    measure_query(&b, "flame of an hour, one kind of thread", LOOK_FLAME,
                  "from=now-1h&query={thread_name=\"java\"}", "<= 25");
    measure_query(&b, "top", LOOK_TOP, "from=now-1h", "");
    measure_query(&b, "sandwich", LOOK_SANDWICH, "from=now-1h&function=runtime.goexit", "");
    measure_query(&b, "diff of halves", LOOK_DIFF, "a.from=now-1h&a.to=now-30m&b.from=now-30m", "");
    measure_query(&b, "series by runtime", LOOK_SERIES, "from=now-1h", "");
    measure_query(&b, "series by thread", LOOK_SERIES, "from=now-1h&group=thread", "");
    measure_query(&b, "services", LOOK_SERVICES, "from=now-1h", "");
    measure_query(&b, "pprof, all of it", LOOK_PPROF, "from=now-1h&lines=1", "");
    end(&b);
    b = begin(1000000);
    for (uint32_t slice = 0; slice < 7 * 144; slice++) {
        for (uint32_t i = slice % 2; i < n_requests; i += 2) {
            varied_set(&requests[i].varied, slice / 128);
            push(&b, &requests[i]);
        }
        hand_over(&b, LOOK_COARSE_SLICES * LOOK_SLICE_NS);
    }
    printf("(a week: %.1f million samples, %u epochs, %zu MB)\n", (double)b.samples / 1e6, b.store->n_epochs,
           (size_t)b.store->budget.used >> 20);
    measure_query(&b, "flame of a day", LOOK_FLAME, "from=now-24h", "<= 30");
    measure_query(&b, "flame of a week", LOOK_FLAME, "from=now-7d", "<= 200");
    end(&b);
}

/* ---- a day --------------------------------------------------------------------------------- */

#define DAY_NS  (24 * 3600ull * NSEC_PER_SEC)
#define HOST_NS (3600ull * NSEC_PER_SEC)
#define MEMORY  ((size_t)64 << 20) /* as the README has it */
#define ALIKE   100u

static struct bench begin_in(const char *folder, const char *name)
{
    const struct look_store_options options = {MEMORY, 8 * DAY_NS, 5000};
    struct bench b = {.store = look_store_new(&options, NULL), .now = BEGIN_NS};
    struct error e = {""};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!b.store || look_store_keep_in(b.store, path, UINT64_MAX, &e) < 0)
        fail(e.text);
    b.tap = look_tap_new(&b.store->rates, &b.store->budget, options.memory / 8);
    if (!b.tap)
        fail("out of memory");
    return b;
}

static void say_store(const struct bench *b)
{
    uint64_t nodes = 0, strings = 0, disk = 0, stacks = 0;
    for (uint32_t i = 0; i < b->store->n_epochs; i++) {
        nodes += b->store->epochs[i]->dict.nodes.n;
        strings += b->store->epochs[i]->dict.strings.n;
        stacks += b->store->epochs[i]->stacks.n;
    }
    for (uint32_t i = 0; i < look_shelf_n(b->store->shelf); i++)
        disk += look_shelf_at(b->store->shelf, i)->bytes;
    printf(
        "(%.2f million samples, %.1f %% without a stack; %.1f MB on disk in %u files; in memory %.1f MB: %u epochs, "
        "%.0f k stacks, %.0f k nodes, %.0f k names)\n",
        (double)b->samples / 1e6, 100 * (double)b->store->counts.not_kept / (double)b->store->counts.seen,
        (double)disk / 1e6, look_shelf_n(b->store->shelf), (double)b->store->budget.used / 1e6,
        b->store->n_epochs, (double)stacks / 1e3, (double)nodes / 1e3, (double)strings / 1e3);
}

static double on_disk(const struct bench *b)
{
    uint64_t disk = 0;
    for (uint32_t i = 0; i < look_shelf_n(b->store->shelf); i++)
        disk += look_shelf_at(b->store->shelf, i)->bytes;
    return (double)disk;
}

/* What was recorded, again and again until the time is over: as it is, or with new names each time. A real
 * day is between the two. */
static void replay(struct bench *b, uint64_t until_ns, bool is_new)
{
    const uint64_t length = requests[n_requests - 1].at_ns - requests[0].at_ns + 5 * NSEC_PER_SEC;
    const uint64_t from_ns = b->now;
    for (uint32_t round = 0; b->now < until_ns; round++)
        for (uint32_t i = 0; i < n_requests && b->now < until_ns; i++) {
            varied_set(&requests[i].varied, is_new ? (uint32_t)((b->now - BEGIN_NS) / length) : 0);
            const uint64_t at = from_ns + round * length + (requests[i].at_ns - requests[0].at_ns);
            push(b, &requests[i]);
            hand_over(b, at > b->now ? at - b->now : 0);
        }
}

static void ask_of_day(struct bench *b, const char *when)
{
    static const struct {
        const char *what, *query, *goal;
        enum look_endpoint endpoint;
    } questions[] = {{"flame of the last hour", "from=now-1h", "<= 25", LOOK_FLAME},
                     {"flame of the day", "from=now-24h", "<= 30", LOOK_FLAME},
                     {"top of the last hour", "from=now-1h", "", LOOK_TOP}};
    for (uint32_t i = 0; i < ARRAY_LEN(questions); i++) {
        char what[64];
        snprintf(what, sizeof what, "%s%s", questions[i].what, when);
        measure_query(b, what, questions[i].endpoint, questions[i].query, questions[i].goal);
    }
}

static void measure_day(const char *folder, const char *name, bool is_new)
{
    struct bench b = begin_in(folder, name);
    printf("(a day, %s)\n", is_new ? "half of the names new each time" : "the same again and again");
    replay(&b, BEGIN_NS + HOST_NS, is_new);
    say_store(&b);
    const double hour = on_disk(&b);
    say("disk, the first host-hour", hour / 1e6, "MB", "<= 3");
    replay(&b, BEGIN_NS + DAY_NS, is_new);
    say_store(&b);
    say("disk, a host-hour of the day", on_disk(&b) / 24e6, "MB", "<= 3");
    say("both threads, of a core", (double)(b.tap_ns + b.store_ns) / (double)DAY_NS * 100, "%", "<= 2");
    ask_of_day(&b, "");
    const uint64_t now = b.now;
    end(&b);
    b = begin_in(folder, name);
    b.now = now;
    ask_of_day(&b, ", after a restart");
    end(&b);
}

/* The host's name in a request, to be another host's. NULL: it has none of two letters and more. */
static uint8_t *host_name(struct request *r)
{
    for (uint32_t i = 0; i < r->view.key_value.n; i++) {
        const struct attr *a = &r->view.key_value.attr[i];
        if (bytes_is(a->key, "host.name") && a->value.kind == ATTR_STRING && a->value.text.n >= 2)
            return (uint8_t *)a->value.text.p + a->value.text.n - 2;
    }
    return NULL;
}

static void measure_alike(const char *folder)
{
    struct bench b = begin_in(folder, "alike");
    for (uint32_t i = 0; i < n_requests; i++) {
        uint8_t *name = host_name(&requests[i]);
        for (uint32_t host = 0; host < ALIKE && name; host++) {
            name[0] = (uint8_t)('0' + host / 10);
            name[1] = (uint8_t)('0' + host % 10);
            push(&b, &requests[i]);
        }
        hand_over(&b, i + 1 < n_requests ? requests[i + 1].at_ns - requests[i].at_ns : 0);
    }
    const double hours = (double)(b.now - BEGIN_NS) / (double)HOST_NS;
    printf("(%u alike hosts, %.2f hours)\n", ALIKE, hours);
    say_store(&b);
    say("disk, a host-hour of a hundred alike", on_disk(&b) / ALIKE / hours / 1e6, "MB", "<= 0.3");
    measure_query(&b, "flame of all of it", LOOK_FLAME, "from=now-1h", "<= 25");
    end(&b);
}

static void measure_days(const char *folder)
{
    for (uint32_t i = 0; i < n_requests; i++)
        for (uint32_t k = 0; k < requests[i].view.profile.n && requests[i].at_ns == 0; k++)
            requests[i].at_ns = requests[i].view.profile.time_unix_nano[k];
    for (uint32_t i = 1; i < n_requests; i++)
        if (requests[i].at_ns < requests[i - 1].at_ns)
            fail("files are not in the order of their times");
    measure_day(folder, "same", false);
    measure_day(folder, "new", true);
    measure_alike(folder);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 2 && strcmp(argv[1], "--day") == 0 ? argv[2] : NULL;
    for (int i = folder ? 3 : 1; i < argc && n_requests < FILES_MAX; i++) {
        struct request *r = &requests[n_requests++];
        struct error e = {""};
        size_t n;
        uint8_t *body = whole_file(argv[i], PROFILES_PADDING, &n);
        if (!body || profiles_init(&r->view, NULL) < 0 ||
            profiles_decode(&r->view, bytes_of(body, n), &profiles_limits_default, &e) != 0 ||
            varied_find(&r->varied, &r->view) < 0)
            fail(argv[i]);
    }
    if (n_requests < 2)
        fail("usage: bench_look FILE.pb FILE.pb …");
    printf("| %-58s | %-23s | %-10s |\n|---|---|---|\n", "", "measured", "goal");
    if (folder) {
        measure_days(folder);
        return 0;
    }
    measure_cost();
    measure_thinned();
    measure_queries();
    return 0;
}
