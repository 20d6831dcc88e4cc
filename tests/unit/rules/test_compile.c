/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules/program */
/* Packs together: imports, parameters, switches, what later files change. */
#include "rules/program/program.h"
#include "tests/unit/rules/rules_helper.h"

static void print_found(const struct compiled *c)
{
    for (uint32_t i = 0; i < c->found.n && !c->set; i++)
        fputs(c->found.items[i].text, stderr);
}

UNIT(the_shipped_packs_compile_without_a_word)
{
    cleanup(compiled_free) struct compiled c = compile_texts(NULL, 0);
    print_found(&c);
    ck_assert_ptr_nonnull(c.set);
    ck_assert_uint_eq(c.found.n, 0);
    const struct rule_metric *m = metric_named(c.set, "samples.classification");
    ck_assert(m->gauge && m->off && !m->enabled);
    ck_assert_uint_eq(m->n_sources, 2);
    ck_assert_int_eq(m->combine, RULE_COMBINE_MEAN);
    ck_assert(m->sources[1].on_kind && m->sources[1].kind == RULE_KIND_ANY);
    ck_assert_int_eq(m->sources[1].value, RULE_VALUE_ONE);
    m = metric_named(c.set, "samples.kernel.count");
    ck_assert_uint_eq(m->sources[0].n_labels, 4);
    ck_assert_bytes(m->sources[0].labels[0].name, "syscall_name");
    ck_assert_bytes(m->sources[0].labels[0].text->name, "syscall_name");
    ck_assert_bytes(m->sources[0].labels[3].name, "kernel_io");
    m = metric_named(c.set, "profile.cpu.time");
    ck_assert_bytes(m->describe, "CPU time");
    ck_assert_int_eq(m->sources[0].kind, RULE_KIND_CPU);
}

UNIT(names_of_another_pack_are_seen_through_use)
{
    struct compiled c = compile_good("counter x.m { on cpu }");
    compiled_free(&c);
    static const char with[] =
        "rules 1 pack y use names (symbol, managed) "
        "counter y.m { on cpu where any frame is managed label p = symbol.package of leaf }";
    static const char without[] = "rules 1 pack y counter y.m { on cpu where any frame is managed }";
    c = compile_texts((const char *const[]){with}, 1);
    ck_assert_ptr_nonnull(c.set);
    compiled_free(&c);
    c = compile_texts((const char *const[]){without}, 1);
    ck_assert_ptr_null(c.set);
    ck_assert_str_eq(first_found(&c)->code, "E103");
    compiled_free(&c);
}

static const char params[] = "rules 1 pack p param pattern own = none param text who = \"a\" "
                             "counter p.m { on cpu where any frame is (function ~ own) label w = who }";

static const struct rule_source *source_of(const struct compiled *c)
{
    print_found(c);
    ck_assert_ptr_nonnull(c->set);
    return &metric_named(c->set, "p.m")->sources[0];
}

UNIT(a_parameter_keeps_its_value_until_set)
{
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){params}, 1);
    ck_assert_uint_eq(source_of(&c)->where->frame->pattern->n_atoms, 0);
    ck_assert_bytes(source_of(&c)->labels[0].text->choices[0].parts[0].literal, "a");
}

UNIT(the_later_file_wins)
{
    static const char first[] = "rules 1 pack q set p.own = \"x*\" | /y/ set p.who = \"b\"";
    static const char second[] = "rules 1 pack r pattern mine = \"z\" | \"zz\" | \"zzz\" set p.own = mine "
                                 "set p.who = resource[\"who\"] ?? \"c\"";
    struct compiled c = compile_texts((const char *const[]){params, first}, 2);
    ck_assert_uint_eq(source_of(&c)->where->frame->pattern->n_atoms, 2);
    ck_assert_bytes(source_of(&c)->labels[0].text->choices[0].parts[0].literal, "b");
    compiled_free(&c);
    c = compile_texts((const char *const[]){params, first, second}, 3);
    ck_assert_uint_eq(source_of(&c)->where->frame->pattern->n_atoms, 3);
    ck_assert_uint_eq(source_of(&c)->labels[0].text->n_choices, 2);
    compiled_free(&c);
}

UNIT(a_wrong_value_behind_a_set_is_still_found)
{
    static const char wrong[] = "rules 1 pack p param pattern own = missing counter p.m { on cpu }";
    static const char set[] = "rules 1 pack q set p.own = \"x*\"";
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){wrong, set}, 2);
    ck_assert_ptr_null(c.set);
    ck_assert_str_eq(first_found(&c)->code, "E103");
}

UNIT(enable_and_disable)
{
    static const char off[] =
        "rules 1 pack q disable connector enable samples.frame_type disable profile.cpu.time";
    static const char on[] = "rules 1 pack r enable profile.cpu.time enable samples.classification";
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){off, on}, 2);
    ck_assert_ptr_nonnull(c.set);
    ck_assert(!metric_named(c.set, "samples.user.count")->enabled);
    ck_assert(metric_named(c.set, "samples.frame_type")->enabled);
    ck_assert(metric_named(c.set, "samples.frame_type")->off);
    ck_assert(metric_named(c.set, "samples.classification")->enabled);
    ck_assert(metric_named(c.set, "profile.cpu.time")->enabled);
}

UNIT(a_set_in_a_test_is_that_tests_own)
{
    static const char text[] = "rules 1 pack t param pattern own = none "
                               "counter t.m { on cpu where any frame is (function ~ own) } "
                               "test \"without\" { stack go \"f\" expect nothing } "
                               "test \"with\" { set t.own = \"f\" stack go \"f\" expect t.m }";
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){text}, 1);
    print_found(&c);
    ck_assert_ptr_nonnull(c.set);
    const struct rule_test *without = &c.set->tests[c.set->n_tests - 2], *with = without + 1;
    ck_assert_bytes(with->name, "with");
    ck_assert_ptr_ne(with->set, without->set);
    ck_assert_uint_eq(with->set->n_metrics, 1);
    ck_assert_uint_eq(with->set->metrics[0].sources[0].where->frame->pattern->n_atoms, 1);
    ck_assert_uint_eq(without->set->metrics[0].sources[0].where->frame->pattern->n_atoms, 0);
    ck_assert_uint_eq(metric_named(c.set, "t.m")->sources[0].where->frame->pattern->n_atoms, 0);
}

UNIT(switches_do_not_reach_tests)
{
    static const char text[] = "rules 1 pack t counter t.m { on cpu } disable t.m "
                               "test \"counts\" { stack go \"f\" expect t.m }";
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){text}, 1);
    ck_assert_ptr_nonnull(c.set);
    ck_assert(!metric_named(c.set, "t.m")->enabled);
    ck_assert(c.set->tests[c.set->n_tests - 1].set->metrics[0].enabled);
}

UNIT(a_set_without_its_tests_holds_less_and_counts_the_same)
{
    cleanup(compiled_free) struct compiled c = compile_texts(NULL, 0);
    struct error e = {""};
    ck_assert_ptr_nonnull(c.set);
    ck_assert_uint_gt(c.set->n_tests, 0);
    ck_assert_ptr_nonnull(c.set->test_arena.blocks);
    rules_set_forget_tests(c.set);
    ck_assert_uint_eq(c.set->n_tests, 0);
    ck_assert_ptr_null(c.set->test_arena.blocks);
    struct rules_program *p = rules_program_new(c.set, &e);
    ck_assert_msg(p != NULL, "%s", e.text);
    rules_program_free(p);
}

UNIT(tests_of_a_proven_file_are_stepped_over)
{
    static const char text[] =
        "rules 1\npack p\ncounter p.m { on cpu label l = type of leaf }\n"
        "test \"a } and a {\" { resource[\"a\"] = \"{\" stack go \"f\" expect p.m { l = \"go\" } }\n"
        "test \"b\" { stack go \"f\" expect p.m { l = \"go\" } }\ncounter p.n { on cpu }\n";
    for (int proven = 0; proven < 2; proven++) {
        struct rules_input inputs[100] = {{.name = "p.rules", .text = BYTES_LIT(text), .proven = proven}};
        uint32_t n = 1;
        for (const struct embedded_file *f = rules_builtin; f->name; f++)
            inputs[n++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true, proven};
        struct rules_diagnostics found;
        struct rule_set *set = unit_made(rules_compile(inputs, n, &found));
        ck_assert_uint_eq(found.n_errors, 0);
        ck_assert_uint_eq(found.n, !proven); /* no test expects p.n */
        ck_assert_ptr_nonnull(metric_named(set, "p.m"));
        ck_assert_ptr_nonnull(metric_named(set, "p.n"));
        ck_assert_int_eq(set->n_tests > 2, !proven);
        ck_assert_int_eq(set->n_tests == 0 && !set->test_arena.blocks, proven);
        rules_diagnostics_release(&found);
        rules_set_free(set);
    }
}

UNIT(one_wrong_file_gives_no_set)
{
    static const char good[] = "rules 1 pack g counter g.m { on cpu }", bad[] = "rules 1 pack b frame x = y";
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){good, bad}, 2);
    ck_assert_ptr_null(c.set);
    ck_assert_uint_eq(c.found.n_errors, 1);
}

UNIT(definitions_in_a_long_row_and_shared_many_times_stay_cheap)
{
    /* Each definition names the one before twice: a tree would have 2^30 nodes. */
    char text[4096], *p = text;
    p += sprintf(p, "frame f0 = go\n");
    for (int i = 1; i < 31; i++)
        p += sprintf(p, "frame f%d = f%d or f%d\n", i, i - 1, i - 1);
    sprintf(p, "counter x.m { on cpu where leaf is f30 }");
    struct compiled c = compile_good(text);
    compiled_free(&c);
}
