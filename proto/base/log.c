/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

#define LINE_MAX_BYTES 2048

static const char *const level_name[] = {"debug", "info", "warn", "error"};
static enum log_level threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    threshold = level;
}

bool log_level_parse(const char *name, enum log_level *ret_level)
{
    for (size_t i = 0; i < ARRAY_LEN(level_name); i++) {
        if (strcmp(name, level_name[i]) == 0) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

__attribute__((format(printf, 3, 0))) static void write_line(enum log_level level, uint32_t held_back,
                                                             const char *format, va_list args)
{
    char line[LINE_MAX_BYTES];
    uint64_t now = clock_realtime();
    time_t seconds = (time_t)(now / NSEC_PER_SEC);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03uZ %-5s ", (unsigned)(now / NSEC_PER_MSEC % 1000),
                          level_name[level]);
    size_t text = n;
    int printed = vsnprintf(line + n, sizeof line - n - 1, format, args);
    if (printed > 0)
        n = min_of(n + (size_t)printed, sizeof line - 2);
    if (held_back > 0 && n < sizeof line - 64)
        n += (size_t)snprintf(line + n, sizeof line - n, " (and %u more like it)", held_back);
    for (size_t i = text; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nowhere left to say so */
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
