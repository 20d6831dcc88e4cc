/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/macros.h"

void top_number(double v, char text[16])
{
    static const struct {
        double from;
        const char *suffix;
    } steps[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
    double a = fabs(v);
    for (size_t i = 0; i < ARRAY_LEN(steps) && isfinite(v) && a < 1e18; i++) {
        if (a >= steps[i].from) {
            double scaled = v / (steps[i].from == 1e4 ? 1e3 : steps[i].from);
            snprintf(text, 16, fabs(scaled) < 99.95 ? "%.1f%s" : "%.0f%s", scaled, steps[i].suffix);
            return;
        }
    }
    if (a >= 1e18 || !isfinite(v))
        snprintf(text, 16, "%.1e", v);
    else if (a >= 99.95 || a < 0.0005 || v == floor(v))
        snprintf(text, 16, "%.0f", v);
    else
        snprintf(text, 16, a >= 9.995 ? "%.1f" : a >= 0.0995 ? "%.2f" : "%.3f", v);
}

void top_bytes(double v, char text[16])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;
    for (; i + 1 < ARRAY_LEN(units) && fabs(v) >= 1024; i++)
        v /= 1024;
    if (!isfinite(v) || fabs(v) >= 1e6)
        snprintf(text, 16, "%.1e %s", v, units[i]);
    else
        snprintf(text, 16, i > 0 && fabs(v) < 99.95 ? "%.1f %s" : "%.0f %s", v, units[i]);
}

void top_duration(double seconds, char text[24])
{
    uint64_t s = seconds > 0 && seconds < 1e12 ? (uint64_t)seconds : 0;
    if (s >= 86400)
        snprintf(text, 24, "%ud %uh", (unsigned)(s / 86400), (unsigned)(s / 3600 % 24));
    else if (s >= 3600)
        snprintf(text, 24, "%uh %um", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
    else if (s >= 60)
        snprintf(text, 24, "%um %us", (unsigned)(s / 60), (unsigned)(s % 60));
    else
        snprintf(text, 24, "%us", (unsigned)s);
}

static bool contains(struct bytes b, const char *word)
{
    return b.n > 0 && memmem(b.p, b.n, word, strlen(word));
}

static bool ends(struct bytes b, const char *tail)
{
    size_t n = strlen(tail);
    return b.n >= n && !memcmp(b.p + b.n - n, tail, n);
}

void top_amount(const struct top_family *f, double amount, char text[32])
{
    char number[16];
    bool rate = f->type == TOP_COUNTER;
    if (ends(f->name, rate ? "_bytes_total" : "_bytes")) {
        top_bytes(amount, number);
        snprintf(text, 32, "%s%s", number, rate ? "/s" : "");
        return;
    }
    top_number(amount, number);
    bool waiting = contains(f->name, "offcpu") || contains(f->name, "wait");
    if (ends(f->name, "_seconds_total"))
        snprintf(text, 32, "%s %s", number, waiting ? "s/s" : "cores");
    else
        snprintf(text, 32, "%s%s", number, rate ? "/s" : "");
}
