/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/words.h"

#include <math.h>
#include <stdio.h>

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

void top_amount(const struct top_metric *m, double amount, char text[16])
{
    if (bytes_is(m->unit, "By"))
        top_bytes(amount, text);
    else if (bytes_is(m->unit, "s") && amount < 999.995)
        snprintf(text, 16, amount < 0.0095 ? "%.3f" : "%.2f", amount);
    else
        top_number(amount, text);
}

const char *top_unit(const struct top_metric *m)
{
    if (m->is_gauge)
        return "";
    if (!bytes_is(m->unit, "s"))
        return "/s";
    return bytes_is(m->on, "cpu") ? "cores" : "s/s";
}
