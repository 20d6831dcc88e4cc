/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/admin/admin.h"
#include "gateway/aggregate/store.h"
#include "gateway/kafka/consumer.h"
#include "gateway/run/gateway.h"
#include "gateway/run/metrics_page.h"
#include "gateway/run/parts.h"
#include "gateway/serve/lanes/lanes.h"
#include "gateway/stats/exposition.h"
#include "proto/base/macros.h"

/* The numbers that no thread counts: the gateway knows them when it is asked. Prometheus text 0.0.4. */

static void write_lanes(const struct gateway *g, struct exposition *x)
{
    exposition_number(x, "profgate_lanes", "gauge", "Threads for large requests that were made so far",
                      lanes_n(g->lanes));
    exposition_number(x, "profgate_lane_waiting", "gauge", "Large requests that wait for such a thread",
                      lanes_waiting(g->lanes));
    exposition_number(x, "profgate_lane_requests_total", "counter",
                      "Large requests that such a thread took up", lanes_taken(g->lanes));
}

struct bound_address gateway_bound_address(const char *configured, uint16_t port)
{
    struct bound_address a = {.before_port = bytes_str(configured)};
    if (port == 0) /* a unix socket */
        return a;
    a.before_port.n -= bytes_after_last(a.before_port, ':').n;
    snprintf(a.port, sizeof a.port, "%u", port);
    return a;
}

static void write_address(struct exposition *x, const char *configured, uint16_t port)
{
    struct bound_address a = gateway_bound_address(configured, port);
    if (x->r == 0)
        x->r = exposition_escape(x->out, a.before_port, true);
    exposition_print(x, "%s", a.port);
}

/* A certificate's place in the family; without one that has an end there is none. */
static bool begin_expiry(struct exposition *x, bool *any, int64_t at)
{
    static const char name[] = "profgate_tls_certificate_expiry_seconds";
    if (at == INT64_MAX)
        return false;
    if (!*any)
        exposition_family(x, name, "gauge",
                          "When the certificate of an address, or the one that is shown to a destination or "
                          "brokers, ends, in seconds since 1970");
    *any = true;
    exposition_print(x, "%s{", name);
    return true;
}

/* The admin address is the last. */
static void write_address_expiry(struct gateway *g, struct exposition *x, bool *any)
{
    const uint32_t admin = g->receivers.n;
    for (uint32_t i = 0; i <= admin; i++) {
        int64_t at =
            i == admin ? certificates_expiry(&g->door.certificates, 0) : listen_tls_expiry(g->listen, i);
        if (!begin_expiry(x, any, at))
            continue;
        exposition_print(x, "address=\"");
        if (i == admin)
            write_address(x, g->options->config->admin_endpoint, admin_port(g->admin));
        else
            write_address(x, g->receivers.addresses[i].address, listen_port(g->listen, i));
        exposition_print(x, "\"} %lld\n", (long long)at);
    }
}

static void write_destination_expiry(struct exposition *x, const char *name, const char *signal, int64_t at)
{
    exposition_print(x, "destination=\"");
    if (x->r == 0)
        x->r = exposition_escape(x->out, bytes_str(name), true);
    exposition_print(x, "\",signal=\"%s\"} %lld\n", signal, (long long)at);
}

static void write_expiry(struct gateway *g, struct exposition *x)
{
    bool any = false;
    int64_t at;
    const char *name, *signal;
    if (g->listen)
        write_address_expiry(g, x, &any);
    for (uint32_t i = 0; outputs_tls_expiry(g->outputs, i, &at, &name, &signal); i++)
        if (begin_expiry(x, &any, at))
            write_destination_expiry(x, name, signal, at);
    if (g->consumer && begin_expiry(x, &any, consumer_tls_expiry(g->consumer)))
        exposition_print(x, "receiver=\"kafka\"} %lld\n", (long long)consumer_tls_expiry(g->consumer));
}

static void write_reload(const struct gateway *g, struct exposition *x)
{
    exposition_number(x, "profgate_config_last_reload_successful", "gauge",
                      "Whether the last attempt to read the configuration anew was successful",
                      g->reload.is_good);
    exposition_number(x, "profgate_config_last_reload_success_timestamp_seconds", "gauge",
                      "When the configuration in force was read, in seconds since 1970",
                      (uint64_t)g->reload.good_at);
}

static void write_age(const struct gateway *g, struct exposition *x)
{
    static const char name[] = "profgate_counts_age_seconds";
    exposition_family(
        x, name, "gauge",
        "Age of the counts of profiles at /metrics: one that is not near 0 says that a thread is "
        "busy with something long");
    exposition_print(x, "%s %.3f\n", name, gateway_age(g));
}

int gateway_show(void *context, struct buffer *out)
{
    struct gateway *g = context;
    struct exposition x = {.out = out};
    write_reload(g, &x);
    if (x.r == 0)
        x.r = control_triggers_prometheus(g->triggers, out);
    if (x.r == 0)
        x.r = board_prometheus(g->board, out);
    if (g->lanes)
        write_lanes(g, &x);
    if (x.r == 0 && g->scraping.scraper)
        x.r = scraper_show(g->scraping.scraper, out);
    if (x.r == 0 && g->consumer)
        x.r = consumer_show(g->consumer, out);
    write_age(g, &x);
    write_expiry(g, &x);
    return x.r;
}

/* ---- GET /metrics and /api/v1/metrics ---- */

struct page {
    struct gateway *gateway;
    struct metrics_page *page;
    bool is_taken;
};

static int open_page(void *context, const struct admin_metrics *wanted, void **ret_page)
{
    struct gateway *g = context;
    struct page *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->gateway = g;
    int r = metrics_page_new(&p->page, g->outputs, g->counting, wanted);
    if (r == 0)
        *ret_page = p;
    else
        free(p);
    return r;
}

struct page_receipt {
    struct admin_receipt base;
    struct gateway *gateway;
    struct output_receipt *counted;
    struct merger_job job;
};

static void is_told(void *arg)
{
    const struct page_receipt *r = arg;
    outputs_told(r->gateway->outputs, r->counted);
}

static void forget_receipt(void *arg)
{
    struct page_receipt *r = arg;
    output_receipt_free(r->counted);
    free(r);
}

static void settle(struct admin_receipt *receipt, bool was_read)
{
    struct page_receipt *r = container_of(receipt, struct page_receipt, base);
    if (was_read) {
        r->job = (struct merger_job){.work = is_told, .done = forget_receipt, .arg = r};
        merger_post(r->gateway->merger, &r->job);
    } else {
        forget_receipt(r);
    }
}

static struct admin_receipt *receipt_of(void *page)
{
    struct page *p = page;
    struct output_receipt *counted = metrics_page_receipt(p->page);
    struct page_receipt *r = counted ? calloc(1, sizeof *r) : NULL;
    if (!r) { /* without memory as if it were never read */
        output_receipt_free(counted);
        return NULL;
    }
    *r = (struct page_receipt){.base = {.fn = settle}, .gateway = p->gateway, .counted = counted};
    return &r->base;
}

static int next_piece(void *page, struct buffer *out)
{
    struct page *p = page;
    int r = 0;
    if (!p->is_taken) {
        merger_hold(p->gateway->merger);
        r = metrics_page_take(p->page);
        merger_release(p->gateway->merger);
        p->is_taken = true;
    }
    if (r == 0)
        r = metrics_page_next(p->page, out);
    return r == METRICS_PAGE_ENDS ? SCRAPE_ENDS : r;
}

static void close_page(void *page)
{
    struct page *p = page;
    metrics_page_free(p->page);
    free(p);
}

struct scrapes *gateway_scrapes(struct gateway *g)
{
    const struct scrape_source source = {
        .freshen = gateway_freshen,
        .forget = gateway_forget,
        .open = open_page,
        .next = next_piece,
        .close = close_page,
        .receipt = receipt_of,
        .context = g,
        .budget = &g->budget,
    };
    return scrapes_new(g->loop, &source);
}
