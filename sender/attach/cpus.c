/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/attach/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "proto/base/macros.h"

/* A number at *at; moves *at behind it. */
static bool number(struct bytes text, size_t *at, uint32_t *ret)
{
    size_t begin = *at;
    uint32_t value = 0;
    for (; *at < text.n && text.p[*at] >= '0' && text.p[*at] <= '9'; ++*at) {
        value = value * 10 + (text.p[*at] - '0');
        if (value >= CPUS_MAX)
            return false;
    }
    *ret = value;
    return *at > begin;
}

int cpus_parse(struct cpus *ret, struct bytes text)
{
    struct cpus c = {0};
    size_t at = 0;
    if (text.n > 0 && text.p[text.n - 1] == '\n')
        text.n--;
    while (at < text.n) {
        uint32_t first, last;
        if (!number(text, &at, &first))
            return -EINVAL;
        last = first;
        if (at < text.n && text.p[at] == '-' && (at++, !number(text, &at, &last)))
            return -EINVAL;
        if (last < first)
            return -EINVAL;
        for (uint32_t cpu = first; cpu <= last; cpu++)
            c.bit[cpu / 64] |= UINT64_C(1) << (cpu % 64);
        if (at < text.n && (text.p[at++] != ',' || at == text.n))
            return -EINVAL;
    }
    *ret = c;
    return 0;
}

int cpus_online(struct cpus *ret)
{
    autoclose int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char text[4096]; /* sysfs never gives more than a page */
    ssize_t n = read(fd, text, sizeof text);
    return n < 0 ? -errno : cpus_parse(ret, bytes_of(text, (size_t)n));
}
