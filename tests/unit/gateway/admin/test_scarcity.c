/* SPDX-License-Identifier: Apache-2.0 */
/* The admin pages while memory fails: each question has one answer, whole or an error of ours, and the next
 * question is answered as ever. */
#include <errno.h>

#include "gateway/admin/pages.h"
#include "gateway/admin/ready.h"
#include "gateway/admin/scrape.h"
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
static int metrics(void *context, const struct admin_metrics *wanted, struct buffer *out)
{
    for (int i = 0; i < 1000; i++) {
        int r = buffer_printf(out, "metric_%04d{label=\"value\"} %d\n", i, i);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_ready(void *context, struct error *why)
{
    return true;
}

static struct admin_check checks[1] = {{"listener", is_ready, NULL}};
static struct admin_scrape scrape = {metrics, NULL};
static struct admin_ready ready = {checks, 1};

static struct pages *make_pages(void)
{
    const struct admin_page rows[] = {admin_scrape_page(&scrape), admin_health_page(),
                                      admin_ready_page(&ready)};
    return pages_new(rows, 3);
}

/* As the session does it. */
static void ask(struct pages *p, const char *path, const char *encoding)
{
    struct http_header header = {BYTES_LIT("accept-encoding"), bytes_str(encoding)};
    struct http_exchange x = {
        .method = BYTES_LIT("GET"), .path = bytes_str(path), .headers = &header, .n_headers = 1};
    n_replies = 0;
    pages_handler()->on_head(p, &x);
    pages_handler()->on_close(p, &x);
    ck_assert_uint_eq(n_replies, 1);
}

OOM_SWEEP(each_question_has_one_answer)
{
    static const struct {
        const char *path, *encoding;
    } questions[] = {{"/metrics", "identity"}, {"/metrics", "gzip"}, {"/healthz", ""}, {"/readyz", ""},
                     {"/api/v1/stats", ""},    {"/metrics", "gzip"}, {"/", ""},        {"/nothing", ""}};
    static uint32_t usual_status[8];
    static size_t usual_body[8];
    sweep_pause();
    struct pages *calm = unit_made(make_pages());
    for (size_t i = 0; i < 8; i++) {
        ask(calm, questions[i].path, questions[i].encoding);
        usual_status[i] = status;
        usual_body[i] = n_body;
    }
    pages_free(calm);
    sweep_resume();
    struct pages *p = make_pages();
    ck_assert(p || sweep_failures() > 0);
    for (size_t i = 0; i < 8 && p; i++) {
        uint32_t before = sweep_failures();
        ask(p, questions[i].path, questions[i].encoding);
        bool usual = status == usual_status[i] &&
                     (n_body == usual_body[i] || strcmp(questions[i].encoding, "gzip") == 0);
        ck_assert_msg(usual || (sweep_failures() > before && status >= 500), "%s: %u with %zu bytes",
                      questions[i].path, status, n_body);
        if (status == 200 && strcmp(questions[i].encoding, "gzip") == 0)
            ck_assert(n_body == usual_body[i] || sweep_failures() > before); /* plain, for want of memory */
    }
    pages_free(p);
}
