/* needs: classify rules otlp aggregate */
/*
 * What classifying costs beside decoding: requests of tests/data/connector are decoded once, then pushed in
 * rotation (one file over and over flatters the branch predictor by a third) with the shipped packs and the
 * real aggregate.
 *
 *     bench_classify [ROUNDS [FILE.pb …]]      prints the median of each file, and the first push of all
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/classify/classify.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "rules/compile.h"
#include "rules/program.h"

#define FILES_MAX 1024

struct request {
    const char *name;
    struct profiles view;
    uint32_t *ns; /* [round] */
    uint64_t first;
};

static struct bytes load(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = calloc(1, n + PROFILES_PADDING);
    if (!p || fread(p, 1, n, f) != n)
        exit(1);
    fclose(f);
    return bytes_of(p, n);
}

static struct rule_set *compile_builtin(void)
{
    struct rules_input inputs[64];
    struct rules_diagnostics d;
    uint32_t n = 0;
    for (const struct embedded_file *f = rules_builtin; f->name && n < 64; f++)
        inputs[n++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true};
    struct rule_set *set = rules_compile(inputs, n, &d);
    for (uint32_t i = 0; i < d.n && !set; i++)
        fprintf(stderr, "%s", d.items[i].text);
    rules_diagnostics_release(&d);
    return set;
}

static int by_size(const void *a, const void *b)
{
    return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

int main(int argc, char **argv)
{
    static struct request requests[FILES_MAX];
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 500, n = 0;
    glob_t found = {0};
    struct error e = {.text = ""};
    if (argc <= 2)
        glob("tests/data/connector/*.pb", 0, NULL, &found);
    char **paths = argc > 2 ? argv + 2 : found.gl_pathv;
    size_t n_paths = argc > 2 ? (size_t)argc - 2 : found.gl_pathc;
    for (size_t i = 0; i < n_paths && n < FILES_MAX && rounds > 0; i++) {
        struct request *r = &requests[n++];
        const char *slash = strrchr(paths[i], '/');
        r->name = slash ? slash + 1 : paths[i];
        r->ns = calloc(rounds, sizeof *r->ns);
        if (!r->ns || profiles_init(&r->view, NULL) < 0 ||
            profiles_decode(&r->view, load(paths[i]), &(struct profiles_limits)PROFILES_LIMITS_DEFAULT, &e) !=
                0) {
            fprintf(stderr, "%s: %s\n", paths[i], e.text);
            return 1;
        }
    }
    struct rule_set *set = compile_builtin();
    struct rules_program *program = set ? rules_program_new(set, &e) : NULL;
    if (!program || n == 0) {
        fprintf(stderr, "nothing to run (start it in the repository's root): %s\n", e.text);
        return 1;
    }
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
    struct aggregate *aggregate = aggregate_new(metrics, rules_program_metrics(program), NULL);
    struct classify *classify = classify_new(program, aggregate, NULL, NULL);
    if (!aggregate || !classify)
        return 1;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < n; i++) {
            uint64_t from = clock_monotonic();
            if (classify_push(classify, &requests[i].view) < 0)
                return 1;
            uint64_t ns = clock_monotonic() - from;
            requests[i].ns[round] = (uint32_t)min_of(ns, (uint64_t)UINT32_MAX);
            requests[i].first = round == 0 ? ns : requests[i].first;
        }
    }
    printf("%-32s %8s %8s %8s %9s | %9s %9s\n", "file", "profiles", "samples", "stacks", "locations",
           "first us", "median us");
    double total = 0;
    uint64_t samples = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct profiles *v = &requests[i].view;
        qsort(requests[i].ns, rounds, sizeof *requests[i].ns, by_size);
        double median = requests[i].ns[rounds / 2] / 1e3;
        total += median;
        samples += v->sample.n;
        printf("%-32s %8u %8u %8u %9u | %9.1f %9.2f\n", requests[i].name, v->profile.n, v->sample.n,
               v->stack.n, v->location.n, (double)requests[i].first / 1e3, median);
    }
    printf("mean of medians %.2f us, %.1f ns a sample\n", total / n, total * 1e3 / (double)samples);
    return 0;
}
