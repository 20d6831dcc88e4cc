/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules rules/program */
/* /api/v1/metrics: the document, whole and in pieces of every size. */
#include "gateway/run/metrics_json.h"

#include <stdlib.h>
#include <string.h>

#include "rules/program/program.h"
#include "tests/unit/rules/rules_helper.h"

static const char rules[] =
    "counter x.a { describe \"All \\\"a\\\"\"  on cpu  label f = function of leaf  label g = \"1\" }\n"
    "also counter x.a { on wall  label f = function of leaf  label h = \"2\" }\n"
    "gauge x.b { on \"inuse_space/bytes\"  unit \"By\"  value sum }\n"
    "counter x.off { off  on cpu }\n";

#define S(value)                                      \
    {                                                 \
        .kind = ATTR_STRING, .text = BYTES_LIT(value) \
    }

static const struct attr service[] = {{BYTES_LIT("n"), {.kind = ATTR_INT, .integer = -3}},
                                      {BYTES_LIT("service.name"), S("a\"b\xff")}};
static const struct attr label[] = {{BYTES_LIT("f"), S("main")}};
static struct metric_point points[] = {{.attrs = label, .n_attrs = 1, .is_double = true, .real = 1.25},
                                       {.attrs = label, .n_attrs = 1, .stale = true},
                                       {.is_double = true, .real = 2}};
static struct metric_point held[] = {{.integer = 9007199254740993}};
static struct metric metrics[] = {{.name = BYTES_LIT("x.gone"), .points = held, .n_points = 1},
                                  {.name = BYTES_LIT("x.a"), .points = points, .n_points = 3},
                                  {.name = BYTES_LIT("x.b"), .points = held, .n_points = 1}};
static struct metric_resource resources[] = {
    {.attrs = service, .n_attrs = 2, .metrics = metrics, .n_metrics = 3},
    {.metrics = metrics, .n_metrics = 1},
    {.metrics = metrics + 2, .n_metrics = 1}};
static const struct metric_batch batch = {.resources = resources, .n_resources = 3};

#define HEAD                                                                                                 \
    "{\"samples\":0,\"metrics\":["                                                                           \
    "{\"name\":\"x.a\",\"pack\":\"x\",\"describe\":\"All \\\"a\\\"\",\"unit\":\"s\",\"on\":\"cpu\","         \
    "\"kind\":\"counter\",\"labels\":[\"f\",\"g\",\"h\"]},"                                                  \
    "{\"name\":\"x.b\",\"pack\":\"x\",\"describe\":\"\",\"unit\":\"By\",\"kind\":\"gauge\",\"labels\":[]}]," \
    "\"resources\":["

static char *document(const struct rules_program *program, const struct metric_batch *b, const char *pack,
                      size_t enough)
{
    struct metrics_json *p = unit_made(metrics_json_new(b, program, pack));
    struct buffer out = BUFFER_INIT(0);
    int r = p ? 0 : -1;
    while (r == 0)
        r = metrics_json_next(p, enough, &out);
    ck_assert_int_eq(r, METRICS_JSON_ENDS);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    metrics_json_free(p);
    size_t n;
    return (char *)buffer_take(&out, &n);
}

UNIT(the_document_in_pieces_of_any_size)
{
    cleanup(compiled_free) struct compiled c = compile_good(rules);
    struct error e = {0};
    struct rules_program *program = unit_made(rules_program_new(c.set, &e));
    for (size_t enough = 1; enough < 1000; enough += 7) {
        autofree char *text = document(program, &batch, "x", enough);
        ck_assert_str_eq(
            text, HEAD
            "{\"attributes\":{\"n\":-3,\"service.name\":\"a\\\"b\xef\xbf\xbd\"},\"series\":["
            "{\"metric\":0,\"labels\":{\"f\":\"main\"},\"value\":1.25},"
            "{\"metric\":0,\"labels\":{},\"value\":2},"
            "{\"metric\":1,\"labels\":{},\"value\":9007199254740993}]},"
            "{\"attributes\":{},\"series\":[{\"metric\":1,\"labels\":{},\"value\":9007199254740993}]}]}\n");
    }
    char *none = document(program, &(struct metric_batch){0}, "x", 1);
    ck_assert_str_eq(none, HEAD "]}\n");
    free(none);
    char *nobody = document(program, &batch, "nobody", 1);
    ck_assert_str_eq(nobody, "{\"samples\":0,\"metrics\":[],\"resources\":[]}\n");
    free(nobody);
    char *everything = document(program, &batch, "", 100);
    ck_assert_ptr_nonnull(strstr(everything, "\"pack\":\"tax\""));
    free(everything);
    rules_program_free(program);
}
