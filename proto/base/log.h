/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's log: one line an event on standard error, `TIME LEVEL message key=value …`, or the same as
 * one JSON object. A call's format is its message and behind it fields, ` key=%d`, ` key=%s` or ` key="%s"`:
 * whatever a value is, it stays one value (quoted where it must be, and always where the format has quotes).
 *
 * Only stages and programs log, once for each failure; libraries return errors. Lines that a peer can cause
 * at will go through log_limited, which lets one a second through per call site and says how many it held
 * back.
 */
#ifndef PROTO_BASE_LOG_H
#define PROTO_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/* What is printed: this level and above. Default info. Set before threads start. */
void log_set_level(enum log_level level);

/* How lines are written. Default text. Any thread. */
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };
void log_set_format(enum log_format format);
enum log_format log_format(void);

/* Whether a line of this level is written, for who would have to find out what to say. */
bool log_is_written(enum log_level level);

/* Any thread; the line is written with one write(2), and without taking memory. Where nobody reads (a pipe
 * that is full, a terminal that was stopped) it is lost rather than waited for, and the next one that is read
 * says how many were. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct log_limit {
    uint64_t next_ns;
    uint32_t held_back;
};

/* As log_write, at most once a second per `limit`; the field more_like_it says how many were held back. Any
 * thread (a race may let one line more through). */
void log_write_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

#define log_limited(level, ...)                                  \
    do {                                                         \
        static struct log_limit log_limit_here_;                 \
        log_write_limited(&log_limit_here_, level, __VA_ARGS__); \
    } while (0)

#endif
