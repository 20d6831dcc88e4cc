/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules/prove */
/* keep and drop, override and extend: what they become, and what rules do with them. */
#include "rules/match/match.h"
#include "rules/tree/policy.h"
#include "rules/prove/run_tests.h"
#include "tests/unit/rules/rules_helper.h"

/* Compiles the files beside the shipped packs and runs the tests of the user's; the failures as text. */
static char *failures_of(const char *const *texts, size_t n)
{
    cleanup(compiled_free) struct compiled c = compile_texts(texts, n);
    for (uint32_t i = 0; i < c.found.n && !c.set; i++)
        fputs(c.found.items[i].text, stderr);
    ck_assert_ptr_nonnull(c.set);
    struct rule_test tests[32];
    struct rule_set meant = *c.set;
    meant.tests = tests;
    meant.n_tests = 0;
    for (uint32_t i = 0; i < c.set->n_tests; i++) {
        if (!c.set->files[c.set->tests[i].place.file].builtin)
            tests[meant.n_tests++] = c.set->tests[i];
    }
    ck_assert_uint_gt(meant.n_tests, 0);
    cleanup(rules_diagnostics_release) struct rules_diagnostics d;
    uint32_t run;
    ck_assert_int_eq(rules_run_tests(&meant, &d, &run), 0);
    char *all = calloc(1, 65536);
    for (uint32_t i = 0; i < d.n; i++)
        strncat(all, d.items[i].text, 65535 - strlen(all));
    return all;
}

static void passes(const char *const *texts, size_t n)
{
    autofree char *text = failures_of(texts, n);
    ck_assert_str_eq(text, "");
}
#define PASSES(...) \
    passes((const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

/* ---- keep, drop ---- */

UNIT(the_largest_share_counts_and_a_drop_makes_it_nothing)
{
    PASSES("rules 1\npack t\n"
           "keep 1%\nkeep 5% where any frame is go\nkeep 2% where linked\nkeep all where leaf is \"hot\"\n"
           "drop where any frame is \"secret*\"\n"
           "test \"shares\" {\n"
           "  stack native \"a\"            expect kept 1%\n"
           "  stack native \"a\" < go \"b\"   expect kept 5%\n"
           "  stack native \"a\" linked     expect kept 2%\n"
           "  stack go \"a\" linked         expect kept 5%\n"
           "  stack jvm \"hot\"             expect kept 100%\n"
           "  stack jvm \"hot\" < jvm \"secret.X\"  expect kept 0%\n"
           "  expect nothing\n}\n");
}

UNIT(nothing_is_kept_without_a_rule)
{
    PASSES("rules 1\npack t\ntest \"none\" { stack go \"a\" expect kept 0% }\n");
}

UNIT(on_says_which_profiles)
{
    static const char rules[] = "keep 50% on cpu\nkeep 10% on \"alloc*/bytes\"\nkeep 1% on any\n";
    char text[1024];
    snprintf(text, sizeof text,
             "rules 1\npack t\n%s"
             "test \"cpu\" { stack go \"a\" expect kept 50%% }\n"
             "test \"cpu time, the sibling\" { type \"cpu/nanoseconds\" stack go \"a\" expect kept 50%% }\n"
             "test \"bytes\" { type \"alloc_space/bytes\" stack go \"a\" expect kept 10%% }\n"
             "test \"others\" { type \"goroutine/count\" stack go \"a\" expect kept 1%% }\n",
             rules);
    PASSES(text);
}

/* A share of profiles that one sample asks for keeps the others too, but for what is dropped; shares of
 * different things are decided apart, so they add up as independent chances do. */
UNIT(of_profiles_reaches_every_sample_of_the_profile)
{
    PASSES("rules 1\npack t\n"
           "keep 50% of profiles where any frame is go\nkeep 50% of stacks where linked\n"
           "keep 20% of samples where leaf is php\ndrop where leaf is ruby\n"
           "test \"t\" {\n"
           "  stack native \"a\"           expect kept 50%\n"
           "  stack go \"a\"               expect kept 50%\n"
           "  stack native \"a\" linked    expect kept 75%\n"
           "  stack php \"a\" linked       expect kept 80%\n"
           "  stack ruby \"a\"             expect kept 0%\n"
           "}\n"
           "test \"without go\" { stack native \"a\" expect kept 0%  stack php \"a\" expect kept 20% }\n");
}

UNIT(rates_are_no_share)
{
    PASSES("rules 1\npack t\n"
           "keep 5 per minute by resource[\"service.name\"] where any frame is go\n"
           "keep 1 per second\ndrop where leaf is ruby\n"
           "test \"t\" { stack go \"a\" expect kept 5 per minute  expect kept 1 per second  expect kept 0%\n"
           "           stack native \"a\" expect kept 1 per second }\n");
    autofree char *text =
        failures_of((const char *const[]){"rules 1\npack t\n"
                                          "keep 5 per minute where any frame is go\ndrop where linked\n"
                                          "test \"t\" { stack native \"a\" expect kept 5 per minute }\n"
                                          "test \"u\" { stack go \"a\" linked expect kept 5 per minute }\n"
                                          "test \"v\" { stack go \"a\" expect kept 5 per second }\n"},
                    1);
    ck_assert_ptr_nonnull(strstr(text, "test \"t\" failed"));
    ck_assert_ptr_nonnull(strstr(text, "test \"u\" failed"));
    ck_assert_ptr_nonnull(strstr(text, "test \"v\" failed"));
}

UNIT(a_wrong_probability_says_which_rules_made_it)
{
    autofree char *text = failures_of((const char *const[]){"rules 1\npack t\n"
                                                            "keep 1.25%\nkeep 7% where linked\n"
                                                            "test \"t\" { stack go \"a\" expect kept 2% }\n"},
                                      1);
    ck_assert_ptr_nonnull(strstr(text, "     expected stack 1 to be kept with 2%, it is with 1.25%\n"
                                       "     because  line 3: keep 1.25%\n"));
}

UNIT(a_rule_of_another_pack_is_not_asked_in_a_test)
{
    PASSES("rules 1\npack a\nkeep all\ntest \"a\" { stack go \"x\" expect kept 100% }\n",
           "rules 1\npack b\nkeep 3%\ntest \"b\" { stack go \"x\" expect kept 3% }\n");
}

/* What a forwarder is told: by whom, of which text, at which level. */
UNIT(a_program_says_who_keeps_a_sample)
{
    struct compiled c = compile_good("keep 1%\nkeep 2% where resource[\"tier\"] == \"gold\"\n"
                                     "keep 9 per minute by sample[\"user\"]\n");
    struct error e;
    struct rules_program *p = unit_made(rules_program_new(c.set, &e));
    ck_assert_uint_eq(rules_program_keeps(p), 3);
    ck_assert_int_eq(rules_program_keep(p, 2)->how, RULE_KEEP_RATE);
    rules_program_free(p);
    compiled_free(&c);
    /* A pack that is disabled keeps nothing. */
    c = compile_texts((const char *const[]){"rules 1\npack a\nkeep all\n", "rules 1\npack b\ndisable a\n"},
                      2);
    p = rules_program_new(unit_made(c.set), &e);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(rules_program_keeps(p), 0);
    rules_program_free(p);
    compiled_free(&c);
}

/* A forwarder's side: one frame `go f`, a resource of one tier, a sample of one user. */
struct sender {
    struct rules_matcher *m;
    const struct rules_program *p;
    const char *tier, *user;
};

static uint32_t sender_field(void *context, uint32_t frame, enum rule_field field)
{
    struct sender *s = context;
    return field == RULE_FIELD_TYPE ? rules_matcher_string(s->m, BYTES_LIT("go")) : RULES_NONE;
}

static bool sender_no(void *context, uint32_t frame)
{
    return false;
}

static bool sender_unlinked(void *context)
{
    return false;
}

static uint32_t sender_none(void *context)
{
    return RULES_NONE;
}

static uint32_t sender_attr(void *context, enum rule_scope scope, uint32_t key)
{
    struct sender *s = context;
    const char *text = bytes_is(rules_program_attr(s->p, key), "tier") ? s->tier : s->user;
    return text ? rules_matcher_string(s->m, bytes_str(text)) : RULES_NONE;
}

static const struct rules_kept *ask(struct sender *s, uint32_t active)
{
    struct rules_register registers[128];
    struct rules_verdict v = {.registers = registers};
    struct rules_frame frame;
    memset(frame.field, 0xff, sizeof frame.field);
    frame.field[RULE_FIELD_TYPE] = rules_matcher_string(s->m, BYTES_LIT("go"));
    frame.inlined = false;
    const uint32_t item = 0, class = rules_matcher_frame(s->m, &frame);
    const struct rules_asker asker = {.context = s,
                                      .field = sender_field,
                                      .inlined = sender_no,
                                      .attr = sender_attr,
                                      .profile_type = sender_none,
                                      .profile_unit = sender_none,
                                      .linked = sender_unlinked};
    ck_assert_uint_lt(rules_program_registers(s->p), 128);
    ck_assert(rules_matcher_walk(s->m, &(struct rules_stack){&item, 1, NULL, &class, NULL}, &v));
    uint32_t kept = rules_matcher_kept(s->m, &v, active, &asker);
    ck_assert_uint_ne(kept, RULES_NONE);
    return rules_matcher_kept_at(s->m, kept);
}

UNIT(what_a_forwarder_is_told)
{
    cleanup(compiled_free) struct compiled c =
        compile_good("keep 1%\nkeep 2% where resource[\"tier\"] == \"gold\"\n"
                     "keep 9 per minute by sample[\"user\"] on cpu\n");
    struct error e;
    struct rules_program *p = unit_made(rules_program_new(c.set, &e));
    struct sender s = {.m = unit_made(rules_matcher_new(p, NULL)), .p = p, .tier = "gold"};
    const struct rules_profile cpu = {BYTES_LIT("samples"), BYTES_LIT("count"), BYTES_LIT("nanoseconds"), 1},
                               heap = {BYTES_LIT("alloc_space"), BYTES_LIT("bytes"), BYTES_LIT(""), 0};
    for (int again = 0; again < 2; again++) { /* what it has learnt says the same */
        rules_matcher_begin(s.m);
        s.user = NULL;
        const struct rules_kept *kept = ask(&s, rules_matcher_keep_active(s.m, &heap));
        ck_assert_uint_eq(kept->share[RULE_OF_STACKS], 20000);
        ck_assert_uint_eq(kept->keep[RULE_OF_STACKS], 1);
        ck_assert_uint_eq(kept->n_rates, 0);
        ck_assert_int_eq(kept->level, RULES_LEVEL_PROFILE);
        s.tier = "tin";
        uint32_t active = rules_matcher_keep_active(s.m, &cpu);
        kept = ask(&s, active);
        ck_assert_uint_eq(kept->keep[RULE_OF_STACKS], 0);
        ck_assert_uint_eq(kept->n_rates, 1);
        ck_assert_uint_eq(rules_matcher_kept_rate(s.m, kept->rates)->keep, 2);
        ck_assert_uint_eq(rules_matcher_kept_rate(s.m, kept->rates)->by, RULES_NONE);
        ck_assert_int_eq(kept->level, RULES_LEVEL_SAMPLE);
        s.user = "ann";
        kept = ask(&s, active);
        ck_assert_bytes(rules_matcher_text(s.m, rules_matcher_kept_rate(s.m, kept->rates)->by), "ann");
        s.tier = "gold";
    }
    rules_matcher_free(s.m);
    rules_program_free(p);
}

UNIT(chances_of_three_decisions)
{
    struct rules_kept kept = {.dropped = RULES_NONE};
    ck_assert_uint_eq(rules_keep_probability(&kept, 0), 0);
    kept.share[RULE_OF_STACKS] = 10000;
    ck_assert_uint_eq(rules_keep_probability(&kept, 0), 10000);
    ck_assert_uint_eq(rules_keep_probability(&kept, RULE_SHARE_ONE), RULE_SHARE_ONE);
    ck_assert_uint_eq(rules_keep_probability(&kept, 500000), 505000);
    kept.dropped = 0;
    ck_assert_uint_eq(rules_keep_probability(&kept, RULE_SHARE_ONE), 0);
}

UNIT(shares_are_exact_to_a_millionth)
{
    cleanup(compiled_free) struct compiled c =
        compile_good("keep 0.0001%\nkeep 100%\nkeep 33.3333%\nkeep 1000000 per second\nkeep all\n");
    ck_assert_uint_eq(c.set->n_keeps, 5);
    ck_assert_uint_eq(c.set->keeps[0].share, 1);
    ck_assert_uint_eq(c.set->keeps[1].share, RULE_SHARE_ONE);
    ck_assert_uint_eq(c.set->keeps[2].share, 333333);
    ck_assert_uint_eq(c.set->keeps[3].count, 1000000);
    ck_assert(c.set->keeps[4].all && c.set->keeps[4].share == RULE_SHARE_ONE);
}

/* ---- override ---- */

#define BASE                                                                                     \
    "rules 1\npack base\nframe hot = \"hot*\"\n"                                                 \
    "counter b.time { describe \"d\" on cpu  where any frame is hot\n"                           \
    "    label kind = type of leaf  label name = function of leaf  limit 10 }\n"                 \
    "also counter b.two { where leaf is php  label kind = \"two\" }\n"                           \
    "counter b.two { on cpu  where leaf is go  label kind = \"one\" }\n"                         \
    "table area (name, sort) over frames { \"read*\" => \"io\", \"r\"  else => \"other\", - }\n" \
    "counter b.area { on cpu  label area.* }\n"

UNIT(an_override_replaces_the_clauses_it_names)
{
    PASSES(BASE, "rules 1\npack mine\nframe hot = \"mine*\"\n"
                 "override counter b.time { where leaf is hot  label name = none  label kind = \"k\"\n"
                 "    label extra = resource[\"r\"]  limit 5 largest  describe \"mine\" }\n"
                 "test \"t\" { resource[\"r\"] = \"v\"\n"
                 "    stack go \"mine1\" < go \"x\"\n    stack go \"hot\"\n"
                 "    expect b.time 10ms { kind = \"k\", extra = \"v\" } }\n");
    cleanup(compiled_free) struct compiled c =
        compile_texts((const char *const[]){BASE, "rules 1\npack mine\n"
                                                  "override counter b.time { limit 5 largest "
                                                  "describe \"mine\" off value samples unit \"1\" }\n"},
                      2);
    const struct rule_metric *m = metric_named(unit_made(c.set), "b.time");
    ck_assert_bytes(m->describe, "mine");
    ck_assert_bytes(m->unit, "1");
    ck_assert_uint_eq(m->limit, 5);
    ck_assert(m->largest && m->off && !m->enabled);
    ck_assert_int_eq(m->sources[0].value, RULE_VALUE_SAMPLES);
    ck_assert_uint_eq(m->sources[0].n_labels, 2);
}

UNIT(an_override_s_labels_mean_every_source)
{
    PASSES(BASE, "rules 1\npack mine\noverride counter b.two { label kind = none  label all = \"a\" }\n"
                 "test \"t\" { stack go \"x\"  stack php \"x\"  expect b.two 20ms { all = \"a\" } }\n");
}

UNIT(an_override_may_take_one_column_out)
{
    PASSES(BASE, "rules 1\npack mine\noverride counter b.area { label sort = none }\n"
                 "test \"t\" { stack go \"reader\" expect b.area { name = \"io\" } }\n");
}

UNIT(the_later_file_s_override_wins)
{
    PASSES(BASE, "rules 1\npack one\noverride counter b.two { label kind = \"1\"  label one = \"1\" }\n",
           "rules 1\npack two\noverride counter b.two { label kind = \"2\" }\n"
           "test \"t\" { stack go \"x\" expect b.two { kind = \"2\", one = \"1\" } }\n");
}

/* A pack's tests are about its rules as it knows them: what a later file makes of them is that file's to
 * test. */
UNIT(tests_do_not_see_what_later_files_change)
{
    PASSES(
        BASE
        "test \"base\" { stack go \"reader\" expect b.area { name = \"io\", sort = \"r\" } expect b.two { kind = \"one\" } }\n"
        "counter b.three { on cpu off }\n",
        "rules 1\npack one\noverride counter b.area { label sort = none }\n"
        "extend table base.area { \"read*\" => \"mine\", - }\n"
        "test \"one\" { stack go \"reader\" expect b.area { name = \"mine\" } }\n",
        "rules 1\npack two\nextend table base.area { \"read*\" => \"two\", - }\n"
        "override counter b.area { label name = none  label kind = \"k\" }\n"
        "test \"two\" { stack go \"reader\" expect b.area { kind = \"k\" } }\n");
}

UNIT(a_label_of_an_override_is_given_once)
{
    cleanup(compiled_free) struct compiled c = compile_texts(
        (const char *const[]){BASE, "rules 1\npack mine\n"
                                    "override counter b.two { label kind = \"1\"  label kind = \"2\" }\n"},
        2);
    ck_assert_ptr_null(c.set);
    ck_assert_str_eq(first_found(&c)->code, "E120");
}

UNIT(where_of_a_metric_with_several_sources_cannot_be_replaced)
{
    cleanup(compiled_free) struct compiled c = compile_texts(
        (const char *const[]){BASE, "rules 1\npack mine\noverride counter b.two { where leaf is jvm }\n"}, 2);
    ck_assert_ptr_null(c.set);
    ck_assert_str_eq(first_found(&c)->code, "E132");
}

UNIT(what_an_override_makes_of_a_metric_is_checked)
{
    cleanup(compiled_free) struct compiled c = compile_texts(
        (const char *const[]){BASE, "rules 1\npack mine\noverride counter b.time { unit \"By\" }\n"}, 2);
    ck_assert_ptr_null(c.set);
    ck_assert_str_eq(first_found(&c)->code, "E122");
}

/* ---- extend ---- */

UNIT(rows_of_an_extension_stand_above)
{
    PASSES(BASE,
           "rules 1\npack mine\nframe ours = \"readline\" | \"dmesg\"\n"
           "extend table base.area { ours => \"ours\", \"o\"  \"write*\" when linked => \"io\", \"w\" }\n"
           "test \"t\" { stack go \"readline\"  expect b.area { name = \"ours\", sort = \"o\" }\n"
           "    stack go \"reads\"   expect b.area 10ms { name = \"io\", sort = \"r\" }\n"
           "    stack go \"writes\"  linked  expect b.area 10ms { name = \"io\", sort = \"w\" }\n"
           "    stack go \"writes\"  expect b.area 10ms { name = \"other\" } }\n");
}

UNIT(rows_of_the_later_file_stand_above_those_of_the_earlier)
{
    PASSES(BASE,
           "rules 1\npack one\nextend table base.area { \"x*\" => \"one\", - }\n"
           "extend table base.area { \"x*\" => \"one again\", -  \"y*\" => \"one y\", - }\n",
           "rules 1\npack two\nextend table base.area { \"x2*\" => \"two\", - }\n"
           "test \"t\" { stack go \"x1\" expect b.area 10ms { name = \"one\" }\n"
           "    stack go \"x2\" expect b.area 10ms { name = \"two\" }\n"
           "    stack go \"y\" expect b.area 10ms { name = \"one y\" } }\n");
}

UNIT(an_extended_table_has_a_bound)
{
    char *text = calloc(1, 64 * 1200), *at = text;
    at += sprintf(at, "rules 1\npack mine\nextend table base.area {\n");
    for (int i = 0; i < (int)RULES_ROWS_MAX - 2; i++)
        at += sprintf(at, "\"f%d\" => \"x\", -\n", i);
    char *end = at;
    strcpy(end, "}\n");
    struct compiled c = compile_texts((const char *const[]){BASE, text}, 2);
    ck_assert_ptr_nonnull(c.set);
    compiled_free(&c);
    strcpy(end, "\"one\" => \"more\", -\n}\n");
    c = compile_texts((const char *const[]){BASE, text}, 2);
    ck_assert_ptr_null(c.set);
    ck_assert_str_eq(first_found(&c)->code, "E127");
    compiled_free(&c);
    free(text);
}

/* ---- what aggregate is told ---- */

UNIT(largest_and_last_are_said_to_whom_they_concern)
{
    cleanup(compiled_free) struct compiled c =
        compile_good("counter x.time { on cpu  limit 3 largest }\n"
                     "gauge x.size { on alloc  combine last }\ncounter x.other { on cpu  limit 4 }");
    ck_assert(metric_named(c.set, "x.time")->largest);
    ck_assert_uint_eq(metric_named(c.set, "x.time")->limit, 3);
    ck_assert(!metric_named(c.set, "x.other")->largest);
    ck_assert_int_eq(metric_named(c.set, "x.size")->combine, RULE_COMBINE_LAST);
}
