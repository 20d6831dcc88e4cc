/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/prove/proof_runner.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "rules/match/weigh.h"

/* ---- the profile ----------------------------------------------------------------------------- */

static uint32_t text_of(struct test_runner *r, bool there, struct bytes text)
{
    return there ? rules_matcher_string(r->matcher, text) : RULES_NONE;
}

static struct rules_frame frame_of(struct test_runner *r, const struct rule_test_frame *f)
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
    return ((struct test_runner *)context)->frames[frame].field[field];
}

static bool ask_inlined(void *context, uint32_t frame)
{
    return ((struct test_runner *)context)->frames[frame].inlined;
}

static uint32_t ask_attr(void *context, enum rule_scope scope, uint32_t key)
{
    struct test_runner *r = context;
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
    struct test_runner *r = context;
    return rules_matcher_string(r->matcher, r->test->type);
}

static uint32_t ask_unit(void *context)
{
    struct test_runner *r = context;
    return rules_matcher_string(r->matcher, r->test->unit);
}

static bool ask_linked(void *context)
{
    const struct test_runner *r = context;
    return r->test->samples[r->sample].linked;
}

struct rules_asker test_asker(struct test_runner *r)
{
    return (struct rules_asker){r,        ask_field,  ask_inlined, ask_attr, ask_type,
                                ask_unit, ask_linked, NULL,        NULL};
}

bool test_walk(struct test_runner *r, uint32_t i, struct rules_verdict *v)
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

/* ---- life ------------------------------------------------------------------------------------ */

static bool takes_part(const struct rule_metric *metric, const void *context)
{
    const struct rule_test *test = context;
    bool named = false;
    for (uint32_t i = 0; i < test->n_expects && !named; i++)
        named =
            test->expects[i].kind == RULE_EXPECT_SERIES && bytes_eq(test->expects[i].metric, metric->name);
    return named || (bytes_eq(metric->pack, test->pack) && !metric->off);
}

int test_prepare(struct test_runner *r, struct error *e)
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
    r->kept = calloc(t->n_samples + 1, sizeof *r->kept);
    r->frames = calloc(longest, sizeof *r->frames);
    r->items = calloc(longest, sizeof *r->items);
    r->classes = calloc(longest, sizeof *r->classes);
    if (!r->matcher || !r->registers || !r->held || !r->kept || !r->frames || !r->items || !r->classes)
        return -ENOMEM;
    rules_matcher_begin(r->matcher);
    const struct rules_profile profile = {t->type, t->unit, BYTES_LIT("nanoseconds"),
                                          t->period_ns > INT64_MAX ? INT64_MAX : (int64_t)t->period_ns};
    r->time = rules_time_of(&profile);
    r->active = rules_matcher_choose_one(r->matcher, &profile);
    r->keep_active = rules_matcher_keep_active(r->matcher, &profile);
    return r->active == RULES_NONE || r->keep_active == RULES_NONE ? -ENOMEM : 0;
}

void test_release(struct test_runner *r)
{
    rules_matcher_free(r->matcher);
    rules_program_free(r->program);
    free(r->registers);
    free(r->held);
    free(r->kept);
    free(r->frames);
    free(r->items);
    free(r->classes);
    vec_release(&r->sums);
}
