/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profsend's options are read into: the fields behind the rows (rows.c).
 */
#ifndef SENDER_OPTIONS_VALUES_H
#define SENDER_OPTIONS_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/log.h"
#include "proto/base/settings/settings.h"
#include "proto/client/client.h"
#include "sender/attach/sampler.h"
#include "sender/relabel/relabel.h"

/* Headers sent along: credentials and a tenant are two. */
#define OPTIONS_HEADERS_MAX 64u

/* Variables of other processes' environments that are said of them. */
#define OPTIONS_VARIABLES_MAX 16u

struct options {
    struct arena arena; /* owns the strings */
    bool help, version, manual, print, idle;
    int completion;     /* enum completion_shell */
    int addresses_only; /* native code is sent without names */
    enum log_level log_level;
    uint32_t frequency;       /* Hz */
    uint64_t interval_ns;     /* of reports */
    uint64_t duration_ns;     /* 0: until told to stop */
    uint32_t pid;             /* 0: all */
    bool command_line, owner; /* said of processes, too; as are these variables of their environments */
    struct settings_strings variables;
    const char *kubernetes;  /* who is asked for names of pods; NULL: nobody */
    struct relabel *relabel; /* rules over what is said of them; NULL: none */
    bool without_cpu, wait, wait_by_ticket, block, lock;
    uint64_t wait_min_ns, lock_min_ns;
    const char *trace_map; /* where OBI's map of traces is pinned; NULL: it is not asked */
    double wait_share;
    uint64_t alloc_interval; /* bytes */
    struct kinds kinds;      /* made of all that; its text is the arena's */
    struct settings_strings events, probes, allocs;
    struct filter_rule *rule; /* the arena's */
    uint32_t n_rules;
    const char *endpoint, *path;
    enum otlp_protocol protocol;
    enum client_compression compression;
    uint64_t timeout_ns;
    struct client_header header[OPTIONS_HEADERS_MAX];
    uint32_t n_headers;
    const char *config; /* the file it was read from; NULL: none */
    struct bytes text;  /* what that said; the arena's */
    const char *spool;  /* folder; NULL: requests wait in memory */
    uint64_t spool_bytes;
    const char *name_cache; /* folder; NULL: names are not kept on disk */
    uint64_t name_cache_bytes;
    const char *status;           /* address of the status page; NULL: none */
    const char *metrics_endpoint; /* where our own figures go; NULL: nowhere */
    struct client_tls tls;
    bool insecure; /* an endpoint without a scheme: plain, or TLS (OTLP exporter specification, "Insecure") */
};

#endif
