/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/scraping.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert(sizeof(struct scrape_label) == sizeof(struct settings_pair) &&
                   offsetof(struct scrape_label, value) == offsetof(struct settings_pair, value),
               "labels are read where the configuration has them");

static struct scrape_job job_of(const struct config_scrape *c)
{
    return (struct scrape_job){
        .name = c->job_name ? c->job_name : "",
        .targets = c->targets.items,
        .n_targets = c->targets.n,
        .tls = c->scheme == CONFIG_HTTPS,
        .ca_file = c->tls_ca_file,
        .cert_file = c->tls_cert_file,
        .key_file = c->tls_key_file,
        .server_name = c->tls_server_name,
        .insecure_skip_verify = c->tls_skip_verify,
        .path_prefix = c->path_prefix ? c->path_prefix : "",
        .profiles = c->profiles.items,
        .n_profiles = c->profiles.n,
        .seconds = c->seconds,
        .interval_ns = c->interval_ns,
        .timeout_ns = c->timeout_ns,
        .body_max = c->body_max,
        .username = c->username,
        .secret_file = c->username ? c->password_file : c->credentials_file,
        .tenant = c->tenant,
        .labels = (const struct scrape_label *)c->labels.items,
        .n_labels = c->labels.n,
    };
}

int scraping_init(struct scraping *s, const struct config *c, const struct from_pprof_links *links,
                  const struct scraper_means *means, struct error *e)
{
    uint64_t n = 0;
    *s = (struct scraping){.of = c};
    if (c->n_scrapes == 0)
        return 0;
    s->jobs = calloc(c->n_scrapes, sizeof *s->jobs);
    if (!s->jobs)
        return error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < c->n_scrapes; i++) {
        s->jobs[i] = job_of(&c->scrapes[i]);
        n += (uint64_t)s->jobs[i].n_targets * s->jobs[i].n_profiles;
    }
    if (n > SCRAPE_MAX)
        return error_set(e, -EINVAL, "receivers.pprof_scrape: at most %u profiles of targets", SCRAPE_MAX);
    const struct scraper_options options = {s->jobs, c->n_scrapes, *means, links, c->request_bytes};
    return scraper_new(&s->scraper, &options, e);
}

void scraping_release(struct scraping *s)
{
    s->scraper = scraper_free(s->scraper);
    free(s->jobs);
    config_free(s->kept);
    *s = (struct scraping){0};
}

void scraping_replace(struct scraping *s, struct scraping *next)
{
    if (s->scraper)
        scraper_stop(s->scraper);
    if (s->scraper && next->scraper)
        scraper_inherit(next->scraper, s->scraper);
    scraping_release(s);
    *s = *next;
    *next = (struct scraping){0};
}
