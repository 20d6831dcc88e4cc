/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profgate rules explain: for the stacks of a captured request, which rule took them, by which frame, with
 * which labels; or, of one metric, which of its conditions failed. It counts nothing. Every sample is asked,
 * as its own attributes and link may decide; of those of a profile that have one stack, and of which the same
 * is to be said, the first is shown.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/commands/capture_file.h"
#include "gateway/classify/parts.h"
#include "gateway/commands/command.h"
#include "gateway/commands/rules_parts.h"
#include "gateway/run/pipeline.h"
#include "proto/base/hash.h"
#include "proto/base/idmap.h"
#include "proto/base/nearest.h"
#include "proto/base/vec.h"
#include "rules/source/place.h"
#include "rules/prove/explain.h"
#include "rules/match/keep.h"

#define BECAUSE_MAX   32u
#define TYPE_TEXT_MAX 160u

struct explainer {
    struct rules_command *command;
    const char *path;
    struct rules_program *program;
    struct classify *classify;
    struct idmap seen;    /* what was said already: profile, stack and answer, mixed */
    VEC(uint32_t) frames; /* of the stack that is looked at */
    uint32_t n_stacks;
    bool any; /* there was a sample at all */
};

/* One sample's stack, asked. */
struct asked {
    struct explainer *x;
    struct rules_verdict verdict;
    struct rules_explained explained;
    uint32_t request, profile, stack;
};

/* Whether this answer about the stack is the first such. Below 0: no memory. */
static int is_new(const struct asked *a, uint64_t answer)
{
    uint64_t stack = idmap_key(a->profile, a->stack);
    uint32_t *place = idmap_place(&a->x->seen, hash_mix(stack, answer) >> 1, 0);
    return place ? (*place)++ == 0 : -ENOMEM;
}

/* ---- what is printed ----------------------------------------------------------------------- */

static struct bytes text_of(struct explainer *x, uint32_t string)
{
    return string == RULES_NONE ? (struct bytes){0} : rules_matcher_text(x->classify->matcher, string);
}

/* `kernel tcp_sendmsg`; where there is no function, its library. */
static void put_frame(struct explainer *x, uint32_t frame, char *to, size_t size)
{
    const struct rules_asker *asker = &x->classify->asker;
    struct bytes type = text_of(x, asker->field(asker->context, frame, RULE_FIELD_TYPE));
    struct bytes name = text_of(x, asker->field(asker->context, frame, RULE_FIELD_FUNCTION));
    const char *in = "";
    if (name.n == 0) {
        name = text_of(x, asker->field(asker->context, frame, RULE_FIELD_LIBRARY));
        in = name.n > 0 ? "in " : "";
    }
    snprintf(to, size, "%.*s%s%s%.*s", BYTES_FMT(type), type.n && name.n ? " " : "", in, BYTES_FMT(name));
    if (!x->command->json)
        bytes_make_plain(to);
}

/* `cpu/nanoseconds` of the profile that is asked about. */
static void put_type(const struct asked *a, char *to, size_t size)
{
    const struct profiles *v = a->x->classify->request.view;
    snprintf(to, size, "%.*s/%.*s", BYTES_FMT(profiles_string(v, v->profile.type[a->profile])),
             BYTES_FMT(profiles_string(v, v->profile.unit[a->profile])));
    if (!a->x->command->json)
        bytes_make_plain(to);
}

static struct bytes source_at(const struct asked *a, struct rule_place place)
{
    return place_source(&a->x->command->set->files[place.file], place);
}

/* As a line, the values are quoted as in JSON. */
static void put_labels(const struct asked *a, uint32_t series, bool json)
{
    const struct rules_matcher *m = a->explained.matcher;
    struct rules_command *c = a->x->command;
    const struct rules_series_label *labels;
    uint32_t n = rules_matcher_series_labels(m, series, &labels);
    if (json)
        json_open(&c->put, '{');
    else
        printf(" {");
    for (uint32_t i = 0; i < n; i++) {
        struct bytes name = rules_program_name(a->x->program, labels[i].name);
        if (json)
            json_string_key(&c->put, name);
        else
            printf("%s%.*s=", i > 0 ? ", " : " ", BYTES_FMT(name));
        json_string(&c->put, rules_matcher_text(m, labels[i].value));
        if (!json)
            command_rules_print(c);
    }
    if (json)
        json_close(&c->put, '}');
    else
        printf(n == 0 ? "}" : " }");
}

/* A row, or a condition, and its frame: as a line or an object. */
static void put_reason(const struct asked *a, const char *what, struct bytes text, struct rule_place place,
                       uint32_t position, bool json)
{
    struct json *j = &a->x->command->put;
    char frame[512] = "";
    const char *file = (const char *)a->x->command->set->files[place.file].name.p;
    if (position != RULES_NONE)
        put_frame(a->x, a->explained.frames[position], frame, sizeof frame);
    if (!json) {
        printf("        %s %.*s (%s:%u)", what, BYTES_FMT(text), file, place.line);
        if (position != RULES_NONE)
            printf(", by frame %u: %s", position, frame);
        putchar('\n');
        return;
    }
    json_open(j, '{');
    json_key(j, what), json_string(j, text);
    json_key(j, "file"), json_string(j, bytes_str(file));
    json_key(j, "line"), json_u64(j, place.line);
    if (position != RULES_NONE) {
        json_key(j, "frame"), json_u64(j, position);
        json_key(j, "is"), json_string(j, bytes_str(frame));
    }
    json_close(j, '}');
}

/* ---- why ----------------------------------------------------------------------------------- */

struct telling {
    const struct asked *asked;
    bool json;
};

static void tell(void *context, const struct rules_reason *r)
{
    const struct telling *t = context;
    put_reason(t->asked, r->what, r->text, r->place, r->position, t->json);
}

static void put_conditions(const struct asked *a, const struct rule_sample *where, bool json)
{
    rules_reasons_where(&a->explained, a->x->command->set, where, tell, &(struct telling){a, json});
}

static bool is_wanted(const struct asked *a, uint32_t metric)
{
    const char *name = a->x->command->metric;
    return !name || bytes_is(rules_program_metric(a->x->program, metric)->name, name);
}

static void put_entry(const struct asked *a, const struct rules_entry *entry)
{
    const struct rule_source *source = rules_program_source(a->x->program, entry->source);
    const struct rule_metric *metric =
        rules_program_metric(a->x->program, rules_program_source_metric(a->x->program, entry->source));
    struct json *j = &a->x->command->put;
    bool json = a->x->command->json;
    if (json) {
        json_open(j, '{');
        json_key(j, "metric"), json_string(j, metric->name);
        json_key(j, "labels"), put_labels(a, entry->series, true);
        json_key(j, "because"), json_open(j, '[');
    } else {
        printf("    %.*s", BYTES_FMT(metric->name));
        put_labels(a, entry->series, false);
        putchar('\n');
    }
    rules_reasons(&a->explained, a->x->program, a->x->command->set, source, tell, &(struct telling){a, json});
    if (json)
        json_close(j, ']'), json_close(j, '}');
}

/* The number of what the keep rules say; 0 with *ret_any false where there are none that matter. */
static int kept_number(const struct asked *a, bool *ret_any, uint32_t *ret_number)
{
    struct explainer *x = a->x;
    struct rules_matcher *m = a->explained.matcher;
    const struct rules_profile profile = profile_describe(x->classify->request.view, a->profile);
    *ret_any = rules_program_keeps(x->program) > 0 && !x->command->metric;
    *ret_number = 0;
    if (!*ret_any)
        return 0;
    uint32_t active = rules_matcher_keep_active(m, &profile);
    if (active != RULES_NONE)
        *ret_number = rules_matcher_kept(m, &a->verdict, active, a->explained.asker);
    return active == RULES_NONE || *ret_number == RULES_NONE ? -ENOMEM : 0;
}

static void put_kept(const struct asked *a, uint32_t number)
{
    struct explainer *x = a->x;
    struct rules_matcher *m = a->explained.matcher;
    const struct rules_kept *kept = rules_matcher_kept_at(m, number);
    double percent = rules_keep_probability(kept, kept->share[RULE_OF_PROFILES]) / 10000.0;
    struct json *j = &x->command->put;
    bool json = x->command->json;
    if (json) {
        char text[24];
        int n = snprintf(text, sizeof text, "%.10g", percent);
        json_key(j, "kept"), json_open(j, '{');
        json_key(j, "percent"), json_raw(j, bytes_of(text, (size_t)n));
        json_key(j, "rates"), json_u64(j, kept->dropped == RULES_NONE ? kept->n_rates : 0);
        json_key(j, "because"), json_open(j, '[');
    } else
        printf("    kept %.10g%%%s\n", percent,
               kept->n_rates && kept->dropped == RULES_NONE ? ", else by rate" : "");
    for (uint32_t i = 0; i < RULE_KEEP_OFS + 1 + kept->n_rates; i++) {
        uint32_t rule = i < RULE_KEEP_OFS ? kept->keep[i]
                        : i == RULE_KEEP_OFS
                            ? kept->dropped
                            : rules_matcher_kept_rate(m, kept->rates + i - RULE_KEEP_OFS - 1)->keep;
        if (rule == RULES_NONE)
            continue;
        const struct rule_keep *keep = rules_program_keep(x->program, rule);
        put_reason(a, "rule", source_at(a, keep->place), keep->place, RULES_NONE, json);
        put_conditions(a, keep->where, json);
    }
    if (json)
        json_close(j, ']'), json_close(j, '}');
}

static void put_head(const struct asked *a)
{
    struct explainer *x = a->x;
    const struct profiles *v = x->classify->request.view;
    struct json *j = &x->command->put;
    char frame[512], type[TYPE_TEXT_MAX];
    if (!x->command->json) {
        put_type(a, type, sizeof type);
        printf("%s: request %u, profile %u (%s), stack %u, %u frames\n", x->path, a->request, a->profile,
               type, a->stack, a->explained.n_frames);
        for (uint32_t i = 0; i < a->explained.n_frames && x->command->stack != UINT32_MAX; i++) {
            put_frame(x, a->explained.frames[i], frame, sizeof frame);
            printf("    %4u  %s\n", i, frame);
        }
        return;
    }
    printf("%s", x->n_stacks > 0 ? ",\n" : "\n"); /* each stack is printed by itself */
    json_open(j, '{');
    json_key(j, "file"), json_string(j, bytes_str(x->path));
    json_key(j, "request"), json_u64(j, a->request);
    json_key(j, "profile"), json_u64(j, a->profile);
    json_key(j, "stack"), json_u64(j, a->stack);
    json_key(j, "sample"), json_u64(j, x->classify->request.sample - v->profile.samples_at[a->profile]);
    json_key(j, "frames"), json_open(j, '[');
    for (uint32_t i = 0; i < a->explained.n_frames; i++) {
        put_frame(x, a->explained.frames[i], frame, sizeof frame);
        json_string(j, bytes_str(frame));
    }
    json_close(j, ']');
    json_key(j, x->command->why_not ? "not" : "counted"), json_open(j, '[');
}

/* ---- asking -------------------------------------------------------------------------------- */

static int collect_frames(struct explainer *x)
{
    const struct rules_stack *stack = &x->classify->request.stack;
    vec_clear(&x->frames);
    for (uint32_t i = 0; i < stack->n; i++) {
        uint32_t item = stack->items[i], from = stack->frames_at ? stack->frames_at[item] : item,
                 to = stack->frames_at ? stack->frames_at[item + 1] : item + 1;
        for (uint32_t f = from; f < to; f++)
            if (vec_append(&x->frames, f) < 0)
                return -ENOMEM;
    }
    return 0;
}

/* The sample's entries of metrics that are wanted. */
static int put_entries(struct asked *a, uint32_t active)
{
    struct explainer *x = a->x;
    struct rules_matcher *m = a->explained.matcher;
    const struct rules_entry *entries;
    struct rules_found found;
    uint32_t kept, shown = 0;
    bool any_kept;
    if (!rules_matcher_find(m, &a->verdict, active, a->explained.asker, &found) ||
        kept_number(a, &any_kept, &kept) < 0)
        return -ENOMEM;
    uint64_t all = hash_mix(kept, rules_matcher_generation(m));
    for (uint32_t i = 0; i < found.n_all; i++)
        all = hash_mix(all, found.outcome[i]);
    int is_first = is_new(a, all);
    if (is_first <= 0)
        return is_first;
    uint32_t n = rules_matcher_entries(m, &a->verdict, &found, a->explained.asker, &entries);
    bool headed = !x->command->metric;
    if (headed)
        put_head(a);
    for (uint32_t i = 0; i < n; i++) {
        if (!is_wanted(a, rules_program_source_metric(x->program, entries[i].source)))
            continue;
        if (!headed)
            put_head(a);
        headed = true;
        put_entry(a, &entries[i]);
        shown++;
    }
    if (headed && x->command->json)
        json_close(&x->command->put, ']');
    if (headed && any_kept)
        put_kept(a, kept);
    if (headed && x->command->json) {
        json_close(&x->command->put, '}');
        command_rules_print(x->command);
    } else if (headed && shown == 0)
        printf("    no metric takes it\n");
    x->n_stacks += headed;
    return rules_matcher_error(m);
}

/* ---- why not ------------------------------------------------------------------------------- */

static bool is_of(const struct asked *a, uint32_t source, const char *metric)
{
    uint32_t number = rules_program_source_metric(a->x->program, source);
    return bytes_is(rules_program_metric(a->x->program, number)->name, metric);
}

static void put_failed(const struct asked *a, uint32_t number, uint32_t active)
{
    const struct rule_source *source = rules_program_source(a->x->program, number);
    struct rules_because because[BECAUSE_MAX];
    bool json = a->x->command->json;
    if (!rules_is_active(&a->explained, active, number)) {
        char type[TYPE_TEXT_MAX], text[TYPE_TEXT_MAX + 32];
        put_type(a, type, sizeof type);
        snprintf(text, sizeof text, "does not take %s here", type);
        put_reason(a, "on", bytes_str(text), source->place, RULES_NONE, json);
        return;
    }
    uint32_t n = rules_explain_not(&a->explained, source->where, because, BECAUSE_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const struct rule_sample *s = because[i].condition;
        put_reason(a, "fails", s->name.n > 0 ? s->name : source_at(a, s->place), s->place,
                   because[i].position, json);
    }
    if (n == 0)
        put_reason(a, source->each ? "each" : "value",
                   source->each ? BYTES_LIT("no such frame") : BYTES_LIT("nothing to add"), source->place,
                   RULES_NONE, json);
}

/* Mixed of everything that put_failed would print. */
static uint64_t reasons_of(const struct asked *a, uint32_t number, uint32_t active, uint64_t so_far)
{
    struct rules_because because[BECAUSE_MAX];
    uint32_t n = 0;
    if (rules_is_active(&a->explained, active, number))
        n = rules_explain_not(&a->explained, rules_program_source(a->x->program, number)->where, because,
                              BECAUSE_MAX);
    for (uint32_t i = 0; i < n; i++)
        so_far = hash_mix(so_far, (uintptr_t)because[i].condition + because[i].position);
    return hash_mix(so_far, n);
}

/* The sample's reasons for not being of that metric, one source after the other. */
static int put_why_not(struct asked *a, uint32_t active, const char *metric)
{
    struct explainer *x = a->x;
    struct rules_matcher *m = a->explained.matcher;
    const struct rules_entry *entries;
    struct rules_found found;
    if (!rules_matcher_find(m, &a->verdict, active, a->explained.asker, &found))
        return -ENOMEM;
    uint32_t n = rules_matcher_entries(m, &a->verdict, &found, a->explained.asker, &entries);
    for (uint32_t i = 0; i < n; i++)
        if (is_of(a, entries[i].source, metric))
            return 0;
    uint64_t reasons = 0;
    const uint32_t n_sources = rules_program_sources(x->program);
    for (uint32_t i = 0; i < n_sources; i++)
        if (is_of(a, i, metric))
            reasons = reasons_of(a, i, active, reasons);
    int is_first = is_new(a, reasons);
    if (is_first <= 0)
        return is_first;
    put_head(a);
    if (!x->command->json)
        printf("    not %s\n", metric);
    for (uint32_t i = 0; i < n_sources; i++)
        if (is_of(a, i, metric))
            put_failed(a, i, active);
    if (x->command->json) {
        json_close(&x->command->put, ']'), json_close(&x->command->put, '}');
        command_rules_print(x->command);
    }
    x->n_stacks++;
    return rules_matcher_error(m);
}

static int explain_stack(struct explainer *x, uint32_t request, uint32_t stack)
{
    struct classify *c = x->classify;
    const struct profiles *v = c->request.view;
    struct asked a = {.x = x, .request = request, .profile = c->request.profile, .stack = stack};
    c->request.stack.items = v->stack_location.location + v->stack.locations_at[stack];
    c->request.stack.n = v->stack.locations_at[stack + 1] - v->stack.locations_at[stack];
    a.verdict.registers = c->registers;
    a.explained = (struct rules_explained){.matcher = c->matcher, .verdict = &a.verdict, .asker = &c->asker};
    x->any = true;
    if (c->request.stack.n == 0 || !rules_matcher_walk(c->matcher, &c->request.stack, &a.verdict))
        return rules_matcher_error(c->matcher);
    int r = collect_frames(x);
    a.explained.frames = x->frames.p;
    a.explained.n_frames = x->frames.n;
    if (r < 0)
        return r;
    uint32_t active = c->request.profile_active.p[c->request.profile];
    return x->command->why_not ? put_why_not(&a, active, x->command->why_not) : put_entries(&a, active);
}

static int explain_request(void *context, const struct profiles *view, uint32_t request)
{
    struct explainer *x = context;
    struct classify *c = x->classify;
    c->request.view = view;
    c->request.last_active.valid = false;
    memset(c->answers, 0, (size_t)CLASSIFY_OWNERS * c->n_attrs * sizeof *c->answers);
    rules_matcher_begin(c->matcher);
    c->matcher_epoch = rules_matcher_epoch(c->matcher);
    idmap_clear(&x->seen);
    int r = frames_prepare(c);
    if (r == 0)
        r = active_prepare(c);
    for (c->request.profile = 0; r == 0 && c->request.profile < view->profile.n; c->request.profile++) {
        for (c->request.sample = view->profile.samples_at[c->request.profile];
             r == 0 && c->request.sample < view->profile.samples_at[c->request.profile + 1];
             c->request.sample++) {
            uint32_t stack = view->sample.stack[c->request.sample];
            if (stack == PROFILES_REJECTED || stack == 0 ||
                (x->command->stack != UINT32_MAX && stack != x->command->stack))
                continue;
            r = explain_stack(x, request, stack);
        }
    }
    c->request.view = NULL;
    return r;
}

/* ---- the verb ------------------------------------------------------------------------------ */

static int explain_files(struct explainer *x, struct error *e)
{
    uint32_t n_metrics;
    struct rules_command *c = x->command;
    struct aggregate_metric *metrics = pipeline_metrics(x->program, &n_metrics);
    struct stats *stats = stats_new();
    struct aggregate *aggregate = metrics ? aggregate_new(metrics, n_metrics, NULL) : NULL;
    if (aggregate && stats)
        x->classify = classify_new(x->program, aggregate, stats, NULL);
    int r = x->classify ? 0 : error_set(e, -ENOMEM, "out of memory");
    if (r == 0 && c->json)
        printf("{\"stacks\": [");
    for (uint32_t i = 0; r == 0 && i < c->n_captures; i++) {
        x->path = c->captures[i];
        r = capture_file_read(x->path, explain_request, x, e);
    }
    if (x->classify && c->json)
        printf("]}\n");
    classify_free(x->classify);
    aggregate_free(aggregate);
    free(metrics);
    idmap_release(&x->seen);
    vec_release(&x->frames);
    return r;
}

/* Whether there is such a metric that counts; if not, says so. */
static bool is_metric(const struct rules_command *c, const char *name)
{
    struct nearest near;
    nearest_start(&near, bytes_str(name));
    for (uint32_t i = 0; i < c->set->n_metrics; i++) {
        const struct rule_metric *m = &c->set->metrics[i];
        nearest_offer(&near, m->name);
        if (bytes_is(m->name, name) && m->enabled)
            return true;
        if (bytes_is(m->name, name)) {
            fprintf(stderr,
                    "profgate rules explain: the metric %s is off; a rule file switches it on: enable %s\n",
                    name, name);
            return false;
        }
    }
    fprintf(stderr, "profgate rules explain: there is no metric %s%s\n", name, nearest_ask(near.best).s);
    return false;
}

int command_rules_explain(struct rules_command *c)
{
    struct explainer x = {.command = c, .seen = IDMAP_INIT(NULL)};
    struct error e = {""};
    if (!c->set) {
        command_rules_no_set(c);
        return EXIT_NO;
    }
    if (c->n_captures == 0) {
        fprintf(stderr, "profgate rules explain: name a captured request\n");
        return EXIT_USAGE;
    }
    if ((c->metric && !is_metric(c, c->metric)) || (c->why_not && !is_metric(c, c->why_not)))
        return EXIT_USAGE;
    x.program = rules_program_new(c->set, &e);
    int r = x.program ? explain_files(&x, &e) : -EINVAL;
    rules_program_free(x.program);
    if (r < 0) {
        fprintf(stderr, "profgate rules explain: %s\n", e.text[0] ? e.text : "out of memory");
        return EXIT_USAGE;
    }
    if (!x.any && !c->json && c->stack != UINT32_MAX)
        printf("no sample has stack %" PRIu32 "\n", c->stack);
    else if (!x.any && !c->json)
        printf("no sample: what was captured holds none, so there is nothing to explain\n");
    else if (x.n_stacks == 0 && !c->json)
        printf("no stack%s\n", c->why_not  ? " that this metric does not take"
                               : c->metric ? " is taken by that metric"
                                           : "");
    return x.n_stacks > 0 ? EXIT_DONE : EXIT_NO;
}
