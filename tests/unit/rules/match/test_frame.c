/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules */
/*
 * What a matcher remembers of frames (plans of types, kinds of texts, classes) and of outcomes never changes
 * an answer: random samples asked of a matcher that has seen much, and of one that has seen nothing.
 */
#include "rules/match/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "rules/match/weigh.h"
#include "rules/program/program.h"
#include "tests/unit/rules/rules_helper.h"

#define FRAMES    3u
#define KEYS      12u
#define TYPES     300u /* more than have plans */
#define REGISTERS 64u

struct sample {
    char type[FRAMES][16], function[FRAMES][16], library[FRAMES][16], file[FRAMES][16]; /* "": none */
    bool inlined[FRAMES], linked;
    char attr[KEYS][8];
    uint32_t n;
};

struct asked {
    struct rules_program *program;
    struct rules_matcher *m;
    const struct sample *s;
};

static uint32_t text(const struct asked *a, const char *s)
{
    return *s ? rules_matcher_string(a->m, bytes_str(s)) : RULES_NONE;
}

static uint32_t ask_field(void *context, uint32_t frame, enum rule_field field)
{
    const struct asked *a = context;
    switch (field) {
    case RULE_FIELD_TYPE: return text(a, a->s->type[frame]);
    case RULE_FIELD_FUNCTION: return text(a, a->s->function[frame]);
    case RULE_FIELD_FILE: return text(a, a->s->file[frame]);
    case RULE_FIELD_LIBRARY:
    case RULE_FIELD_MAPPING: return text(a, a->s->library[frame]);
    default: return RULES_NONE;
    }
}
static bool ask_inlined(void *context, uint32_t frame)
{
    return ((const struct asked *)context)->s->inlined[frame];
}
static uint32_t ask_attr(void *context, enum rule_scope scope, uint32_t key)
{
    const struct asked *a = context;
    unsigned k;
    struct bytes name = rules_program_attr(a->program, key);
    if (scope != RULE_SCOPE_SAMPLE || sscanf((const char *)name.p, "k%u", &k) != 1 || k >= KEYS)
        return RULES_NONE;
    return text(a, a->s->attr[k]);
}
static uint32_t ask_profile(void *context)
{
    return text(context, "samples");
}
static bool ask_linked(void *context)
{
    return ((const struct asked *)context)->s->linked;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Types are told in the order in which a matcher met them: put in one that all have. */
static void sort_entries(struct buffer *out)
{
    char *copy = strndup((const char *)out->p, out->n), *save = NULL, *entry[256];
    uint32_t n = 0;
    for (char *e = strtok_r(copy, " ", &save); e; e = strtok_r(NULL, " ", &save))
        entry[n++] = e;
    qsort(entry, n, sizeof *entry, by_text);
    buffer_clear(out, 1 << 16);
    for (uint32_t i = 0; i < n; i++)
        buffer_printf(out, "%s ", entry[i]);
    free(copy);
}

static void put_entry(const struct asked *a, struct buffer *out, const struct rules_entry *e)
{
    const struct rules_series_label *labels;
    uint32_t n = rules_matcher_series_labels(a->m, e->series, &labels),
             metric = rules_matcher_series_metric(a->m, e->series);
    buffer_printf(out, " %.*s{", BYTES_FMT(rules_program_metric(a->program, metric)->name));
    for (uint32_t i = 0; i < n; i++)
        buffer_printf(out, "%.*s=%.*s,", BYTES_FMT(rules_program_name(a->program, labels[i].name)),
                      BYTES_FMT(rules_matcher_text(a->m, labels[i].value)));
    buffer_add_str(out, "}");
}

/* What the sample adds to, as text. */
static void answer(struct asked *a, const struct sample *s, struct buffer *out)
{
    struct rules_register registers[REGISTERS];
    struct rules_verdict v = {.registers = registers};
    struct rules_asker asker = {a,           ask_field,  ask_inlined, ask_attr, ask_profile,
                                ask_profile, ask_linked, NULL,        NULL};
    const struct rules_profile profile = {BYTES_LIT("samples"), BYTES_LIT("count"), {0}, 0};
    uint32_t items[FRAMES], classes[FRAMES];
    const struct rules_entry *entries;
    a->s = s;
    buffer_clear(out, 1 << 16);
    ck_assert_uint_le(rules_program_registers(a->program), REGISTERS);
    for (uint32_t i = 0; i < s->n; i++) {
        struct rules_frame frame = {.inlined = s->inlined[i]};
        for (uint32_t f = 0; f < RULES_FIELDS; f++)
            frame.field[f] = ask_field(a, i, (enum rule_field)f);
        items[i] = i;
        classes[i] = rules_matcher_frame(a->m, &frame);
    }
    if (!rules_matcher_walk(a->m, &(struct rules_stack){items, s->n, NULL, classes, NULL}, &v))
        return;
    struct rules_found found;
    ck_assert(rules_matcher_find(a->m, &v, rules_matcher_choose_one(a->m, &profile), &asker, &found));
    uint32_t n = rules_matcher_entries(a->m, &v, &found, &asker, &entries);
    for (uint32_t i = 0; i < n; i++)
        put_entry(a, out, &entries[i]);
    ck_assert_int_eq(rules_matcher_error(a->m), 0);
    if (out->n > 0)
        sort_entries(out);
}

static uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n;
}

static void one_of(struct rng *rng, char *to, const char *letters, uint32_t length)
{
    uint32_t n = (uint32_t)rng_below(rng, length + 1);
    for (uint32_t i = 0; i < n; i++)
        to[i] = letters[rng_below(rng, strlen(letters))];
    to[n] = 0;
}

static struct sample random_sample(struct rng *rng)
{
    static const char *const types[] = {"native", "kernel", "jvm", "go", "cpython", ""};
    struct sample s = {.n = 1 + (uint32_t)rng_below(rng, FRAMES), .linked = rng_below(rng, 2)};
    for (uint32_t i = 0; i < s.n; i++) {
        if (rng_below(rng, 4) == 0)
            snprintf(s.type[i], sizeof s.type[i], "type%u", (unsigned)rng_below(rng, TYPES));
        else
            strcpy(s.type[i], types[rng_below(rng, ARRAY_LEN(types))]);
        one_of(rng, s.function[i], "abcd.", 4);
        one_of(rng, s.library[i], "l12", 2);
        one_of(rng, s.file[i], "aclp", 2);
        s.inlined[i] = rng_below(rng, 8) == 0;
    }
    for (uint32_t k = 0; k < KEYS; k++)
        one_of(rng, s.attr[k], "uv", k < 2 ? 2 : 1);
    return s;
}

#define C(name, rest) "counter " name " { describe \"d\" unit \"1\" on any value one " rest " }\n"

/* Columns of one field in some types and of two in others, of another table, of nothing; guards by attribute;
 * a nearest row; captures. */
static const char frames_rules[] =
    "rules 1\npack t\n"
    "param pattern mine = none\n"
    "table two (x) { native and library ~ \"l*\" => function + \"@\" + library\n"
    "    jvm => capture /^(\\w+)\\./ from function  kernel and inlined => \"in\"  else => file }\n"
    "table three (y) { go => two.x  cpython => function  else => two.x + \"!\" }\n"
    "table near (n) over frames nearest leaf { \"a*\" when sample[\"k1\"] == \"v\" => \"P\"  \"b*\" => \"Q\"\n"
    "    library ~ \"*1\" when linked => \"L\"  file ~ \"a*\" => file  \"d*\" => three.y }\n" C(
        "odd", "where any frame is (two.x ~ \"*@l1\" | \"a*\") label x = two.x of leaf")
        C("deep", "where any frame is (three.y ~ /[bd]!?$/) label y = three.y of first (two.x !~ \"c*\")") C(
            "each", "each distinct frame is (file != none and function !~ \"a*\") label f = file of frame\n"
                    "label t = type of frame")
            C("type", "each distinct frame is (not three.y == none) label t = type of frame") C(
                "attr",
                "where leaf is (function ~ /[ab]$/ or inlined) label k = sample[\"k0\"] ?? capture /(.)$/ from function of last native\n"
                "label l = \"yes\" when sample[\"k1\"] ~ \"u*\" ?? profile.unit")
                C("near", "label n = near.n") C("mine", "where any frame is (function ~ mine)")
                    C("not_mine", "where every frame is (function !~ mine)");

/* More attributes than an outcome has cues for. */
static const char attributes_rules[] = "rules 1\npack t\n" C(
    "many",
    "label a = sample[\"k0\"] label b = sample[\"k1\"] label c = sample[\"k2\"] label d = sample[\"k3\"]\n"
    "label e = sample[\"k4\"] label f = sample[\"k5\"] label g = sample[\"k6\"] label h = sample[\"k7\"]\n"
    "label i = sample[\"k8\"] label j = sample[\"k9\"] label k = sample[\"k10\"] label l = sample[\"k11\"]")
    C("few", "where leaf is go label a = sample[\"k0\"]");

static void compare(const char *rules, uint32_t rounds)
{
    struct rule_set *set = compile_text(bytes_str(rules));
    struct error e = {""};
    struct asked old = {.program = unit_made(rules_program_new(set, &e))};
    struct buffer a = BUFFER_INIT(1 << 16), b = BUFFER_INIT(1 << 16);
    struct rng rng = {0};
    rng_seed(&rng, 20261121);
    old.m = unit_made(rules_matcher_new(old.program, NULL));
    rules_matcher_begin(old.m);
    for (uint32_t i = 0; i < rounds; i++) {
        struct sample s = random_sample(&rng);
        struct asked fresh = {.program = old.program, .m = unit_made(rules_matcher_new(old.program, NULL))};
        rules_matcher_begin(fresh.m);
        answer(&fresh, &s, &b);
        for (int twice = 0; twice < 2; twice++) {
            answer(&old, &s, &a);
            ck_assert_msg(bytes_eq(buffer_bytes(&a), buffer_bytes(&b)), "round %u: %.*s, alone %.*s", i,
                          BYTES_FMT(buffer_bytes(&a)), BYTES_FMT(buffer_bytes(&b)));
        }
        rules_matcher_free(fresh.m);
    }
    buffer_release(&a);
    buffer_release(&b);
    rules_matcher_free(old.m);
    rules_program_free(old.program);
    rules_set_free(set);
}

UNIT(what_is_remembered_of_frames_changes_no_answer)
{
    compare(frames_rules, 2000);
}

UNIT(more_attributes_than_cues_change_no_answer)
{
    compare(attributes_rules, 500);
}

static uint32_t class_of(struct rules_matcher *m, uint32_t type, const char *function)
{
    struct rules_frame frame = {.inlined = false};
    uint32_t name = rules_matcher_string(m, bytes_str(function));
    memset(frame.field, 0xff, sizeof frame.field);
    frame.field[RULE_FIELD_TYPE] = type;
    frame.field[RULE_FIELD_FUNCTION] = name;
    uint32_t class = rules_matcher_frame(m, &frame);
    ck_assert_uint_eq(rules_matcher_frame_text(m, type, RULE_FIELD_FUNCTION, name), class);
    ck_assert_uint_eq(rules_matcher_frame_text(m, type, RULE_FIELD_FUNCTION, name), class);
    return class;
}

/* Names looked up together, some of them twice and some new, of several types: as each alone. */
UNIT(names_many_at_a_time_give_the_classes_they_give_alone)
{
    struct rule_set *set =
        compile_text(bytes_str("rules 1\npack t\n" C("a", "where any frame is (jvm and \"com.acme.*\")")
                                   C("b", "where any frame is (go and \"main.*\")")));
    struct rules_program *p = unit_made(rules_program_new(set, NULL));
    struct rules_matcher *m = unit_made(rules_matcher_new(p, NULL)),
                         *alone = unit_made(rules_matcher_new(p, NULL));
    static const char *const types[] = {"jvm", "go", "native"};
    static char text[RULES_NAMED_MAX][32];
    rules_matcher_begin(m);
    rules_matcher_begin(alone);
    uint32_t classes = 0;
    for (uint32_t round = 0; round < 40; round++) {
        struct rules_named_frame frames[RULES_NAMED_MAX];
        uint32_t n = round % (RULES_NAMED_MAX + 1);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t k = (round * 7 + i * i) % 50;
            snprintf(text[i], sizeof text[i], "%s.C%u.m",
                     (const char *const[]){"com.acme", "main", "x"}[k % 3], k);
            frames[i] = (struct rules_named_frame){
                .name = bytes_str(text[i]), .type = rules_matcher_string(m, bytes_str(types[(k + i) % 3]))};
        }
        rules_matcher_named_frames(m, frames, n);
        for (uint32_t i = 0; i < n; i++) {
            ck_assert(bytes_eq(rules_matcher_text(m, frames[i].string), frames[i].name));
            struct bytes type = rules_matcher_text(m, frames[i].type);
            uint32_t same = class_of(m, frames[i].type, text[i]);
            ck_assert_uint_eq(frames[i].class, same);
            ck_assert_uint_lt(frames[i].class, rules_matcher_figures(m).classes);
            class_of(alone, rules_matcher_string(alone, type), text[i]);
        }
        classes = (uint32_t)rules_matcher_figures(m).classes;
    }
    ck_assert_uint_eq(classes, rules_matcher_figures(alone).classes);
    ck_assert_uint_ge(classes, 3);
    rules_matcher_free(m);
    rules_matcher_free(alone);
    rules_program_free(p);
    rules_set_free(set);
}

/* However many names there are: one class for each thing that rules can tell of them. */
UNIT(names_of_one_kind_are_of_one_class)
{
    struct rule_set *set =
        compile_text(bytes_str("rules 1\npack t\n" C("a", "where any frame is (jvm and \"com.acme.*\")")
                                   C("b", "where any frame is (go and library ~ \"x\")")));
    struct rules_program *p = unit_made(rules_program_new(set, NULL));
    struct rules_matcher *m = unit_made(rules_matcher_new(p, NULL));
    char name[64];
    rules_matcher_begin(m);
    uint32_t jvm = rules_matcher_string(m, BYTES_LIT("jvm")), go = rules_matcher_string(m, BYTES_LIT("go")),
             ours = class_of(m, jvm, "com.acme.Shop.add"), theirs = class_of(m, jvm, "java.lang.Thread.run");
    ck_assert_uint_ne(ours, theirs);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, i % 2 ? "com.acme.C%d.m" : "org.c%d.m", i);
        ck_assert_uint_eq(class_of(m, jvm, name), i % 2 ? ours : theirs);
    }
    ck_assert_uint_eq(rules_matcher_figures(m).classes, 2);
    ck_assert_uint_eq(rules_matcher_fields(m, jvm), 1u << RULE_FIELD_TYPE | 1u << RULE_FIELD_FUNCTION);
    ck_assert_uint_eq(rules_matcher_fields(m, go), 1u << RULE_FIELD_TYPE | 1u << RULE_FIELD_LIBRARY);
    rules_matcher_free(m);
    rules_program_free(p);
    rules_set_free(set);
}

/* A column is looked at through what it is made of in frames of the type; a parameter that nobody has set
 * asks nothing. */
UNIT(what_is_not_asked_is_not_looked_at)
{
    struct rule_set *set =
        compile_text(bytes_str("rules 1\npack t\nparam pattern own = none\n"
                               "table symbol (name) { jvm => function  cpython => file  else => \"\" }\n" C(
                                   "a", "where any frame is (symbol.name ~ \"com.*\")")
                                   C("b", "where any frame is (library ~ own)")));
    struct rules_program *p = unit_made(rules_program_new(set, NULL));
    struct rules_matcher *m = unit_made(rules_matcher_new(p, NULL));
    const uint32_t type = 1u << RULE_FIELD_TYPE;
    rules_matcher_begin(m);
    ck_assert_uint_eq(rules_matcher_fields(m, rules_matcher_string(m, BYTES_LIT("jvm"))),
                      type | 1u << RULE_FIELD_FUNCTION);
    ck_assert_uint_eq(rules_matcher_fields(m, rules_matcher_string(m, BYTES_LIT("cpython"))),
                      type | 1u << RULE_FIELD_FILE);
    ck_assert_uint_eq(rules_matcher_fields(m, rules_matcher_string(m, BYTES_LIT("native"))), type);
    ck_assert_uint_eq(rules_matcher_fields(m, RULES_NONE), type);
    rules_matcher_free(m);
    rules_program_free(p);
    rules_set_free(set);
}
