/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/quantity.h"

#include <ctype.h>
#include <errno.h>

#include "proto/base/macros.h"

int quantity_u64(struct bytes s, uint64_t *ret)
{
    uint64_t value = 0;
    if (s.n == 0)
        return -EINVAL;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -EINVAL;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.p[i] - '0'), &value))
            return -ERANGE;
    }
    *ret = value;
    return 0;
}

/* Reads digits with an optional fraction; returns the bytes read, 0 if there is no number. */
static size_t read_decimal(struct bytes s, double *ret)
{
    double value = 0, scale = 1;
    size_t i = 0, digits = 0;
    for (; i < s.n && isdigit(s.p[i]); i++, digits++)
        value = value * 10 + (s.p[i] - '0');
    if (i < s.n && s.p[i] == '.') {
        for (i++; i < s.n && isdigit(s.p[i]); i++, digits++) {
            scale /= 10;
            value += (s.p[i] - '0') * scale;
        }
    }
    *ret = value;
    return digits > 0 ? i : 0;
}

static int to_u64(double value, uint64_t *ret)
{
    if (!(value >= 0) || value >= 18446744073709551615.0)
        return -ERANGE;
    *ret = (uint64_t)(value + 0.5);
    return 0;
}

int quantity_size(struct bytes s, uint64_t *ret_bytes)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},     {"B", 1},      {"KB", 1e3},      {"MB", 1e6},
                 {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
    double value;
    size_t n = read_decimal(s, &value);
    if (n == 0)
        return -EINVAL;
    struct bytes unit = bytes_trim(bytes_of(s.p + n, s.n - n));
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (bytes_is(unit, units[i].name))
            return to_u64(value * units[i].factor, ret_bytes);
    return -EINVAL;
}

int quantity_duration(struct bytes s, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"ns", 1},  {"us", 1e3}, {"\xc2\xb5s", 1e3}, {"ms", 1e6},
                 {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    double total = 0;
    if (bytes_is(s, "0")) {
        *ret_ns = 0;
        return 0;
    }
    if (s.n == 0)
        return -EINVAL;
    while (s.n > 0) {
        double value;
        size_t n = read_decimal(s, &value), unit_n = 0, best = ARRAY_LEN(units);
        if (n == 0)
            return -EINVAL;
        s = bytes_of(s.p + n, s.n - n);
        while (unit_n < s.n && !isdigit(s.p[unit_n]) && s.p[unit_n] != '.')
            unit_n++;
        for (size_t i = 0; i < ARRAY_LEN(units); i++)
            if (bytes_is(bytes_of(s.p, unit_n), units[i].name))
                best = i;
        if (best == ARRAY_LEN(units))
            return -EINVAL;
        total += value * units[best].factor;
        s = bytes_of(s.p + unit_n, s.n - unit_n);
    }
    return to_u64(total, ret_ns);
}

int quantity_decimal(struct bytes s, double *ret)
{
    double value;
    if (read_decimal(s, &value) != s.n || s.n == 0)
        return -EINVAL;
    *ret = value;
    return 0;
}

int quantity_share(struct bytes s, double *ret)
{
    double value;
    size_t n = read_decimal(s, &value);
    if (n == 0)
        return -EINVAL;
    if (n + 1 == s.n && s.p[n] == '%')
        value /= 100;
    else if (n != s.n)
        return -EINVAL;
    if (value > 1)
        return -ERANGE;
    *ret = value;
    return 0;
}
