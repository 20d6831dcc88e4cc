/* SPDX-License-Identifier: Apache-2.0 */
/* What cgroups allow, in trees of files as containers see them. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gateway/run/cgroup.h"

static char root[] = "/tmp/pg-cgroup-XXXXXX";

/* A file in the root, and the folders it is in. */
static void put(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(name, 0700);
        *at = '/';
    }
    FILE *f = fopen(name, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static uint64_t found(void)
{
    uint64_t n = cgroup_memory(root);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
    return n;
}

static void begin(const char *cgroups)
{
    strcpy(root + sizeof root - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    put("/proc/self/cgroup", cgroups);
}

UNIT(version_2_in_a_container)
{
    begin("0::/\n");
    put("/sys/fs/cgroup/memory.max", "67108864\n");
    ck_assert_uint_eq(found(), 64 << 20);
}

UNIT(the_least_of_all_that_are_around_it)
{
    begin("0::/a/b/c\n");
    put("/sys/fs/cgroup/a/memory.max", "50000000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/c/memory.max", "60000000\n");
    ck_assert_uint_eq(found(), 50000000);
}

UNIT(version_1_with_a_path_of_the_host)
{
    begin("12:cpu,cpuacct:/docker/0123\n7:hugetlb,memory:/docker/0123\n1:name=systemd:/docker/0123\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "33554432\n");
    put("/sys/fs/cgroup/cpu/memory.limit_in_bytes", "1\n");
    ck_assert_uint_eq(found(), 32 << 20);
}

UNIT(none)
{
    begin("0::/user.slice\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    ck_assert_uint_eq(found(), UINT64_MAX);
    begin("4:memory:/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_uint_eq(found(), UINT64_MAX);
    begin("nonsense\n1:memory\n\n:\n");
    ck_assert_uint_eq(found(), UINT64_MAX);
    ck_assert_uint_eq(cgroup_memory("/nowhere"), UINT64_MAX);
}
