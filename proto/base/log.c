/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call's format is its form: up to the first ` key=` it is the message, then come fields. So that a value
 * with blanks, quotes or line ends in it stays a value, the format is printed with a mark before each field
 * (a control character and a number that nobody outside knows), cut up at the marks, and each value written
 * as text or JSON wants it.
 */
#include "proto/base/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/bytes.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

#define FORMAT_MAX 1024u
#define TEXT_BYTES 2048u  /* printed, with marks; what is longer is cut */
#define LINE_BYTES 16384u /* of six bytes each, where all must be escaped */
#define FIELDS_MAX 24u
#define MARK_BYTES 17u

/* How long one line waits for a reader who is merely slow. */
#define READER_MS 100

static const char *const level_name[] = {"debug", "info", "warn", "error"};
static enum log_level threshold = LOG_LEVEL_INFO;
static enum log_format form = LOG_FORMAT_TEXT;

void log_set_level(enum log_level level)
{
    __atomic_store_n(&threshold, level, __ATOMIC_RELAXED); /* a reload; others ask meanwhile */
}

void log_set_format(enum log_format format)
{
    form = format;
}

enum log_format log_format(void)
{
    return form;
}

bool log_is_written(enum log_level level)
{
    return level >= __atomic_load_n(&threshold, __ATOMIC_RELAXED);
}

/* ---- the format ------------------------------------------------------------------------------ */

/* A format with marks, and what is known of the fields. */
struct layout {
    char mark[MARK_BYTES + 1];
    char format[FORMAT_MAX];
    size_t n;
    uint32_t n_fields;
    struct {
        bool quoted, number;
    } fields[FIELDS_MAX];
};

static void put(struct layout *l, const char *p, size_t n)
{
    if (n < sizeof l->format - l->n) {
        memcpy(l->format + l->n, p, n);
        l->n += n;
    }
}

/* Of `key=` that stands here, the key's bytes; 0: none does. */
static size_t key_length(const char *at)
{
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return n > 0 && at[n] == '=' && at[0] >= 'a' ? n : 0;
}

/* Whether the value is one number and nothing else. */
static bool is_number(struct bytes value)
{
    const char *p = (const char *)value.p;
    return value.n >= 2 && p[0] == '%' && !memchr(p + 1, '%', value.n - 1) &&
           strchr("diugf", p[value.n - 1]) && strspn(p + 1, "0123456789.lhjzt") == value.n - 2;
}

static const char *lay_field(struct layout *l, const char *at, size_t key)
{
    const char *value = at + key + 1;
    bool quoted = *value == '"';
    value += quoted;
    size_t n = quoted ? strcspn(value, "\"") : strcspn(value, " ");
    put(l, l->mark, MARK_BYTES);
    put(l, at, key + 1);
    put(l, value, n);
    l->fields[l->n_fields].quoted = quoted;
    l->fields[l->n_fields++].number = !quoted && is_number(bytes_of(value, n));
    return value + n + (quoted && value[n]);
}

static void lay(struct layout *l, const char *format)
{
    l->n = 0;
    l->n_fields = 0;
    snprintf(l->mark, sizeof l->mark, "\x1e%016llx", (unsigned long long)hash_seed());
    for (const char *at = format; *at;) {
        size_t key = *at == ' ' && l->n_fields < FIELDS_MAX ? key_length(at + 1) : 0;
        if (key > 0)
            at = lay_field(l, at + 1, key);
        else
            put(l, at++, 1);
    }
    l->format[l->n] = 0;
}

/* ---- the line -------------------------------------------------------------------------------- */

struct line {
    char p[LINE_BYTES];
    size_t n;
};

static void add(struct line *o, const char *p, size_t n)
{
    n = min_of(n, sizeof o->p - 2 - o->n); /* room for an end */
    memcpy(o->p + o->n, p, n);
    o->n += n;
}

static void add_str(struct line *o, const char *s)
{
    add(o, s, strlen(s));
}

/* Between quotes, as JSON has it (RFC 8259, section 7), which readers of logfmt take, too. */
static void add_quoted(struct line *o, struct bytes s)
{
    static const char letters[] = "\"\"\\\\\nn\tt\rr";
    add_str(o, "\"");
    for (size_t i = 0; i < s.n;) {
        char c = (char)s.p[i], escape[8];
        const char *letter = c ? strchr(letters, c) : NULL;
        size_t n = bytes_utf8_length(bytes_of(s.p + i, s.n - i));
        if (letter && (letter - letters) % 2 == 0)
            snprintf(escape, sizeof escape, "\\%c", letter[1]);
        else if ((unsigned char)c < 0x20 || c == 0x7f || n == 0)
            snprintf(escape, sizeof escape, "\\u%04x", n == 0 ? 0xfffdu : (unsigned)c);
        else
            snprintf(escape, sizeof escape, "%.*s", (int)n, (const char *)s.p + i);
        add_str(o, escape);
        i += max_of(n, (size_t)1);
    }
    add_str(o, "\"");
}

/* A message is words; what a value in it brought along must not look like another line. */
static void add_message(struct line *o, struct bytes s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = (char)s.p[i];
        if ((unsigned char)c < 0x20 || c == 0x7f)
            c = '?';
        add(o, &c, 1);
    }
}

static bool needs_quotes(struct bytes s)
{
    if (s.n == 0 || !bytes_is_utf8(s))
        return true;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] == 0x7f || s.p[i] == '"' || s.p[i] == '=' || s.p[i] == '\\')
            return true;
    return false;
}

/* "nan" and "inf" are numbers to printf only. */
static bool reads_as_number(struct bytes s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!strchr("0123456789.-+e", s.p[i]))
            return false;
    return s.n > 0;
}

static void add_field(struct line *o, struct bytes key, struct bytes value, bool quoted, bool number)
{
    if (form == LOG_FORMAT_JSON) {
        add_str(o, ",");
        add_quoted(o, key);
        add_str(o, ":");
        if (number && reads_as_number(value))
            add(o, (const char *)value.p, value.n);
        else
            add_quoted(o, value);
        return;
    }
    add_str(o, " ");
    add(o, (const char *)key.p, key.n);
    add_str(o, "=");
    if (quoted || needs_quotes(value))
        add_quoted(o, value);
    else
        add(o, (const char *)value.p, value.n);
}

static void add_head(struct line *o, enum log_level level, struct bytes message)
{
    char stamp[40];
    uint64_t now = clock_realtime();
    time_t seconds = (time_t)(now / NSEC_PER_SEC);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + n, sizeof stamp - n, ".%03uZ", (unsigned)(now / NSEC_PER_MSEC % 1000));
    if (form == LOG_FORMAT_JSON) {
        add_str(o, "{\"time\":\"");
        add_str(o, stamp);
        add_str(o, "\",\"level\":\"");
        add_str(o, level_name[level]);
        add_str(o, "\",\"message\":");
        add_quoted(o, message);
        return;
    }
    char lead[64];
    snprintf(lead, sizeof lead, "%s %-5s ", stamp, level_name[level]);
    add_str(o, lead);
    add_message(o, message);
}

/* The text up to the next mark, which is taken off it; all of it where there is none. */
static struct bytes cut(struct bytes *text, const char *mark)
{
    const uint8_t *at = memmem(text->p, text->n, mark, MARK_BYTES);
    struct bytes before = bytes_of(text->p, at ? (size_t)(at - text->p) : text->n);
    size_t skip = before.n + (at ? MARK_BYTES : 0);
    *text = bytes_of(text->p + skip, text->n - skip);
    return before;
}

static void end_line(struct line *o)
{
    if (form == LOG_FORMAT_JSON)
        o->p[o->n++] = '}';
    o->p[o->n++] = '\n';
}

/* ---- standard error -------------------------------------------------------------------------- */

/* Its reader may be stopped, for ever: a pager, a container's log driver. A pipe or a terminal that takes
 * nothing is waited for once, by one line; the lines after that are lost at once, and counted, until it takes
 * again. (Not O_NONBLOCK: the shell that started us shares it.) */
static struct {
    pthread_mutex_t lock;
    uint64_t lost;
    bool is_stuck, is_broken; /* broken: in the middle of a line */
} out = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* In pieces that fit where poll(2) says that there is room (pipe(7), PIPE_BUF); nearly every line is one. */
static bool send(const char *p, size_t n)
{
    while (n > 0) {
        struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (poll(&fd, 1, out.is_stuck ? 0 : READER_MS) == 0)
            return false;
        const ssize_t done = write(STDERR_FILENO, p, min_of(n, (size_t)PIPE_BUF));
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return true; /* nowhere left to say so */
        out.is_broken = p[done - 1] != '\n';
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static void send_lost(void)
{
    struct line o = {.n = 0};
    char n[24];
    snprintf(n, sizeof n, "%llu", (unsigned long long)out.lost);
    add_head(&o, LOG_LEVEL_WARN, BYTES_LIT("log lines were lost, nobody took them"));
    add_field(&o, BYTES_LIT("lines"), bytes_str(n), false, true);
    end_line(&o);
    if (send(o.p, o.n))
        out.lost = 0;
}

static void send_line(const struct line *o)
{
    pthread_mutex_lock(&out.lock);
    if (out.is_broken && send("\n", 1))
        out.is_broken = false;
    if (out.lost > 0 && !out.is_broken)
        send_lost();
    out.is_stuck = out.lost > 0 || out.is_broken || !send(o->p, o->n);
    out.lost += out.is_stuck;
    pthread_mutex_unlock(&out.lock);
}

__attribute__((format(printf, 3, 0))) static void write_line(enum log_level level, uint32_t held_back,
                                                             const char *format, va_list args)
{
    struct layout l;
    struct line o = {.n = 0};
    char text[TEXT_BYTES];
    lay(&l, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wformat-nonliteral" /* the caller's, whose arguments were checked against it */
    int printed = vsnprintf(text, sizeof text, l.format, args);
#pragma GCC diagnostic pop
    struct bytes left = bytes_of(text, printed > 0 ? min_of((size_t)printed, sizeof text - 1) : 0);
    const uint8_t *last = memrchr(left.p, l.mark[0], left.n);
    if (last && left.n - (size_t)(last - left.p) < MARK_BYTES)
        left.n = (size_t)(last - left.p); /* cut within a mark */
    add_head(&o, level, cut(&left, l.mark));
    for (uint32_t i = 0; i < l.n_fields && left.n > 0; i++) {
        struct bytes field = cut(&left, l.mark);
        const uint8_t *equals = memchr(field.p, '=', field.n);
        size_t key = equals ? (size_t)(equals - field.p) : 0;
        if (equals)
            add_field(&o, bytes_of(field.p, key), bytes_of(equals + 1, field.n - key - 1), l.fields[i].quoted,
                      l.fields[i].number);
    }
    if (held_back > 0) {
        snprintf(text, sizeof text, "%u", held_back);
        add_field(&o, BYTES_LIT("more_like_it"), bytes_str(text), false, true);
    }
    end_line(&o);
    send_line(&o);
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level < threshold)
        return;
    va_list args;
    va_start(args, format);
    write_line(level, 0, format, args);
    va_end(args);
}

void log_write_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
{
    if (level < threshold)
        return;
    uint64_t now = clock_monotonic();
    uint64_t next = __atomic_load_n(&limit->next_ns, __ATOMIC_RELAXED);
    if (now < next || !__atomic_compare_exchange_n(&limit->next_ns, &next, now + NSEC_PER_SEC, false,
                                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&limit->held_back, 1, __ATOMIC_RELAXED);
        return;
    }
    uint32_t held_back = __atomic_exchange_n(&limit->held_back, 0, __ATOMIC_RELAXED);
    va_list args;
    va_start(args, format);
    write_line(level, held_back, format, args);
    va_end(args);
}
