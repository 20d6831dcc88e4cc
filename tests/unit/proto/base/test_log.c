/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_jsonc */
#include "proto/base/log.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

static char line[16384];

/* What the call writes to standard error, without its newline, and in text without the time. */
#define WRITTEN(call)                                       \
    ({                                                      \
        int pipe_[2], was_ = dup(STDERR_FILENO);            \
        ck_assert_int_eq(pipe(pipe_), 0);                   \
        dup2(pipe_[1], STDERR_FILENO);                      \
        call;                                               \
        dup2(was_, STDERR_FILENO);                          \
        close(was_);                                        \
        close(pipe_[1]);                                    \
        ssize_t n_ = read(pipe_[0], line, sizeof line - 1); \
        close(pipe_[0]);                                    \
        ck_assert_int_gt(n_, 0);                            \
        ck_assert_int_eq(line[n_ - 1], '\n');               \
        line[n_ - 1] = 0;                                   \
        ck_assert_ptr_null(strchr(line, '\n'));             \
        line[0] == '{' ? line : strchr(line, 'Z') + 2;      \
    })

UNIT(a_value_stays_one_value)
{
    ck_assert_str_eq(WRITTEN(log_info("ready version=%s workers=%u", "1.2", 3u)),
                     "info  ready version=1.2 workers=3");
    ck_assert_str_eq(WRITTEN(log_warn("x who=%s why=\"%s\" n=%d", "a b", "fine", -1)),
                     "warn  x who=\"a b\" why=\"fine\" n=-1");
    ck_assert_str_eq(
        WRITTEN(log_error("x a=%s b=%s c=%s d=\"%s\"", "", "k=v", "q\"\\q", "1\n2\t3\x01 level=debug")),
        "error x a=\"\" b=\"k=v\" c=\"q\\\"\\\\q\" d=\"1\\n2\\t3\\u0001 level=debug\"");
    ck_assert_str_eq(WRITTEN(log_info("x a=%s b=%s", "\xc3\xa4", "\xff!")),
                     "info  x a=\xc3\xa4 b=\"\\ufffd!\"");
    ck_assert_str_eq(WRITTEN(log_info("two\nlines %s", "a\nb")), "info  two?lines a?b");
    ck_assert_str_eq(WRITTEN(log_info("x rate=%.2f share=%u%% at=%.*s%s", 1.5, 7u, 2, "abc", "de")),
                     "info  x rate=1.50 share=7% at=abde");
}

UNIT(json_is_an_object_a_line)
{
    log_set_format(LOG_FORMAT_JSON);
    struct json_object *o = json_tokener_parse(WRITTEN(log_warn(
        "said \"it\" n=%u x=%.3f bad=%f who=%s why=\"%s\"", 7u, 0.25, 0.0 / 0.0, "a \x02 \xff", "7")));
    log_set_format(LOG_FORMAT_TEXT);
    ck_assert_ptr_nonnull(o);
    ck_assert_str_eq(json_object_get_string(json_object_object_get(o, "level")), "warn");
    ck_assert_str_eq(json_object_get_string(json_object_object_get(o, "message")), "said \"it\"");
    ck_assert(json_object_is_type(json_object_object_get(o, "n"), json_type_int));
    ck_assert(json_object_is_type(json_object_object_get(o, "x"), json_type_double));
    ck_assert(json_object_is_type(json_object_object_get(o, "bad"), json_type_string));
    ck_assert_str_eq(json_object_get_string(json_object_object_get(o, "who")), "a \x02 \xef\xbf\xbd");
    ck_assert(json_object_is_type(json_object_object_get(o, "why"), json_type_string));
    ck_assert_int_eq(json_object_get_string_len(json_object_object_get(o, "time")),
                     strlen("2026-01-01T00:00:00.000Z"));
    json_object_put(o);
}

UNIT(what_is_too_long_is_cut_and_the_line_stays_whole)
{
    autofree char *text = malloc(100001);
    memset(text, '\n', 100000);
    text[100000] = 0;
    ck_assert_ptr_nonnull(strstr(WRITTEN(log_info("x a=%u long=\"%s\" lost=%d", 1u, text, 2)), "x a=1"));
    log_set_format(LOG_FORMAT_JSON);
    struct json_object *o =
        unit_made(json_tokener_parse(WRITTEN(log_info("x a=%u long=\"%s\" lost=%d", 1u, text, 2))));
    ck_assert_int_eq(json_object_get_int(json_object_object_get(o, "a")), 1);
    json_object_put(o);
    log_set_format(LOG_FORMAT_TEXT);
}

UNIT(a_flood_is_one_line_a_second)
{
    static struct log_limit limit;
    (void)WRITTEN(log_write_limited(&limit, LOG_LEVEL_WARN, "flood n=%d", 1));
    for (int i = 0; i < 5; i++)
        log_write_limited(&limit, LOG_LEVEL_WARN, "flood n=%d", i);
    limit.next_ns = 0;
    ck_assert_str_eq(WRITTEN(log_write_limited(&limit, LOG_LEVEL_WARN, "flood n=%d", 9)),
                     "warn  flood n=9 more_like_it=5");
}

/* A reader who has stopped reading: nobody waits for him, and when he goes on he is told what he missed,
 * behind whole lines. */
UNIT(what_nobody_reads_is_lost_and_counted)
{
    static char seen[1 << 17];
    int pipe_[2], was = dup(STDERR_FILENO);
    size_t n = 0;
    ck_assert_int_eq(pipe(pipe_), 0);
    dup2(pipe_[1], STDERR_FILENO);
    for (int i = 0; i < 3000; i++)
        log_info("a line of some length n=%d", i);
    ck_assert_int_eq(fcntl(pipe_[0], F_SETFL, O_NONBLOCK), 0);
    for (ssize_t r; (r = read(pipe_[0], seen + n, sizeof seen - 1 - n)) > 0;)
        n += (size_t)r;
    log_info("again");
    n += (size_t)max_of(read(pipe_[0], seen + n, sizeof seen - 1 - n), (ssize_t)0);
    dup2(was, STDERR_FILENO);
    close(was);
    close(pipe_[0]);
    close(pipe_[1]);
    seen[n] = 0;
    uint32_t lines = 0, lost = 0;
    for (char *at = seen, *end; (end = strchr(at, '\n')); at = end + 1, lines++) {
        *end = 0;
        ck_assert_msg(strstr(at, "Z info  a line of some length n=") || strstr(at, "Z info  again") ||
                          strstr(at, "Z warn  log lines were lost, nobody took them lines="),
                      "%s", at);
        const char *said = strstr(at, " lines=");
        lost += said ? (uint32_t)atoi(said + 7) : 0;
    }
    ck_assert_uint_gt(lost, 100);
    ck_assert_uint_eq(lines + lost, 3000 + 2);
}
