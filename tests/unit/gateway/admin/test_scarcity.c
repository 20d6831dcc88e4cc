/* SPDX-License-Identifier: Apache-2.0 */
/* The admin pages while memory fails: each question has one answer, whole or an error of ours, and the next
 * question is answered as ever. */
#include <errno.h>

#include "gateway/admin/pages.h"
#include "gateway/admin/ready.h"
#include "tests/lib/sweep.h"

static uint32_t status, n_replies;
static size_t n_body;

int http_reply(struct http_exchange *x, const struct http_reply *reply)
{
    status = reply->status;
    n_body = reply->body.n;
    n_replies++;
    return 0;
}

/* Some 30 kB, so that an answer has to grow on its way. */
static void show_much(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    for (int i = 0; i < 1000; i++)
        if (buffer_printf(a->text, "metric_%04d{label=\"value\"} %d\n", i, i) < 0) {
            admin_say(a, 500, "out of memory\n");
            return;
        }
}

static bool is_ready(void *context, struct error *why)
{
    return true;
}

static struct admin_check checks[1] = {{"listener", is_ready, NULL}};
static struct admin_ready ready = {checks, 1};

static const char *const more[] = {"profgate.example"};
static const struct pages_names names = {"gate.internal:9464", more, 1};

static struct pages *make_pages(void)
{
    const struct admin_page rows[] = {
        {"GET", "/much", "much", show_much}, admin_health_page(), admin_ready_page(&ready)};
    return pages_new(rows, 3, &names, &(struct pages_guard){0});
}

/* As the session does it. */
static void ask(struct pages *p, const char *path, const char *accept)
{
    struct http_header header = {BYTES_LIT("accept"), bytes_str(accept)};
    struct http_exchange x = {
        .method = BYTES_LIT("GET"), .path = bytes_str(path), .headers = &header, .n_headers = 1};
    n_replies = 0;
    pages_handler()->on_head(p, &x);
    ck_assert_uint_eq(n_replies, 1);
}

OOM_SWEEP(each_question_has_one_answer)
{
    static const struct {
        const char *path, *accept;
    } questions[] = {{"/much", ""},
                     {"/readyz", "application/json"},
                     {"/healthz", ""},
                     {"/readyz", ""},
                     {"/api/v1/stats", ""},
                     {"/much", ""},
                     {"/", ""},
                     {"/nothing", ""}};
    static uint32_t usual_status[8];
    static size_t usual_body[8];
    sweep_pause();
    struct pages *calm = unit_made(make_pages());
    for (size_t i = 0; i < 8; i++) {
        ask(calm, questions[i].path, questions[i].accept);
        usual_status[i] = status;
        usual_body[i] = n_body;
    }
    pages_free(calm);
    sweep_resume();
    struct pages *p = make_pages();
    ck_assert(p || sweep_failures() > 0);
    for (size_t i = 0; i < 8 && p; i++) {
        uint32_t before = sweep_failures();
        ask(p, questions[i].path, questions[i].accept);
        bool usual = status == usual_status[i] && n_body == usual_body[i];
        ck_assert_msg(usual || (sweep_failures() > before && status >= 500), "%s: %u with %zu bytes",
                      questions[i].path, status, n_body);
    }
    pages_free(p);
}
