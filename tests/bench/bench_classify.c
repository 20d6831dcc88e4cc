/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/classify rules */
/*
 * What classifying costs beside decoding: requests of tests/data/connector are decoded once, then pushed in
 * rotation (one file over and over flatters the branch predictor by a third) with the shipped packs and the
 * real aggregate.
 *
 *     bench_classify [--packs NAME,…] [--enable NAME] [--patterns N] [--vary K] [--scatter WARM] [--repeat K]
 *                    [ROUNDS [FILE.pb …]]
 *
 * prints the median of each file's rounds and the first push of all; the last line has the mean.
 *
 *   --packs      only these shipped packs are on ("connector,cpu" is the connector's work); else the default
 *   --enable     a pack or metric that begins switched off
 *   --patterns   a metric of the user's with so many patterns besides, about one company's packages
 *   --vary       each file in K variants (vary.h), one a round
 *   --scatter    stacks no program makes: every frame of every stack is drawn anew each round, from all that
 * the file has; WARM rounds (at least 1) go before those that are measured. What rules find out in such
 * stacks is always new: the worst there is for rules/match/automaton.c
 *
 * Instructions instead of times, which other work on the machine disturbs: the first round (of all variants)
 * is warm up, the others go through measured_push(), so
 *
 *     valgrind --tool=callgrind --toggle-collect=measured_push bench_classify 3 FILE.pb …
 *
 * counts the steady state; the line "measured" says of how many samples.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/classify/classify.h"
#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "rules/compile.h"
#include "rules/program/program.h"
#include "tests/bench/vary.h"
#include "tests/bench/whole_file.h"

#define FILES_MAX  1024
#define INPUTS_MAX 64
#define ROWS       1000u /* of the user's table; more patterns stand several in a row */

struct request {
    const char *name;
    struct profiles view;
    struct varied varied;
    uint32_t *ns; /* [round] */
    uint64_t first;
};

struct options {
    const char *packs, *enable;
    uint32_t patterns, vary, rounds, warm, scatter, repeat;
};

static struct bytes load(const char *path)
{
    size_t n;
    uint8_t *p = whole_file(path, PROFILES_PADDING, &n);
    if (!p) {
        perror(path);
        exit(1);
    }
    return bytes_of(p, n);
}

/* ---- rules --------------------------------------------------------------------------------- */

static bool listed(const char *list, const char *name, size_t n)
{
    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ",");
        if (len == n && memcmp(at, name, n) == 0)
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

/* The same forms as bench_patterns' */
static void add_pattern(struct buffer *out, uint32_t i)
{
    switch (i % 4) {
    case 0: buffer_printf(out, "\"com.acme.orders.Service%u.call\"", i); break;
    case 1: buffer_printf(out, "\"com.acme.billing.Handler%u.*\"", i); break;
    case 2: buffer_printf(out, "\"com.acme.*.Worker%u.run*\"", i); break;
    default: buffer_printf(out, "/^acme::search::(?:sync|async)::Task%u::/", i); break;
    }
}

static void write_user_rules(struct buffer *out, const struct options *o)
{
    buffer_add_str(out, "rules 1\npack bench\n");
    if (o->enable)
        buffer_printf(out, "enable %s\n", o->enable);
    for (const struct embedded_file *f = rules_builtin; f->name && o->packs; f++) {
        size_t n = strcspn(f->name, ".");
        if (!listed(o->packs, f->name, n))
            buffer_printf(out, "disable %.*s\n", (int)n, f->name);
    }
    if (o->patterns == 0)
        return;
    uint32_t per_row = (o->patterns + ROWS - 1) / ROWS;
    buffer_add_str(out, "table ours (name) over frames nearest leaf {\n");
    for (uint32_t i = 0; i < o->patterns; i++) {
        buffer_add_str(out, i % per_row == 0 ? "    " : " | ");
        add_pattern(out, i);
        if ((i + 1) % per_row == 0 || i + 1 == o->patterns)
            buffer_printf(out, " => \"n%u\"\n", i);
    }
    buffer_add_str(out, "}\ncounter bench.time { on cpu  label name = ours.name }\n");
}

static struct rule_set *compile_rules(const struct options *o)
{
    struct rules_input inputs[INPUTS_MAX];
    struct rules_diagnostics d;
    struct buffer user = BUFFER_INIT(0);
    uint32_t n = 0;
    for (const struct embedded_file *f = rules_builtin; f->name && n < INPUTS_MAX - 1; f++)
        inputs[n++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true};
    write_user_rules(&user, o);
    inputs[n++] = (struct rules_input){"bench.rules", buffer_bytes(&user), false};
    struct rule_set *set = rules_compile(inputs, n, &d);
    for (uint32_t i = 0; i < d.n && !set; i++)
        fprintf(stderr, "%s", d.items[i].text);
    rules_diagnostics_release(&d);
    buffer_release(&user);
    return set;
}

static struct aggregate *make_aggregate(const struct rules_program *program)
{
    struct aggregate_metric *metrics = calloc(rules_program_metrics(program) + 1, sizeof *metrics);
    for (uint32_t i = 0; metrics && i < rules_program_metrics(program); i++) {
        const struct rule_metric *m = rules_program_metric(program, i);
        metrics[i] = (struct aggregate_metric){m->name,
                                               m->describe,
                                               m->unit,
                                               m->gauge ? METRIC_GAUGE : METRIC_SUM,
                                               m->sources[0].value == RULE_VALUE_TIME,
                                               m->limit};
    }
    struct aggregate *made = metrics ? aggregate_new(metrics, rules_program_metrics(program), NULL) : NULL;
    free(metrics);
    return made;
}

/* ---- requests ------------------------------------------------------------------------------ */

/* New columns of samples and attributes, never freed; the view's own are not the bench's to change. */
static void repeat(struct profiles *v, uint32_t k)
{
    uint32_t n = v->sample.n, from = v->sample.attrs_at[0], n_attrs = v->sample.attrs_at[n] - from;
    uint32_t *stack = calloc((size_t)n * k, sizeof *stack), *link = calloc((size_t)n * k, sizeof *link),
             *attrs_at = calloc((size_t)n * k + 1, sizeof *attrs_at),
             *n_values = calloc((size_t)n * k, sizeof *n_values),
             *n_timestamps = calloc((size_t)n * k, sizeof *n_timestamps),
             *attribute = calloc((size_t)v->attr_index.n + (size_t)n_attrs * k, sizeof *attribute);
    int64_t *value_sum = calloc((size_t)n * k, sizeof *value_sum);
    if (!stack || !link || !attrs_at || !n_values || !n_timestamps || !attribute || !value_sum)
        exit(1);
    memcpy(attribute, v->attr_index.attribute, v->attr_index.n * sizeof *attribute);
    uint32_t at = v->attr_index.n, to = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < k; c++, to++) {
            stack[to] = v->sample.stack[i];
            link[to] = v->sample.link[i];
            n_values[to] = v->sample.n_values[i];
            n_timestamps[to] = v->sample.n_timestamps[i];
            value_sum[to] = v->sample.value_sum[i];
            attrs_at[to] = at;
            for (uint32_t a = v->sample.attrs_at[i]; a < v->sample.attrs_at[i + 1]; a++)
                attribute[at++] = v->attr_index.attribute[a];
        }
    attrs_at[to] = at;
    for (uint32_t i = 0; i <= v->profile.n; i++)
        v->profile.samples_at[i] *= k;
    v->sample.n = to;
    v->attr_index.n = at;
    v->attr_index.attribute = attribute;
    v->sample.stack = stack;
    v->sample.link = link;
    v->sample.attrs_at = attrs_at;
    v->sample.n_values = n_values;
    v->sample.n_timestamps = n_timestamps;
    v->sample.value_sum = value_sum;
}

static void read_request(struct request *r, const char *path, const struct options *o)
{
    struct error e = {.text = ""};
    const char *slash = strrchr(path, '/');
    r->name = slash ? slash + 1 : path;
    r->ns = calloc(o->rounds, sizeof *r->ns);
    if (!r->ns || profiles_init(&r->view, NULL) < 0 ||
        profiles_decode(&r->view, load(path), &profiles_limits_default, &e) != 0 ||
        varied_find(&r->varied, &r->view) < 0) {
        fprintf(stderr, "%s: %s\n", path, e.text);
        exit(1);
    }
    if (o->repeat > 1)
        repeat(&r->view, o->repeat);
}

static void scatter(struct profiles *v)
{
    static struct rng rng = {88172645463325252u};
    for (uint32_t i = 0; i < v->stack_location.n && v->location.n > 1; i++)
        v->stack_location.location[i] = 1 + (uint32_t)(rng_next(&rng) % (v->location.n - 1));
}

/* ---- measuring ----------------------------------------------------------------------------- */

/* Not inlined: callgrind is told its name. */
static __attribute__((noinline)) int measured_push(struct classify *c, const struct profiles *view)
{
    int r = classify_push(c, view);
    __asm__ volatile("" ::: "memory"); /* a call, not a jump: or it would have no name of its own */
    return r;
}

static void run(struct classify *c, struct request *requests, uint32_t n, const struct options *o)
{
    uint64_t measured = 0;
    for (uint32_t round = 0; round < o->rounds; round++) {
        for (uint32_t i = 0; i < n; i++) {
            struct request *r = &requests[i];
            if (o->vary > 1)
                varied_set(&r->varied, round % o->vary);
            if (o->scatter > 0)
                scatter(&r->view);
            uint64_t from = clock_monotonic();
            int done = round < o->warm ? classify_push(c, &r->view) : measured_push(c, &r->view);
            uint64_t ns = clock_monotonic() - from;
            if (done < 0)
                exit(1);
            r->ns[round] = (uint32_t)min_of(ns, (uint64_t)UINT32_MAX);
            r->first = round == 0 ? ns : r->first;
            measured += round < o->warm ? 0 : r->view.sample.n;
        }
    }
    printf("measured %llu samples\n", (unsigned long long)measured);
}

static int by_size(const void *a, const void *b)
{
    return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

/* Of the rounds after the warm-up, where there are any. */
static void print(struct request *requests, uint32_t n, const struct options *o)
{
    uint32_t warm = o->rounds > o->warm ? o->warm : 0;
    double total = 0;
    uint64_t samples = 0;
    printf("%-32s %8s %8s %8s %9s | %9s %9s\n", "file", "profiles", "samples", "stacks", "locations",
           "first us", "median us");
    for (uint32_t i = 0; i < n; i++) {
        const struct profiles *v = &requests[i].view;
        qsort(requests[i].ns + warm, o->rounds - warm, sizeof *requests[i].ns, by_size);
        double median = requests[i].ns[warm + (o->rounds - warm) / 2] / 1e3;
        total += median;
        samples += v->sample.n;
        printf("%-32s %8u %8u %8u %9u | %9.1f %9.2f\n", requests[i].name, v->profile.n, v->sample.n,
               v->stack.n, v->location.n, (double)requests[i].first / 1e3, median);
    }
    printf("mean of medians %.2f us, %.1f ns a sample\n", total / n, total * 1e3 / (double)samples);
}

static int usage(void)
{
    fputs(
        "usage: bench_classify [--packs NAME,...] [--enable NAME] [--patterns N] [--vary K] [--scatter WARM] "
        "[--repeat K] [ROUNDS [FILE.pb ...]]\n",
        stderr);
    return 2;
}

/* Takes the options off the front; false where they make no sense. */
static bool parse(struct options *o, int *argc, char ***argv)
{
    *o = (struct options){.vary = 1, .rounds = 500};
    for (++*argv, --*argc; *argc > 1 && strncmp(**argv, "--", 2) == 0; *argv += 2, *argc -= 2) {
        const char *name = **argv, *value = (*argv)[1];
        if (strcmp(name, "--packs") == 0)
            o->packs = value;
        else if (strcmp(name, "--enable") == 0)
            o->enable = value;
        else if (strcmp(name, "--patterns") == 0)
            o->patterns = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--vary") == 0)
            o->vary = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--scatter") == 0)
            o->scatter = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(name, "--repeat") == 0)
            o->repeat = (uint32_t)strtoul(value, NULL, 10);
        else
            return false;
    }
    if (*argc > 0) {
        o->rounds = (uint32_t)strtoul(**argv, NULL, 10);
        ++*argv;
        --*argc;
    }
    o->warm = max_of(o->vary, o->scatter);
    return o->rounds > 0 && o->vary > 0 && o->vary <= VARIED_MAX;
}

int main(int argc, char **argv)
{
    static struct request requests[FILES_MAX];
    struct options o;
    struct error e = {.text = ""};
    glob_t found = {0};
    if (!parse(&o, &argc, &argv))
        return usage();
    if (argc == 0)
        glob("tests/data/connector/*.pb", 0, NULL, &found);
    char **paths = argc > 0 ? argv : found.gl_pathv;
    uint32_t n = (uint32_t)min_of(argc > 0 ? (size_t)argc : found.gl_pathc, (size_t)FILES_MAX);
    for (uint32_t i = 0; i < n; i++)
        read_request(&requests[i], paths[i], &o);
    struct rule_set *set = compile_rules(&o);
    struct rules_program *program = set ? rules_program_new(set, &e) : NULL;
    if (!program || n == 0) {
        fprintf(stderr, "nothing to run (start it in the repository's root): %s\n", e.text);
        return 1;
    }
    struct aggregate *aggregate = make_aggregate(program);
    struct classify *classify = aggregate ? classify_new(program, aggregate, NULL, NULL) : NULL;
    if (!classify)
        return 1;
    run(classify, requests, n, &o);
    print(requests, n, &o);
    return 0;
}
