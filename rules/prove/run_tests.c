/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/prove/run_tests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "rules/prove/explain.h"
#include "rules/prove/proof_runner.h"
#include "rules/source/place.h"

#define BECAUSE_MAX 8u /* explanations of one failure; the first ones are those of the first samples */

/* ---- counting -------------------------------------------------------------------------------- */

/* What the sample adds to a source; false when it cannot be weighed. */
static bool weigh(const struct test_runner *r, const struct rule_test_sample *s, enum rule_value value,
                  int64_t *ret)
{
    int64_t events = max_of(s->events, 1u), sum = s->has_value ? s->value : 0,
            samples = r->time.how == RULES_TIME_VALUES ? rules_time_samples(&r->time, sum, events)
                      : s->has_value                   ? sum
                                                       : events;
    switch (value) {
    case RULE_VALUE_TIME:
        *ret = r->time.how == RULES_TIME_VALUES ? sum : samples;
        return r->time.how != RULES_TIME_NONE && *ret >= 0 &&
               (r->time.how != RULES_TIME_VALUES || s->has_value) &&
               !__builtin_mul_overflow(*ret, r->time.factor, ret);
    case RULE_VALUE_SAMPLES: *ret = samples; return true;
    case RULE_VALUE_SUM: *ret = sum; return true;
    case RULE_VALUE_EVENTS: *ret = events; return true;
    case RULE_VALUE_ONE: *ret = 1; return true;
    }
    return false;
}

static int add_entry(struct test_runner *r, const struct rule_test_sample *s, const struct rules_entry *entry)
{
    uint32_t first_probe = rules_program_sources(r->program) - r->n_probes;
    int64_t amount;
    if (entry->source >= first_probe) {
        r->held[entry->source - first_probe] = true;
        return 0;
    }
    enum rule_value value = rules_program_source(r->program, entry->source)->value;
    if (!weigh(r, s, value, &amount))
        return 0;
    for (uint32_t i = 0; i < r->sums.n; i++) {
        struct sum *sum = &r->sums.p[i];
        if (sum->series == entry->series) {
            if (__builtin_add_overflow(sum->amount, amount, &sum->amount))
                sum->amount = INT64_MAX;
            return 0;
        }
    }
    return vec_append(&r->sums, (struct sum){entry->series, amount, value == RULE_VALUE_TIME, false});
}

static int count_sample(struct test_runner *r, uint32_t i)
{
    struct rules_verdict v;
    struct rules_asker asker = test_asker(r);
    memset(r->held, 0, r->n_probes * sizeof *r->held);
    if (!test_walk(r, i, &v))
        return rules_matcher_error(r->matcher);
    struct rules_found found;
    if (!rules_matcher_find(r->matcher, &v, r->active, &asker, &found))
        return -ENOMEM;
    const struct rules_entry *entries;
    uint32_t n = rules_matcher_entries(r->matcher, &v, &found, &asker, &entries);
    for (uint32_t k = 0; k < n; k++)
        if (add_entry(r, &r->test->samples[i], &entries[k]) < 0)
            return -ENOMEM;
    return rules_matcher_error(r->matcher);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* What the keep rules say of every sample: of a share of profiles, the one that asks for most speaks for all.
 */
static int keep_all(struct test_runner *r)
{
    struct rules_asker asker = test_asker(r);
    for (uint32_t i = 0; i < r->test->n_samples; i++) {
        struct rules_verdict v;
        r->kept[i] = RULES_NONE;
        if (!test_walk(r, i, &v))
            continue;
        r->kept[i] = rules_matcher_kept(r->matcher, &v, r->keep_active, &asker);
        if (r->kept[i] == RULES_NONE)
            return -ENOMEM;
        const struct rules_kept *kept = rules_matcher_kept_at(r->matcher, r->kept[i]);
        if (kept->dropped == RULES_NONE)
            r->of_profile = max_of(r->of_profile, kept->share[RULE_OF_PROFILES]);
    }
    return rules_matcher_error(r->matcher);
}

/* The probability of a sample, in millionths. */
static uint32_t probability(const struct test_runner *r, uint32_t sample)
{
    return r->kept[sample] == RULES_NONE
               ? 0
               : rules_keep_probability(rules_matcher_kept_at(r->matcher, r->kept[sample]), r->of_profile);
}

/* Whether a rate of so many a period may take the sample. */
static bool kept_by_rate(const struct test_runner *r, const struct rule_test_expect *e)
{
    if (r->kept[e->sample] == RULES_NONE)
        return false;
    const struct rules_kept *kept = rules_matcher_kept_at(r->matcher, r->kept[e->sample]);
    for (uint32_t i = 0; i < kept->n_rates && kept->dropped == RULES_NONE; i++) {
        uint32_t number = rules_matcher_kept_rate(r->matcher, kept->rates + i)->keep;
        const struct rule_keep *keep = rules_program_keep(r->program, number);
        if (keep->count == e->share && keep->per_second == e->per_second)
            return true;
    }
    return false;
}

static void put_share(struct buffer *out, uint32_t share)
{
    char digits[16];
    int n = snprintf(digits, sizeof digits, "%u.%04u", share / 10000, share % 10000);
    while (digits[n - 1] == '0')
        n--;
    buffer_printf(out, "%.*s%%", digits[n - 1] == '.' ? n - 1 : n, digits);
}

/* Says what was expected of a sample and what the rules say, by which line. */
static void tell_kept(const struct test_runner *r, struct buffer *out, const struct rule_test_expect *e)
{
    if (e->kind == RULE_EXPECT_KEPT_BY) {
        buffer_printf(out,
                      "     expected stack %u to be kept by a rate of %u per %s, and no such rule takes it\n",
                      e->sample + 1, e->share, e->per_second ? "second" : "minute");
        return;
    }
    buffer_printf(out, "     expected stack %u to be kept with ", e->sample + 1);
    put_share(out, e->share);
    buffer_add_str(out, ", it is with ");
    put_share(out, probability(r, e->sample));
    buffer_add_str(out, "\n");
    if (r->kept[e->sample] == RULES_NONE)
        return;
    const struct rules_kept *kept = rules_matcher_kept_at(r->matcher, r->kept[e->sample]);
    for (uint32_t i = 0; i <= RULE_KEEP_OFS; i++) {
        uint32_t rule = i == RULE_KEEP_OFS ? kept->dropped : kept->keep[i];
        if (rule == RULES_NONE)
            continue;
        const struct rule_keep *keep = rules_program_keep(r->program, rule);
        struct bytes source = place_source(&r->test->set->files[keep->place.file], keep->place);
        buffer_printf(out, "     because  line %u: %.*s\n", keep->place.line, BYTES_FMT(source));
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static const struct rule_metric *metric_of(const struct test_runner *r, const struct sum *sum)
{
    return rules_program_metric(r->program, rules_matcher_series_metric(r->matcher, sum->series));
}

static bool is_series(const struct test_runner *r, const struct sum *sum, const struct rule_test_expect *e)
{
    const struct rules_series_label *labels;
    uint32_t n = rules_matcher_series_labels(r->matcher, sum->series, &labels);
    if (n != e->n_labels || !bytes_eq(metric_of(r, sum)->name, e->metric))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        bool found = false;
        for (uint32_t k = 0; k < n && !found; k++)
            found = bytes_eq(e->labels[k].name, rules_program_name(r->program, labels[i].name)) &&
                    bytes_eq(e->label_values[k], rules_matcher_text(r->matcher, labels[i].value));
        if (!found)
            return false;
    }
    return true;
}

static bool amount_is(const struct sum *sum, const struct rule_test_expect *e)
{
    int64_t ns = e->amount;
    if (!e->has_amount)
        return true;
    if (sum->is_time && !e->amount_is_time &&
        __builtin_mul_overflow(ns, 1000000000, &ns)) /* `expect m 3`: seconds */
        return false;
    return sum->amount == ns;
}

static bool expect_holds(struct test_runner *r, const struct rule_test_expect *e)
{
    for (uint32_t i = 0; i < r->sums.n; i++) {
        if (is_series(r, &r->sums.p[i], e) && amount_is(&r->sums.p[i], e)) {
            r->sums.p[i].expected = true;
            return true;
        }
    }
    return false;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void put_amount(struct buffer *out, int64_t amount, bool is_time)
{
    static const struct {
        int64_t ns;
        const char *unit;
    } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
    if (!is_time) {
        buffer_printf(out, " %lld", (long long)amount);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (amount % units[i].ns == 0) {
            buffer_printf(out, " %lld%s", (long long)(amount / units[i].ns), units[i].unit);
            return;
        }
    }
}

static void put_label(struct buffer *out, bool first, struct bytes name, struct bytes value)
{
    buffer_printf(out, "%s%.*s=\"%.*s\"", first ? " { " : ", ", BYTES_FMT(name), BYTES_FMT(value));
}

static void tell_expected(const struct test_runner *r, struct buffer *out, const struct rule_test_expect *e)
{
    if (e->kind == RULE_EXPECT_THAT) {
        buffer_printf(out, "     expected that %.*s\n     but it does not hold for stack %u\n",
                      BYTES_FMT(place_source(&r->test->set->files[e->place.file], e->place)), e->sample + 1);
        return;
    }
    buffer_printf(out, "     expected %.*s", BYTES_FMT(e->metric));
    if (e->has_amount)
        put_amount(out, e->amount, e->amount_is_time);
    for (uint32_t i = 0; i < e->n_labels; i++)
        put_label(out, i == 0, e->labels[i].name, e->label_values[i]);
    buffer_add_str(out, e->n_labels ? " }\n" : " {}\n");
}

static void tell_counted(const struct test_runner *r, struct buffer *out, const struct sum *sum)
{
    const struct rules_series_label *labels;
    uint32_t n = rules_matcher_series_labels(r->matcher, sum->series, &labels);
    buffer_printf(out, "     counted  %.*s", BYTES_FMT(metric_of(r, sum)->name));
    put_amount(out, sum->amount, sum->is_time);
    for (uint32_t i = 0; i < n; i++)
        put_label(out, i == 0, rules_program_name(r->program, labels[i].name),
                  rules_matcher_text(r->matcher, labels[i].value));
    buffer_add_str(out, n ? " }\n" : " {}\n");
}

static bool metric_asks(const struct rule_metric *m, const struct rule_table *table)
{
    for (uint32_t i = 0; i < m->n_sources; i++) {
        if (rules_source_asks(&m->sources[i], table))
            return true;
    }
    return false;
}

/* A line for each table that had a say in a wrong metric: which row took which stack, by which frame. */
static void tell_because(struct test_runner *r, struct buffer *out, const bool *wrong)
{
    uint32_t told = 0;
    struct rules_asker asker = test_asker(r);
    for (uint32_t i = 0; i < r->test->n_samples && told < BECAUSE_MAX; i++) {
        struct rules_verdict v;
        if (!test_walk(r, i, &v))
            continue;
        for (uint32_t t = 0; t < r->program->tables.n && told < BECAUSE_MAX; t++) {
            const struct rule_table *table = r->program->tables.p[t].source;
            uint32_t row, frame;
            bool asked = false;
            for (uint32_t k = 0; k < rules_program_metrics(r->program) && !asked; k++)
                asked = wrong[k] && metric_asks(rules_program_metric(r->program, k), table);
            if (!asked || !rules_matcher_why(r->matcher, &v, &asker, table, &row, &frame))
                continue;
            told++;
            buffer_printf(out, "     because  table %.*s, row %u (line %u)", BYTES_FMT(table->name), row + 1,
                          table->rows[row].place.line);
            if (frame == RULES_NONE) {
                buffer_add_str(out, ", as no other row did\n");
                continue;
            }
            const struct rule_test_frame *f = &r->test->samples[i].frames[frame];
            struct bytes shown = f->has_function ? f->function : f->has_mapping ? f->mapping : f->file;
            buffer_printf(out, ", by frame %u: %.*s%s%.*s\n", frame, BYTES_FMT(f->type), shown.n ? " " : "",
                          BYTES_FMT(shown));
        }
    }
}

/* ---- one test -------------------------------------------------------------------------------- */

/* Counts all samples; the `expect that`s that failed are told at once. */
static int count_all(struct test_runner *r, struct buffer *out)
{
    for (uint32_t i = 0; i < r->test->n_samples; i++) {
        int error = count_sample(r, i);
        if (error < 0)
            return error;
        for (uint32_t k = 0, probe = 0; k < r->test->n_expects; k++) {
            const struct rule_test_expect *e = &r->test->expects[k];
            if (e->kind != RULE_EXPECT_THAT)
                continue;
            if (e->sample == i && !r->held[probe])
                tell_expected(r, out, e);
            probe++;
        }
    }
    return 0;
}

static int run_test(struct test_runner *r, struct buffer *out)
{
    struct error e = {.text = ""};
    int error = test_prepare(r, &e);
    if (error > 0)
        return buffer_printf(out, "     %s\n", e.text);
    if (error == 0)
        error = count_all(r, out);
    if (error == 0)
        error = keep_all(r);
    if (error < 0)
        return error;
    autofree bool *wrong = calloc(rules_program_metrics(r->program) + 1, sizeof *wrong);
    if (!wrong)
        return -ENOMEM;
    for (uint32_t i = 0; i < r->test->n_expects; i++) {
        const struct rule_test_expect *x = &r->test->expects[i];
        if ((x->kind == RULE_EXPECT_KEPT && probability(r, x->sample) != x->share) ||
            (x->kind == RULE_EXPECT_KEPT_BY && !kept_by_rate(r, x)))
            tell_kept(r, out, x);
        if (x->kind != RULE_EXPECT_SERIES || expect_holds(r, x))
            continue;
        tell_expected(r, out, x);
        for (uint32_t k = 0; k < rules_program_metrics(r->program); k++)
            wrong[k] = wrong[k] || bytes_eq(rules_program_metric(r->program, k)->name, x->metric);
    }
    for (uint32_t i = 0; i < r->sums.n; i++) { /* series that no `expect` names are failures */
        if (r->sums.p[i].expected)
            continue;
        tell_counted(r, out, &r->sums.p[i]);
        wrong[rules_matcher_series_metric(r->matcher, r->sums.p[i].series)] = true;
    }
    if (out->n > 0)
        tell_because(r, out, wrong);
    return 0;
}

static int report_failure(struct rules_diagnostics *d, const struct rule_set *set,
                          const struct rule_test *test, struct bytes why)
{
    const char *file = (const char *)set->files[test->place.file].name.p;
    struct buffer text = BUFFER_INIT(0);
    if (buffer_printf(&text, "E110 %s:%u:%u: test \"%.*s\" failed\n", file, test->place.line,
                      test->place.column, BYTES_FMT(test->name)) < 0 ||
        buffer_add_bytes(&text, why) < 0 || buffer_add(&text, "", 1) < 0) {
        buffer_release(&text);
        return -ENOMEM;
    }
    size_t n;
    struct rules_diagnostic failure = {
        .code = "E110", .place = test->place, .file = file, .text = (char *)buffer_take(&text, &n)};
    if (rules_diagnostics_add(d, &failure) < 0) {
        free(failure.text);
        return -ENOMEM;
    }
    d->n_errors++;
    return 0;
}

int rules_run_tests(const struct rule_set *set, struct rules_diagnostics *ret_failures, uint32_t *ret_run)
{
    struct rules_diagnostics failures = {0};
    *ret_run = 0;
    *ret_failures = failures;
    for (uint32_t i = 0; i < set->n_tests; i++) {
        struct test_runner r = {.test = &set->tests[i]};
        struct buffer why = BUFFER_INIT(0);
        int error = run_test(&r, &why);
        if (error == 0 && why.n > 0)
            error = report_failure(&failures, set, &set->tests[i], buffer_bytes(&why));
        test_release(&r);
        buffer_release(&why);
        if (error < 0) {
            rules_diagnostics_release(&failures);
            return error;
        }
        ++*ret_run;
    }
    *ret_failures = failures;
    return 0;
}
