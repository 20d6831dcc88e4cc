/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules */
/* The automaton of all shipped packs on stacks that no program makes: frames of the packs' own tests, so each
 * means something to some rule, drawn at random. What the stacks find out multiplies without end; what it
 * costs, and what is remembered of it, must not; and no answer may change. */
#include "proto/base/buffer.h"
#include "proto/base/rng.h"
#include "rules/match/match.h"
#include "tests/unit/rules/rules_helper.h"

#define FRAMES_MAX 4096u
#define DEEP       24u

struct side {
    struct rules_matcher *m;
    struct rules_register *registers;
    struct rules_frame frames[DEEP];
    uint32_t items[DEEP], classes[DEEP];
};

static struct compiled shipped;
static struct rules_program *program;
static const struct rule_test_frame *frames[FRAMES_MAX];
static uint32_t n_frames;

static void begin(void)
{
    struct error e;
    shipped = compile_texts(NULL, 0);
    ck_assert_ptr_nonnull(shipped.set);
    program = unit_made(rules_program_new(shipped.set, &e));
    n_frames = 0;
    for (uint32_t i = 0; i < shipped.set->n_tests; i++) {
        const struct rule_test *test = &shipped.set->tests[i];
        for (uint32_t k = 0; k < test->n_samples; k++)
            for (uint32_t f = 0; f < test->samples[k].n_frames && n_frames < FRAMES_MAX; f++)
                frames[n_frames++] = &test->samples[k].frames[f];
    }
    ck_assert_uint_gt(n_frames, 1000);
}

static void end(void)
{
    rules_program_free(program);
    compiled_free(&shipped);
}

static struct side *side_new(void)
{
    struct side *s = unit_made(calloc(1, sizeof *s));
    s->m = rules_matcher_new(program, NULL);
    s->registers = calloc(rules_program_registers(program) + 1, sizeof *s->registers);
    ck_assert(s->m && s->registers);
    return s;
}

static void side_free(struct side *s)
{
    rules_matcher_free(s->m);
    free(s->registers);
    free(s);
}

static uint32_t ask_field(void *context, uint32_t frame, enum rule_field field)
{
    return ((struct side *)context)->frames[frame].field[field];
}
static bool ask_inlined(void *context, uint32_t frame)
{
    return ((struct side *)context)->frames[frame].inlined;
}
static uint32_t ask_attr(void *context, enum rule_scope scope, uint32_t key)
{
    return RULES_NONE;
}
static uint32_t ask_type(void *context)
{
    return rules_matcher_string(((struct side *)context)->m, BYTES_LIT("samples"));
}
static uint32_t ask_unit(void *context)
{
    return rules_matcher_string(((struct side *)context)->m, BYTES_LIT("count"));
}
static bool ask_linked(void *context)
{
    return false;
}

static uint32_t text(struct side *s, bool has, struct bytes text)
{
    return has ? rules_matcher_string(s->m, text) : RULES_NONE;
}

static void set_frame(struct side *s, uint32_t i, const struct rule_test_frame *f)
{
    struct rules_frame *made = &s->frames[i];
    bool line = f->has_function || f->has_file;
    made->inlined = f->inlined;
    made->field[RULE_FIELD_TYPE] = text(s, !f->untyped, f->type);
    made->field[RULE_FIELD_FUNCTION] = text(s, line, f->function);
    made->field[RULE_FIELD_SYSTEM_NAME] = text(s, line, BYTES_LIT(""));
    made->field[RULE_FIELD_FILE] = text(s, line, f->file);
    made->field[RULE_FIELD_MAPPING] = text(s, f->has_mapping, f->mapping);
    made->field[RULE_FIELD_LIBRARY] = rules_matcher_library(s->m, made->field[RULE_FIELD_MAPPING]);
    made->field[RULE_FIELD_BUILD_ID] = RULES_NONE;
    s->items[i] = i;
    s->classes[i] = rules_matcher_frame(s->m, made);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The series, sorted, as text. */
static void series_text(struct side *s, const struct rules_entry *entries, uint32_t n_entries,
                        struct buffer *out)
{
    char *lines[256];
    ck_assert_uint_lt(n_entries, 256);
    for (uint32_t i = 0; i < n_entries; i++) {
        const struct rules_entry *e = &entries[i];
        const struct rules_series_label *labels;
        uint32_t n = rules_matcher_series_labels(s->m, e->series, &labels);
        cleanup(buffer_release) struct buffer line = BUFFER_INIT(0);
        buffer_printf(
            &line, "%u %.*s", e->source,
            BYTES_FMT(rules_program_metric(program, rules_matcher_series_metric(s->m, e->series))->name));
        for (uint32_t k = 0; k < n; k++)
            buffer_printf(&line, " %.*s=%.*s", BYTES_FMT(rules_program_name(program, labels[k].name)),
                          BYTES_FMT(rules_matcher_text(s->m, labels[k].value)));
        lines[i] = strndup((const char *)line.p, line.n);
    }
    qsort(lines, n_entries, sizeof *lines, by_text);
    for (uint32_t i = 0; i < n_entries; i++) {
        buffer_printf(out, "%s\n", lines[i]);
        free(lines[i]);
    }
}

static void ask(struct side *s, const uint32_t *stack, uint32_t n, struct buffer *out)
{
    struct rules_asker asker = {s, ask_field, ask_inlined, ask_attr, ask_type, ask_unit, ask_linked};
    struct rules_profile profile = {BYTES_LIT("samples"), BYTES_LIT("count"), BYTES_LIT("nanoseconds"),
                                    10000000};
    struct rules_verdict v = {.registers = s->registers};
    for (uint32_t i = 0; i < n; i++)
        set_frame(s, i, frames[stack[i]]);
    uint32_t active = rules_matcher_choose_one(s->m, &profile);
    ck_assert(rules_matcher_walk(s->m, &(struct rules_stack){s->items, n, NULL, s->classes, NULL}, &v));
    struct rules_found found;
    ck_assert(rules_matcher_find(s->m, &v, active, &asker, &found));
    const struct rules_entry *entries;
    uint32_t n_entries = out ? rules_matcher_entries(s->m, &v, &found, &asker, &entries) : 0;
    if (out)
        series_text(s, entries, n_entries, out);
}

#define DEEPEST 1024u
#define STACKS  40000u /* as a request of a megabyte has */

/* Stacks drawn at random until the automaton has no room and states came apart; every 2000th answer is what a
 * matcher says that never met another stack. */
static void scatter(struct side *one, struct rng *rng, uint32_t stacks, uint64_t *ret_frames)
{
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t stack[DEEP], n = 1 + (uint32_t)(rng_next(rng) % DEEP);
        for (uint32_t k = 0; k < n; k++)
            stack[k] = (uint32_t)(rng_next(rng) % n_frames);
        if (i % 1000 == 0)
            rules_matcher_begin(one->m);
        bool compare = i % 2000 == 1999;
        struct buffer got = BUFFER_INIT(0), want = BUFFER_INIT(0);
        ask(one, stack, n, compare ? &got : NULL);
        if (compare) {
            struct side *fresh = side_new();
            ask(fresh, stack, n, &want);
            ck_assert_uint_eq(got.n, want.n);
            ck_assert_int_eq(memcmp(got.p, want.p, got.n), 0);
            side_free(fresh);
        }
        buffer_release(&got);
        buffer_release(&want);
        *ret_frames += n;
    }
}

UNIT(stacks_drawn_at_random_cost_no_more_and_more)
{
    begin();
    struct side *one = side_new();
    struct rng rng;
    rng_seed(&rng, 1);
    uint64_t walked = 0;
    scatter(one, &rng, STACKS, &walked);
    struct rules_matcher_figures before = rules_matcher_figures(one->m);
    walked = 0;
    scatter(one, &rng, STACKS, &walked);
    struct rules_matcher_figures f = rules_matcher_figures(one->m);
    ck_assert_uint_eq(f.resets, 0);
    ck_assert_uint_gt(f.parts, 1);
    /* Most frames say nothing new: each that does is a step, and what was found is mostly known, part by
     * part. */
    ck_assert_uint_gt(f.steps - before.steps, STACKS);
    ck_assert_uint_lt(f.steps - before.steps, walked / 2);
    ck_assert_uint_lt(f.outcomes - before.outcomes, STACKS);
    side_free(one);
    end();
}

/* One frame a thousand times over, as endless recursion has it, where the automaton has no room to know it.
 */
UNIT(recursion_is_walked_at_the_cost_of_what_it_says)
{
    static uint32_t items[DEEPEST];
    begin();
    struct side *one = side_new();
    struct rng rng;
    rng_seed(&rng, 2);
    uint64_t walked = 0, all = 0, tries = 0;
    scatter(one, &rng, STACKS / 4, &walked);
    for (uint32_t i = 0; i < n_frames; i += 3) {
        struct rules_verdict v = {.registers = one->registers};
        set_frame(one, 0, frames[i]);
        uint64_t steps = rules_matcher_figures(one->m).steps;
        ck_assert(
            rules_matcher_walk(one->m, &(struct rules_stack){items, DEEPEST, NULL, one->classes, NULL}, &v));
        steps = rules_matcher_figures(one->m).steps - steps;
        ck_assert_uint_le(steps, DEEPEST);
        all += steps;
        tries++;
    }
    ck_assert_uint_gt(all, 0);                   /* not all are known */
    ck_assert_uint_lt(all, tries * DEEPEST / 4); /* only `last` asks for each of them */
    side_free(one);
    end();
}
