/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is scraped: a job of targets that are all asked the same, as Prometheus calls it.
 */
#ifndef GATEWAY_SCRAPE_OPTIONS_H
#define GATEWAY_SCRAPE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct scrape_label {
    const char *name, *value;
};

struct scrape_job {
    const char *name;           /* the resources' service.name, unless a label says another one */
    const char *const *targets; /* host:port */
    uint32_t n_targets;
    bool tls; /* https */
    const char *ca_file, *cert_file, *key_file, *server_name;
    bool insecure_skip_verify;
    const char *path_prefix;     /* "/debug/pprof" */
    const char *const *profiles; /* a name behind that, or a path with a query of its own: "/x?y=z" */
    uint32_t n_profiles;
    uint32_t seconds; /* of what takes time: the parameter of `profile` */
    uint64_t interval_ns, timeout_ns;
    uint64_t body_max;                 /* bytes of an answer */
    const char *username;              /* of basic authentication; NULL: none */
    const char *secret_file;           /* the password, or without a username a bearer token; NULL: neither */
    const char *tenant;                /* whose limits count; NULL: those of requests without one */
    const struct scrape_label *labels; /* attributes of the resources */
    uint32_t n_labels;
};

/* Profiles of targets, all jobs taken together: each is a connection now and then. */
#define SCRAPE_MAX 4096u

#endif
