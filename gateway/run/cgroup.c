/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH, of version 2 without controllers. In a container
 * with a cgroup namespace the path is / and the container's own files are at the top; without one it is the
 * host's path, which is not there to be read, but what the way up from it ends at is the container's again.
 */
#include "gateway/run/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/file.h"
#include "proto/base/macros.h"

static uint64_t number_in(const char *path)
{
    uint64_t n;
    char text[32];
    file_text(path, text, sizeof text);
    /* No limit is "max", or of version 1 LONG_MAX cut to pages. */
    return sscanf(text, "%" SCNu64, &n) == 1 && n <= INT64_MAX / 2 ? n : UINT64_MAX;
}

/* Of this cgroup and all around it; `path` is used up. */
static uint64_t least(const char *root, const char *mount, char *path, const char *file)
{
    uint64_t found = UINT64_MAX;
    for (;;) {
        char name[PATH_MAX];
        if (snprintf(name, sizeof name, "%s%s%s/%s", root, mount, path, file) < (int)sizeof name)
            found = min_of(found, number_in(name));
        char *last = strrchr(path, '/');
        if (!last)
            return found;
        *last = 0;
    }
}

static bool has_memory(char *controllers)
{
    for (char *c; (c = strsep(&controllers, ","));)
        if (strcmp(c, "memory") == 0)
            return true;
    return false;
}

uint64_t cgroup_memory(const char *root)
{
    char name[PATH_MAX], *line = NULL;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    uint64_t found = UINT64_MAX;
    size_t room = 0;
    FILE *f = fopen(name, "re");
    while (f && getline(&line, &room, f) > 0) {
        char *rest = line;
        const char *number = strsep(&rest, ":");
        char *controllers = strsep(&rest, ":"), *path = strsep(&rest, "\n");
        if (!path)
            continue;
        if (strcmp(number, "0") == 0 && !*controllers)
            found = min_of(found, least(root, "/sys/fs/cgroup", path, "memory.max"));
        else if (has_memory(controllers))
            found = min_of(found, least(root, "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}
