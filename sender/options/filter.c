/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/options/filter.h"

#include <errno.h>
#include <linux/magic.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "proto/base/macros.h"
#include "proto/base/quantity.h"

int filter_number(struct filter_key *key, struct bytes text, struct error *e)
{
    uint64_t pid;
    if (quantity_u64(text, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return error_set(e, -EINVAL, "\"%.*s\" is not a process id", BYTES_FMT(text));
    key->id = pid;
    return 0;
}

int filter_user(struct filter_key *key, struct bytes text, struct error *e)
{
    uint64_t id;
    char name[256];
    if (quantity_u64(text, &id) == 0 && id < UINT32_MAX) {
        key->id = id;
        return 0;
    }
    /* By the file, not by name services: a network's directory must not be able to keep a profiler waiting.
     */
    snprintf(name, sizeof name, "%.*s", BYTES_FMT(text));
    FILE *all = fopen("/etc/passwd", "re");
    const struct passwd *user = NULL;
    while (all && (user = fgetpwent(all)) && strcmp(user->pw_name, name) != 0)
        ;
    if (user)
        key->id = user->pw_uid;
    if (all)
        fclose(all);
    return user ? 0 : error_set(e, -EINVAL, "no user \"%s\" in /etc/passwd", name);
}

const char *filter_cgroup_root(void)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct statfs fs;
        if (statfs(places[i], &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
            return places[i];
    }
    return NULL;
}

int filter_cgroup(struct filter_key *key, struct bytes text, struct error *e)
{
    char path[PATH_MAX];
    struct stat st;
    const char *root = filter_cgroup_root();
    if (!root)
        return error_set(e, -EINVAL, "cgroup version 2 is not mounted at /sys/fs/cgroup");
    if ((size_t)snprintf(path, sizeof path, "%s/%.*s", root, BYTES_FMT(text)) >= sizeof path ||
        stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return error_set(e, -EINVAL, "no cgroup \"%.*s\" under %s", BYTES_FMT(text), root);
    key->id = st.st_ino; /* of version 2 the inode number is the id (kernfs) */
    return 0;
}

int filter_executable(struct filter_key *key, struct bytes text, struct error *e)
{
    if (text.n == 0 || memchr(text.p, '/', text.n))
        return error_set(e, -EINVAL, "\"%.*s\" is not the name of an executable without its folders",
                         BYTES_FMT(text));
    memset(key->name, 0, sizeof key->name);
    memcpy(key->name, text.p, min_of(text.n, sizeof key->name - 1));
    return 0;
}
