/* SPDX-License-Identifier: Apache-2.0 */
/* Each construct of the language, by what it becomes in the tree. */
#include "tests/unit/rules/rules_helper.h"

static const struct rule_sample *where_of(struct compiled *c, const char *where, const char *definitions)
{
    char *text = NULL;
    ck_assert_int_ge(asprintf(&text, "%s\ncounter x.m { on cpu where %s }", definitions, where), 0);
    *c = compile_good(text);
    free(text);
    return metric_named(c->set, "x.m")->sources[0].where;
}

static const struct rule_text *label_of(struct compiled *c, const char *label, const char *definitions)
{
    char *text = NULL;
    ck_assert_int_ge(asprintf(&text, "%s\ncounter x.m { on cpu limit 9 label l = %s }", definitions, label),
                     0);
    *c = compile_good(text);
    free(text);
    return metric_named(c->set, "x.m")->sources[0].labels[0].text;
}

UNIT(a_bare_pattern_is_about_the_function)
{
    cleanup(compiled_free) struct compiled c;
    const struct rule_sample *s = where_of(&c, "leaf is (\"a*\" | /b$x/i | none)", "");
    ck_assert_int_eq(s->op, RULE_SAMPLE_REF_IS);
    ck_assert_int_eq(s->ref.kind, RULE_REF_LEAF);
    ck_assert_int_eq(s->frame->op, RULE_FRAME_MATCH);
    ck_assert_int_eq(s->frame->field.field, RULE_FIELD_FUNCTION);
    ck_assert_uint_eq(s->frame->pattern->n_atoms, 2);
    ck_assert_int_eq(s->frame->pattern->atoms[0]->kind, RULE_GLOB);
    ck_assert_int_eq(s->frame->pattern->atoms[1]->kind, RULE_REGEX);
    ck_assert(s->frame->pattern->atoms[1]->nocase);
}

UNIT(frame_conditions)
{
    cleanup(compiled_free) struct compiled c;
    const struct rule_sample *s = where_of(
        &c, "any frame is (kernel and not \"a\" and library !~ \"b*\" and file != none and inlined)", "");
    const struct rule_frame *f = s->frame;
    ck_assert_int_eq(s->op, RULE_SAMPLE_ANY);
    ck_assert_ptr_null(s->region);
    ck_assert_int_eq(f->op, RULE_FRAME_AND);
    ck_assert_uint_eq(f->n_kids, 5);
    ck_assert_int_eq(f->kids[0]->op, RULE_FRAME_EQUAL);
    ck_assert_int_eq(f->kids[0]->field.field, RULE_FIELD_TYPE);
    ck_assert_bytes(f->kids[0]->literal, "kernel");
    ck_assert_int_eq(f->kids[1]->op, RULE_FRAME_NOT);
    ck_assert_int_eq(f->kids[1]->kids[0]->op, RULE_FRAME_MATCH);
    ck_assert_int_eq(f->kids[2]->op, RULE_FRAME_MATCH);
    ck_assert(f->kids[2]->negated);
    ck_assert_int_eq(f->kids[2]->field.field, RULE_FIELD_LIBRARY);
    ck_assert_int_eq(f->kids[3]->op, RULE_FRAME_EQUAL);
    ck_assert(f->kids[3]->negated && !f->kids[3]->literal.p);
    ck_assert_int_eq(f->kids[4]->op, RULE_FRAME_INLINED);
}

UNIT(an_empty_literal_is_not_none)
{
    cleanup(compiled_free) struct compiled c;
    const struct rule_sample *s = where_of(&c, "leaf is (function == \"\")", "");
    ck_assert_ptr_nonnull(s->frame->literal.p);
    ck_assert_uint_eq(s->frame->literal.n, 0);
}

UNIT(definitions_are_shared_nodes)
{
    cleanup(compiled_free) struct compiled c =
        compile_good("pattern p = \"a\" | \"b\"\nframe f = g or p\nframe g = go and p\nframe alias = g\n"
                     "counter x.m { on cpu where any frame is f and leaf is alias }\n"
                     "counter x.n { on cpu where root is p and any frame is p }");
    const struct rule_sample *s = metric_named(c.set, "x.m")->sources[0].where;
    const struct rule_frame *f = s->kids[0]->frame, *g = f->kids[0];
    ck_assert_bytes(f->name, "f");
    ck_assert_bytes(g->name, "g");
    ck_assert_ptr_eq(s->kids[1]->frame, g);
    ck_assert_ptr_eq(f->kids[1], g->kids[1]);
    s = metric_named(c.set, "x.n")->sources[0].where;
    ck_assert_ptr_eq(s->kids[0]->frame, s->kids[1]->frame);
    ck_assert_bytes(s->kids[0]->frame->pattern->name, "p");
}

UNIT(pattern_lists_are_flat_and_hold_each_atom_once)
{
    cleanup(compiled_free) struct compiled c =
        compile_good("pattern a = \"1\" | \"2\"\npattern b = a | \"3\" | a\npattern c = b | a | none\n"
                     "counter x.m { on cpu where leaf is c }");
    ck_assert_uint_eq(metric_named(c.set, "x.m")->sources[0].where->frame->pattern->n_atoms, 3);
}

UNIT(regions_and_references)
{
    cleanup(compiled_free) struct compiled c;
    const struct rule_sample *s = where_of(
        &c, "no frame in r is go and first (go or jvm) in r is \"a\" and last go is \"b\" and root is \"c\"",
        "region r = frames after go while (kernel or go) through \"end\"\nregion q = frames before go");
    const struct rule_region *r = s->kids[0]->region;
    ck_assert_int_eq(s->kids[0]->op, RULE_SAMPLE_NO);
    ck_assert_bytes(r->name, "r");
    ck_assert_ptr_nonnull(r->after);
    ck_assert_int_eq(r->while_->op, RULE_FRAME_OR);
    ck_assert_ptr_nonnull(r->until);
    ck_assert(r->through);
    ck_assert_int_eq(s->kids[1]->ref.kind, RULE_REF_FIRST);
    ck_assert_ptr_eq(s->kids[1]->ref.region, r);
    ck_assert_int_eq(s->kids[2]->ref.kind, RULE_REF_LAST);
    ck_assert_ptr_null(s->kids[2]->ref.region);
    ck_assert_int_eq(s->kids[3]->ref.kind, RULE_REF_ROOT);
}

UNIT(calls_chains)
{
    cleanup(compiled_free) struct compiled c;
    const struct rule_sample *s = where_of(&c, "go calls \"a*\" directly calls native", "");
    ck_assert_int_eq(s->op, RULE_SAMPLE_CALLS);
    ck_assert_uint_eq(s->n_chain, 3);
    ck_assert(!s->directly[0]);
    ck_assert(s->directly[1]);
}

UNIT(sample_logic_and_comparisons)
{
    cleanup(compiled_free) struct compiled c;
    const struct rule_sample *s = where_of(
        &c,
        "(not linked or every frame is go) and (attr[\"a\"] ?? \"b\") !~ \"c*\" and none != sample[\"x\"]",
        "");
    ck_assert_int_eq(s->op, RULE_SAMPLE_AND);
    ck_assert_int_eq(s->kids[0]->op, RULE_SAMPLE_OR);
    ck_assert_int_eq(s->kids[0]->kids[0]->op, RULE_SAMPLE_NOT);
    ck_assert_int_eq(s->kids[0]->kids[0]->kids[0]->op, RULE_SAMPLE_LINKED);
    ck_assert_int_eq(s->kids[0]->kids[1]->op, RULE_SAMPLE_EVERY);
    ck_assert_int_eq(s->kids[1]->op, RULE_SAMPLE_MATCH);
    ck_assert(s->kids[1]->negated);
    ck_assert_int_eq(s->kids[1]->text->choices[0].parts[0].kind, RULE_TEXT_GROUP);
    ck_assert_int_eq(s->kids[2]->op, RULE_SAMPLE_EQUAL);
    ck_assert(s->kids[2]->negated);
    ck_assert_int_eq(s->kids[2]->text->choices[0].parts[0].kind, RULE_TEXT_NONE);
    ck_assert_int_eq(s->kids[2]->text2->choices[0].parts[0].scope, RULE_SCOPE_SAMPLE);
}

UNIT(texts)
{
    cleanup(compiled_free) struct compiled c;
    const struct rule_text *t = label_of(
        &c,
        "profile.type + \"_\" + profile.unit when linked ?? capture /(a)/ from (resource[\"k\"] ?? named) ?? "
        "capture nothing from function of first go in r ?? whole.b.c ?? one.kind of last go ?? named",
        "text named = scope[\"s\"]\npattern nothing = none\nregion r = frames before go\n"
        "table whole (a, b.c) over r { go => \"1\", - }\ntable one (kind) { else => type }");
    ck_assert_uint_eq(t->n_choices, 6);
    ck_assert_uint_eq(t->choices[0].n_parts, 3);
    ck_assert_int_eq(t->choices[0].parts[0].kind, RULE_TEXT_PROFILE_TYPE);
    ck_assert_int_eq(t->choices[0].parts[2].kind, RULE_TEXT_PROFILE_UNIT);
    ck_assert_int_eq(t->choices[0].when->op, RULE_SAMPLE_LINKED);
    ck_assert_int_eq(t->choices[1].parts[0].kind, RULE_TEXT_CAPTURE);
    ck_assert_bytes(t->choices[1].parts[0].regex->text, "(a)");
    ck_assert_int_eq(t->choices[1].parts[0].from->kind, RULE_TEXT_GROUP);
    ck_assert_ptr_null(t->choices[2].parts[0].regex);
    ck_assert_int_eq(t->choices[2].parts[0].from->kind, RULE_TEXT_FIELD_OF);
    ck_assert_int_eq(t->choices[3].parts[0].kind, RULE_TEXT_COLUMN);
    ck_assert_uint_eq(t->choices[3].parts[0].column, 1);
    ck_assert_int_eq(t->choices[4].parts[0].field.field, RULE_FIELD_COLUMN);
    ck_assert_bytes(t->choices[4].parts[0].field.table->name, "one");
    ck_assert_int_eq(t->choices[5].parts[0].kind, RULE_TEXT_GROUP);
    ck_assert_ptr_eq(t->choices[5].parts[0].text,
                     t->choices[1].parts[0].from->text->choices[1].parts[0].text);
}

UNIT(tables)
{
    cleanup(compiled_free) struct compiled c = compile_good(
        "table t (a, b) over frames nearest leaf {\n go when linked => \"x\", -\n jvm => function, capture /(y)/ from file\n"
        " else => -, \"z\" }\ntable f (k) { go => function else => none }\ncounter x.m { on cpu label t.* }\n"
        "frame uses = f.k ~ \"q\"\ncounter x.n { on cpu where leaf is uses }");
    const struct rule_source *s = &metric_named(c.set, "x.m")->sources[0];
    ck_assert_uint_eq(s->n_labels, 2);
    ck_assert_bytes(s->labels[1].name, "b");
    const struct rule_text_part *part = &s->labels[1].text->choices[0].parts[0];
    ck_assert_int_eq(part->kind, RULE_TEXT_COLUMN);
    ck_assert_uint_eq(part->column, 1);
    const struct rule_table *t = part->table;
    ck_assert(t->over && t->nearest_leaf && !t->region);
    ck_assert_uint_eq(t->n_rows, 3);
    ck_assert_int_eq(t->rows[0].when->op, RULE_SAMPLE_LINKED);
    ck_assert_ptr_null(t->rows[0].cells[1]);
    ck_assert_int_eq(t->rows[1].cells[0]->choices[0].parts[0].kind, RULE_TEXT_FIELD);
    ck_assert_ptr_null(t->rows[2].frame);
    const struct rule_frame *f = metric_named(c.set, "x.n")->sources[0].where->frame;
    ck_assert_int_eq(f->field.field, RULE_FIELD_COLUMN);
    ck_assert(!f->field.table->over);
}

UNIT(metrics_and_their_defaults)
{
    cleanup(compiled_free) struct compiled c = compile_good(
        "counter x.time { on wall }\ngauge x.sum { on alloc off }\n"
        "counter x.each { on any each distinct frame in r is (go) label f = type of frame limit 7 }\n"
        "gauge x.mean { on \"a/b\" | /c/ describe \"d\" unit \"{thing}\" value samples combine mean }\n"
        "also gauge x.mean { where linked value events }\nregion r = frames before go");
    const struct rule_metric *m = metric_named(c.set, "x.time");
    ck_assert(!m->gauge && m->enabled && !m->off);
    ck_assert_bytes(m->unit, "s");
    ck_assert_bytes(m->pack, "x");
    ck_assert(m->sources[0].on_kind);
    ck_assert_int_eq(m->sources[0].kind, RULE_KIND_WALL);
    ck_assert_int_eq(m->sources[0].value, RULE_VALUE_TIME);
    m = metric_named(c.set, "x.sum");
    ck_assert(m->gauge && !m->enabled && m->off);
    ck_assert_bytes(m->unit, "By");
    ck_assert_int_eq(m->sources[0].value, RULE_VALUE_SUM);
    m = metric_named(c.set, "x.each");
    ck_assert(m->sources[0].each && m->sources[0].distinct && m->sources[0].each_frame &&
              m->sources[0].each_region);
    ck_assert_int_eq(m->sources[0].value, RULE_VALUE_ONE);
    ck_assert_int_eq(m->sources[0].labels[0].text->choices[0].parts[0].ref.kind, RULE_REF_FRAME);
    ck_assert_uint_eq(m->limit, 7);
    m = metric_named(c.set, "x.mean");
    ck_assert_bytes(m->describe, "d");
    ck_assert_int_eq(m->combine, RULE_COMBINE_MEAN);
    ck_assert_uint_eq(m->n_sources, 2);
    ck_assert_uint_eq(m->sources[0].on->n_atoms, 2);
    ck_assert_ptr_eq(m->sources[1].on, m->sources[0].on);
    ck_assert_int_eq(m->sources[1].value, RULE_VALUE_EVENTS);
    ck_assert_ptr_nonnull(m->sources[1].where);
}

UNIT(a_text_that_says_frame_is_known_in_a_rule_with_each)
{
    struct compiled c = compile_good("text t = function of frame\n"
                                     "counter x.m { on cpu each frame label f = t ?? \"x\" limit 3 }");
    compiled_free(&c);
}

UNIT(tests_as_written)
{
    cleanup(compiled_free) struct compiled c = compile_good(
        "counter x.m { on any value events label a = sample[\"k\"] }\n"
        "test \"one\" {\n type \"cpu/nanoseconds\" period 5ms linked\n resource[\"r\"] = \"v\"\n sample[\"k\"] = \"0\"\n"
        " stack inlined go \"f\" < go \"g\" in \"/m\" at \"x.go\" < type \"a b\" < untyped < cobol \"h\"\n events 3 value 12\n"
        " stack go \"y\"\n sample[\"k\"] = \"1\"\n"
        " expect x.m 3 { a = \"0\" }\n expect x.m 30ms\n expect nothing\n expect that leaf is go }");
    const struct rule_test *t = NULL;
    for (uint32_t i = 0; i < c.set->n_tests; i++) {
        if (bytes_is(c.set->tests[i].pack, "x"))
            t = &c.set->tests[i];
    }
    ck_assert_ptr_nonnull(t);
    ck_assert_bytes(t->name, "one");
    ck_assert_bytes(t->type, "cpu");
    ck_assert_bytes(t->unit, "nanoseconds");
    ck_assert_uint_eq(t->period_ns, 5000000);
    ck_assert_uint_eq(t->n_samples, 2);
    ck_assert(t->samples[0].linked && !t->samples[1].linked);
    ck_assert_uint_eq(t->samples[0].events, 3);
    ck_assert(t->samples[0].has_value && !t->samples[1].has_value);
    ck_assert_int_eq(t->samples[0].value, 12);
    const struct rule_test_frame *f = t->samples[0].frames;
    ck_assert_uint_eq(t->samples[0].n_frames, 5);
    ck_assert(f[0].inlined && f[0].has_function && !f[0].has_mapping && !f[1].inlined);
    ck_assert_bytes(f[1].mapping, "/m");
    ck_assert_bytes(f[1].file, "x.go");
    ck_assert_bytes(f[2].type, "a b");
    ck_assert(!f[2].has_function && f[3].untyped);
    ck_assert_bytes(f[4].type, "cobol");
    ck_assert_uint_eq(t->n_attrs, 3);
    ck_assert_int_eq(t->attrs[0].scope, RULE_SCOPE_RESOURCE);
    ck_assert_uint_eq(t->attrs[1].sample, 0);
    ck_assert_uint_eq(t->attrs[2].sample, 1);
    ck_assert_uint_eq(t->n_expects, 4);
    ck_assert(t->expects[0].has_amount && !t->expects[0].amount_is_time);
    ck_assert_bytes(t->expects[0].labels[0].name, "a");
    ck_assert_bytes(t->expects[0].label_values[0], "0");
    ck_assert(t->expects[1].amount_is_time);
    ck_assert_int_eq(t->expects[1].amount, 30000000);
    ck_assert_int_eq(t->expects[2].kind, RULE_EXPECT_NOTHING);
    ck_assert_int_eq(t->expects[3].kind, RULE_EXPECT_THAT);
    ck_assert_uint_eq(t->expects[3].sample, 1);
    ck_assert_uint_eq(t->set->n_metrics, 1);
}
