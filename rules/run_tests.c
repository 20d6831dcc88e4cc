#include "rules/run_tests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "rules/diagnostic.h"
#include "rules/lower.h"
#include "rules/match.h"
#include "rules/match_weigh.h"

#define BECAUSE_MAX 8u /* explanations of one failure; the first ones are those of the first samples */
#define DEPTH_MAX   64u

/* A series that was counted. */
struct sum {
    uint32_t series;
    int64_t amount; /* nanoseconds where the value is time */
    bool is_time;
    bool expected;
};

struct runner {
    const struct rule_test *test;
    struct rules_program *program;
    struct rules_matcher *matcher;
    struct rules_register *registers;
    uint32_t active;
    struct rules_time time;
    uint32_t n_probes;
    bool *held; /* [probe] */

    uint32_t sample; /* being run */
    struct rules_frame *frames;
    uint32_t *items, *classes;
    struct sum *sums;
    uint32_t n_sums;
};

/* ---- the profile
 * ----------------------------------------------------------------------------------------------- */

static uint32_t text_of(struct runner *r, bool there, struct bytes text)
{
    return there ? rules_matcher_string(r->matcher, text) : RULES_NONE;
}

static struct rules_frame frame_of(struct runner *r, const struct rule_test_frame *f)
{
    bool line = f->has_function || f->has_file; /* a frame without either is a location without lines */
    struct rules_frame made = {.inlined = f->inlined};
    made.field[RULE_FIELD_TYPE] = text_of(r, !f->untyped, f->type);
    made.field[RULE_FIELD_FUNCTION] = text_of(r, line, f->function);
    made.field[RULE_FIELD_SYSTEM_NAME] = text_of(r, line, BYTES_LIT(""));
    made.field[RULE_FIELD_FILE] = text_of(r, line, f->file);
    made.field[RULE_FIELD_MAPPING] = text_of(r, f->has_mapping, f->mapping);
    made.field[RULE_FIELD_LIBRARY] = rules_matcher_library(r->matcher, made.field[RULE_FIELD_MAPPING]);
    made.field[RULE_FIELD_BUILD_ID] = RULES_NONE;
    return made;
}

static uint32_t ask_field(void *context, uint32_t frame, enum rule_field field)
{
    return ((struct runner *)context)->frames[frame].field[field];
}

static bool ask_inlined(void *context, uint32_t frame)
{
    return ((struct runner *)context)->frames[frame].inlined;
}

static uint32_t ask_attr(void *context, enum rule_scope scope, uint32_t key)
{
    struct runner *r = context;
    for (int s = RULE_SCOPE_SAMPLE; s <= RULE_SCOPE_RESOURCE; s++) {
        for (uint32_t i = 0; i < r->test->n_attrs; i++) {
            const struct rule_test_attr *a = &r->test->attrs[i];
            if ((int)a->scope == s && (scope == RULE_SCOPE_ATTR || (int)scope == s) &&
                (s != RULE_SCOPE_SAMPLE || a->sample == r->sample) &&
                bytes_eq(a->key, rules_program_attr(r->program, key)))
                return rules_matcher_string(r->matcher, a->value);
        }
    }
    return RULES_NONE;
}

static uint32_t ask_type(void *context)
{
    struct runner *r = context;
    return rules_matcher_string(r->matcher, r->test->type);
}

static uint32_t ask_unit(void *context)
{
    struct runner *r = context;
    return rules_matcher_string(r->matcher, r->test->unit);
}

static bool ask_linked(void *context)
{
    const struct runner *r = context;
    return r->test->samples[r->sample].linked;
}

static struct rules_asker asker_of(struct runner *r)
{
    return (struct rules_asker){r, ask_field, ask_inlined, ask_attr, ask_type, ask_unit, ask_linked};
}

/* ---- counting
 * -------------------------------------------------------------------------------------------------- */

/* What the sample adds to a source; false when it cannot be weighed. */
static bool weigh(const struct runner *r, const struct rule_test_sample *s, enum rule_value value,
                  int64_t *ret)
{
    int64_t events = max_of(s->events, 1u), sum = s->has_value ? s->value : 0,
            samples = s->has_value ? sum : events;
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

static int add_entry(struct runner *r, const struct rule_test_sample *s, const struct rules_entry *entry)
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
    for (uint32_t i = 0; i < r->n_sums; i++) {
        if (r->sums[i].series == entry->series) {
            if (__builtin_add_overflow(r->sums[i].amount, amount, &r->sums[i].amount))
                r->sums[i].amount = INT64_MAX;
            return 0;
        }
    }
    struct sum *more = realloc(r->sums, (r->n_sums + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    r->sums = more;
    r->sums[r->n_sums++] = (struct sum){entry->series, amount, value == RULE_VALUE_TIME, false};
    return 0;
}

/* Frames and walk of sample i; false for an empty stack (or no memory). */
static bool walk(struct runner *r, uint32_t i, struct rules_verdict *v)
{
    const struct rule_test_sample *s = &r->test->samples[i];
    r->sample = i;
    for (uint32_t f = 0; f < s->n_frames; f++) {
        r->frames[f] = frame_of(r, &s->frames[f]);
        r->classes[f] = rules_matcher_frame(r->matcher, &r->frames[f]);
        r->items[f] = f;
    }
    *v = (struct rules_verdict){.registers = r->registers};
    return rules_matcher_walk(r->matcher,
                              &(struct rules_stack){r->items, s->n_frames, NULL, r->classes, NULL}, v);
}

static int count_sample(struct runner *r, uint32_t i)
{
    struct rules_verdict v;
    struct rules_asker asker = asker_of(r);
    memset(r->held, 0, r->n_probes * sizeof *r->held);
    if (!walk(r, i, &v))
        return rules_matcher_error(r->matcher);
    uint32_t outcome = rules_matcher_outcome(r->matcher, &v, r->active, &asker);
    if (outcome == RULES_NONE)
        return -ENOMEM;
    const struct rules_entry *frames;
    uint32_t n = rules_matcher_frames(r->matcher, &v, outcome, &asker, &frames);
    struct rules_outcome *o = rules_matcher_outcome_at(r->matcher, outcome);
    for (uint32_t k = 0; k < o->n_entries; k++)
        if (add_entry(r, &r->test->samples[i], rules_matcher_entry(r->matcher, o->entries + k)) < 0)
            return -ENOMEM;
    for (uint32_t k = 0; k < n; k++)
        if (add_entry(r, &r->test->samples[i], &frames[k]) < 0)
            return -ENOMEM;
    return rules_matcher_error(r->matcher);
}

/* ---- comparing
 * ------------------------------------------------------------------------------------------------- */

static const struct rule_metric *metric_of(const struct runner *r, const struct sum *sum)
{
    return rules_program_metric(r->program, rules_matcher_series_metric(r->matcher, sum->series));
}

static bool is_series(const struct runner *r, const struct sum *sum, const struct rule_test_expect *e)
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

static bool expect_holds(struct runner *r, const struct rule_test_expect *e)
{
    for (uint32_t i = 0; i < r->n_sums; i++) {
        if (is_series(r, &r->sums[i], e) && amount_is(&r->sums[i], e)) {
            r->sums[i].expected = true;
            return true;
        }
    }
    return false;
}

/* ---- telling
 * --------------------------------------------------------------------------------------------------- */

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

static void tell_expected(const struct runner *r, struct buffer *out, const struct rule_test_expect *e)
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

static void tell_counted(const struct runner *r, struct buffer *out, const struct sum *sum)
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

/* Whether a text or a predicate looks at a table. */
static bool text_asks(const struct rule_text *text, const struct rule_table *table, uint32_t depth);

static bool sample_asks(const struct rule_sample *s, const struct rule_table *table, uint32_t depth)
{
    if (!s || depth == 0)
        return false;
    bool asks = (s->text && text_asks(s->text, table, depth - 1)) ||
                (s->text2 && text_asks(s->text2, table, depth - 1));
    for (uint32_t i = 0; i < s->n_kids && !asks; i++)
        asks = sample_asks(s->kids[i], table, depth - 1);
    return asks;
}

static bool part_asks(const struct rule_text_part *part, const struct rule_table *table, uint32_t depth)
{
    if (depth == 0)
        return false;
    if (part->kind == RULE_TEXT_COLUMN)
        return part->table == table;
    if (part->kind == RULE_TEXT_GROUP)
        return text_asks(part->text, table, depth - 1);
    return part->kind == RULE_TEXT_CAPTURE && part_asks(part->from, table, depth - 1);
}

static bool text_asks(const struct rule_text *text, const struct rule_table *table, uint32_t depth)
{
    for (uint32_t i = 0; i < text->n_choices && depth > 0; i++) {
        if (sample_asks(text->choices[i].when, table, depth - 1))
            return true;
        for (uint32_t j = 0; j < text->choices[i].n_parts; j++)
            if (part_asks(&text->choices[i].parts[j], table, depth - 1))
                return true;
    }
    return false;
}

static bool metric_asks(const struct rule_metric *m, const struct rule_table *table)
{
    for (uint32_t i = 0; i < m->n_sources; i++) {
        const struct rule_source *s = &m->sources[i];
        if (sample_asks(s->where, table, DEPTH_MAX))
            return true;
        for (uint32_t k = 0; k < s->n_labels; k++)
            if (text_asks(s->labels[k].text, table, DEPTH_MAX))
                return true;
    }
    return false;
}

/* A line for each table that had a say in a wrong metric: which row took which stack, by which frame. */
static void tell_because(struct runner *r, struct buffer *out, const bool *wrong)
{
    uint32_t told = 0;
    struct rules_asker asker = asker_of(r);
    for (uint32_t i = 0; i < r->test->n_samples && told < BECAUSE_MAX; i++) {
        struct rules_verdict v;
        if (!walk(r, i, &v))
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

/* ---- one test
 * -------------------------------------------------------------------------------------------------- */

static bool takes_part(const struct rule_metric *metric, const void *context)
{
    const struct rule_test *test = context;
    bool named = false;
    for (uint32_t i = 0; i < test->n_expects && !named; i++)
        named =
            test->expects[i].kind == RULE_EXPECT_SERIES && bytes_eq(test->expects[i].metric, metric->name);
    return bytes_eq(metric->pack, test->pack) && (named || !metric->off);
}

static int prepare(struct runner *r, struct error *e)
{
    const struct rule_test *t = r->test;
    uint32_t longest = 1, registers;
    autofree const struct rule_sample **probes = calloc(t->n_expects + 1, sizeof *probes);
    if (!probes)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n_expects; i++)
        if (t->expects[i].kind == RULE_EXPECT_THAT)
            probes[r->n_probes++] = t->expects[i].that;
    for (uint32_t i = 0; i < t->n_samples; i++)
        longest = max_of(longest, t->samples[i].n_frames);
    r->program = lower_program(t->set, &(struct lower_options){takes_part, t, probes, r->n_probes}, e);
    if (!r->program)
        return 1;
    r->matcher = rules_matcher_new(r->program, NULL);
    registers = rules_program_registers(r->program);
    r->registers = calloc(registers + 1, sizeof *r->registers);
    r->held = calloc(r->n_probes + 1, sizeof *r->held);
    r->frames = calloc(longest, sizeof *r->frames);
    r->items = calloc(longest, sizeof *r->items);
    r->classes = calloc(longest, sizeof *r->classes);
    if (!r->matcher || !r->registers || !r->held || !r->frames || !r->items || !r->classes)
        return -ENOMEM;
    rules_matcher_begin(r->matcher);
    const struct rules_profile profile = {t->type, t->unit, BYTES_LIT("nanoseconds"),
                                          t->period_ns > INT64_MAX ? INT64_MAX : (int64_t)t->period_ns};
    r->time = rules_time_of(&profile);
    r->active = rules_matcher_choose_one(r->matcher, &profile);
    return r->active == RULES_NONE ? -ENOMEM : 0;
}

static void runner_release(struct runner *r)
{
    rules_matcher_free(r->matcher);
    rules_program_free(r->program);
    free(r->registers);
    free(r->held);
    free(r->frames);
    free(r->items);
    free(r->classes);
    free(r->sums);
}

/* Counts all samples; the `expect that`s that failed are told at once. */
static int count_all(struct runner *r, struct buffer *out)
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

static int run_test(struct runner *r, struct buffer *out)
{
    struct error e = {.text = ""};
    int error = prepare(r, &e);
    if (error > 0)
        return buffer_printf(out, "     %s\n", e.text);
    if (error == 0)
        error = count_all(r, out);
    if (error < 0)
        return error;
    autofree bool *wrong = calloc(rules_program_metrics(r->program) + 1, sizeof *wrong);
    if (!wrong)
        return -ENOMEM;
    for (uint32_t i = 0; i < r->test->n_expects; i++) {
        const struct rule_test_expect *x = &r->test->expects[i];
        if (x->kind != RULE_EXPECT_SERIES || expect_holds(r, x))
            continue;
        tell_expected(r, out, x);
        for (uint32_t k = 0; k < rules_program_metrics(r->program); k++)
            wrong[k] = wrong[k] || bytes_eq(rules_program_metric(r->program, k)->name, x->metric);
    }
    for (uint32_t i = 0; i < r->n_sums; i++) { /* series that no `expect` names are failures */
        if (r->sums[i].expected)
            continue;
        tell_counted(r, out, &r->sums[i]);
        wrong[rules_matcher_series_metric(r->matcher, r->sums[i].series)] = true;
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
    struct rules_diagnostic *more = realloc(d->items, (d->n + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    d->items = more;
    if (buffer_printf(&text, "E110 %s:%u:%u: test \"%.*s\" failed\n", file, test->place.line,
                      test->place.column, BYTES_FMT(test->name)) < 0 ||
        buffer_add_bytes(&text, why) < 0 || buffer_add(&text, "", 1) < 0) {
        buffer_release(&text);
        return -ENOMEM;
    }
    size_t n;
    d->items[d->n++] = (struct rules_diagnostic){
        .code = "E110", .place = test->place, .file = file, .text = (char *)buffer_take(&text, &n)};
    d->n_errors++;
    return 0;
}

int rules_run_tests(const struct rule_set *set, struct rules_diagnostics *ret_failures, uint32_t *ret_run)
{
    struct rules_diagnostics failures = {0};
    *ret_run = 0;
    *ret_failures = failures;
    for (uint32_t i = 0; i < set->n_tests; i++) {
        struct runner r = {.test = &set->tests[i]};
        struct buffer why = BUFFER_INIT(0);
        int error = run_test(&r, &why);
        if (error == 0 && why.n > 0)
            error = report_failure(&failures, set, &set->tests[i], buffer_bytes(&why));
        runner_release(&r);
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
