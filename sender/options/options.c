/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/options/options.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/settings/completion.h"
#include "proto/base/settings/manual.h"
#include "proto/client/endpoint.h"
#include "sender/options/file.h"
#include "sender/options/rows.h"
#include "sender/pods/pods.h"

void options_help(FILE *to)
{
    settings_command_help(&options_command, to);
    fputs("\nDEBUGINFOD_URLS: servers to ask for debug files, as in debuginfod-find(1); default: those "
          "that /etc/debuginfod names\n",
          to);
    fputs("\nenvironment, where no flag is given (each also as OTEL_EXPORTER_OTLP_PROFILES_…):\n", to);
    for (uint32_t i = 0; i < options_section.n_rows; i++) {
        const char *variable = options_section.rows[i].variable;
        if (variable && !strstr(variable, "_PROFILES_"))
            fprintf(to, "  %s\n", variable);
    }
}

void options_completion(const struct options *o, FILE *to)
{
    settings_completion(&options_command, (enum completion_shell)o->completion, to);
}

void options_manual(FILE *to)
{
    static const struct settings_manual page = {"PROFSEND", "8", PROFGATE_VERSION, "profgate(1)"};
    settings_manual(&page, &options_command, to);
}

static int read_arguments(struct options *o, int argc, char **argv, struct error *e)
{
    int rest;
    o->help = settings_asks_help(argc, argv);
    if (o->help)
        return 0;
    int r = settings_flags(&options_section, argc, argv, o, &o->arena, &rest, e);
    if (r == 0 && rest < argc)
        r = error_set(e, -EINVAL, "%s: not expected here (--help lists what is)", argv[rest]);
    return r;
}

static int settle_kinds(struct options *o, struct error *e)
{
    int r = 0;
    kinds_init(&o->kinds, o->frequency);
    if (o->without_cpu)
        o->kinds.at[SAMPLE_FROM_CLOCK].how = KIND_OFF;
    if (o->wait)
        kinds_add_wait(&o->kinds, o->wait_share);
    if (o->block)
        kinds_add_block(&o->kinds);
    if (o->lock)
        kinds_add_lock(&o->kinds);
    for (uint32_t i = 0; r == 0 && i < o->events.n; i++)
        r = kinds_add_event(&o->kinds, o->events.items[i], e);
    for (uint32_t i = 0; r == 0 && i < o->probes.n; i++)
        r = kinds_add_probe(&o->kinds, (char *)(uintptr_t)o->probes.items[i],
                            e); /* the arena's: may be cut */
    for (uint32_t i = 0; r == 0 && i < o->allocs.n; i++)
        r = kinds_add_alloc(&o->kinds, o->allocs.items[i], o->alloc_interval, e);
    if (r == 0 && o->without_cpu && !o->wait && !o->block && !o->lock && o->kinds.n_others == 0)
        r = error_set(e, -EINVAL, "--no-cpu leaves nothing to sample");
    return r;
}

/* The file goes before everything else, wherever the command line names it. */
static int read_file(struct options *o, int argc, char **argv, char *(*getvar)(const char *), struct error *e)
{
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            path = argv[++i];
    }
    const char *instead = path ? getvar(OPTIONS_FILE_INSTEAD) : NULL;
    path = instead ? instead : path;
    return path ? options_file_read(o, path, getvar, e) : 0;
}

static bool is_encrypted(const char *to)
{
    cleanup(endpoint_release) struct endpoint endpoint = {0};
    return to && endpoint_parse(&endpoint, to, 0, NULL) == 0 && endpoint.tls;
}

static int check_file(const char *path, struct error *e)
{
    return path && access(path, R_OK) < 0 ? error_set(e, -errno, "%s: %s", path, strerror(errno)) : 0;
}

/* What only opening it would show, when a reload has ended already what went on. */
static int check_destination(const struct options *o, const char *to, struct error *e)
{
    cleanup(endpoint_release) struct endpoint endpoint = {0};
    int r = to ? endpoint_parse(&endpoint, to, 0, e) : 0;
    if (r < 0 || !endpoint.tls)
        return r;
    r = check_file(o->tls.ca_file, e);
    r = r < 0 ? r : check_file(o->tls.cert_file, e);
    return r < 0 ? r : check_file(o->tls.key_file, e);
}

/* An endpoint without a scheme is for gRPC only; OTEL_EXPORTER_OTLP_INSECURE says whether it is plain, which
 * by default it is not in the specification; ours is plain unless the variable says false. */
static int settle(struct options *o, struct error *e)
{
    int r = settle_kinds(o, e);
    if (r < 0)
        return r;
    if (!o->endpoint)
        o->endpoint = o->protocol == OTLP_HTTP ? "http://localhost:4318" : "http://localhost:4317";
    if (!o->insecure && !strstr(o->endpoint, "://") && strncmp(o->endpoint, "unix:", 5) != 0) {
        o->endpoint = arena_printf(&o->arena, "https://%s", o->endpoint);
        if (!o->endpoint)
            return error_set(e, -ENOMEM, "out of memory");
    }
    if (o->protocol == OTLP_GRPC)
        o->path = NULL;
    if (o->kubernetes && (r = pods_check(o->kubernetes, e)) < 0)
        return r;
    for (uint32_t i = 0; i < o->variables.n; i++)
        if (!*o->variables.items[i] || strchr(o->variables.items[i], '='))
            return error_set(e, -EINVAL, "\"%s\" is not the name of a variable", o->variables.items[i]);
    if (!o->tls.cert_file != !o->tls.key_file)
        return error_set(e, -EINVAL, "a client certificate and its key are given both or not at all");
    r = check_destination(o, o->metrics_endpoint, e);
    return r < 0 || o->print ? r : check_destination(o, o->endpoint, e);
}

/* Where names are kept on disk: where the service has its state (systemd.exec(5), "$STATE_DIRECTORY": the
 * first of them), unless it is said. */
static int settle_name_cache(struct options *o, char *(*getvar)(const char *), struct error *e)
{
    const char *state = getvar("STATE_DIRECTORY");
    if (!o->name_cache && state && *state) {
        struct bytes first = arena_copy(&o->arena, bytes_of(state, strcspn(state, ":")));
        if (!first.p)
            return error_set(e, -ENOMEM, "out of memory");
        o->name_cache = (const char *)first.p;
    }
    if (o->name_cache && strcmp(o->name_cache, "none") == 0)
        o->name_cache = NULL;
    return 0;
}

static const struct options defaults = {
    .log_level = LOG_LEVEL_INFO,
    .frequency = 19, /* no multiple of the timer's frequencies, so that it does not march in step with them */
    .interval_ns = 10 * (uint64_t)NSEC_PER_SEC,
    .timeout_ns = 10 * (uint64_t)NSEC_PER_SEC,
    .compression = CLIENT_COMPRESS_GZIP,
    .insecure = true,
    .spool_bytes = 256u << 20, /* an hour or so of a busy host */
    .name_cache_bytes = 32u << 20,
    .wait_min_ns = NSEC_PER_MSEC, /* what is shorter is most of the waits and little of the time */
    .lock_min_ns = NSEC_PER_MSEC, /* likewise */
    .wait_share = 0,              /* by their length: the cost is bounded, whatever the scheduler does */
    .alloc_interval = 512 * 1024, /* as tcmalloc and Go sample theirs */
};

void options_vain(const struct options *o, void (*say)(const char *option, const char *why))
{
    const bool is_plain = o->print || !(is_encrypted(o->endpoint) || is_encrypted(o->metrics_endpoint));
    const struct {
        bool is_vain;
        const char *option, *why;
    } all[] = {
        {o->tls.ca_file && is_plain, "--ca-file", "without an endpoint of https://: nothing is encrypted"},
        {o->tls.cert_file && is_plain, "--cert-file",
         "without an endpoint of https://: nothing is encrypted"},
        {o->wait_min_ns != defaults.wait_min_ns && !o->wait, "--off-cpu-min", "without --off-cpu"},
        {o->wait_share != defaults.wait_share && !o->wait, "--off-cpu-share", "without --off-cpu"},
        {o->wait_by_ticket && !o->wait, "--off-cpu-at-leave", "without --off-cpu"},
        {o->lock_min_ns != defaults.lock_min_ns && !o->lock, "--lock-wait-min", "without --lock-wait"},
        {o->alloc_interval != defaults.alloc_interval && !o->allocs.n, "--alloc-interval", "without --alloc"},
        {o->idle && o->without_cpu, "--idle", "with --no-cpu"},
        {o->spool && o->print, "--spool", "with --print"},
        {o->spool_bytes != defaults.spool_bytes && !o->spool, "--spool-size", "without --spool"},
        {o->name_cache_bytes != defaults.name_cache_bytes && !o->name_cache, "--name-cache-size",
         "without --name-cache"},
    };
    for (uint32_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].is_vain)
            say(all[i].option, all[i].why);
}

int options_read(struct options *ret, int argc, char **argv, char *(*getvar)(const char *), struct error *e)
{
    struct options o = defaults;
    int r = read_file(&o, argc, argv, getvar, e);
    r = r < 0 ? r : settings_environment(&options_section, &o, getvar, &o.arena, e);
    r = r < 0 ? r : read_arguments(&o, argc, argv, e);
    r = r < 0 ? r : settle(&o, e);
    r = r < 0 ? r : settle_name_cache(&o, getvar, e);
    if (r < 0) {
        options_release(&o);
        return r;
    }
    *ret = o;
    return 0;
}

void options_release(struct options *o)
{
    o->relabel = relabel_free(o->relabel);
    arena_release(&o->arena);
}
