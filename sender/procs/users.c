/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/procs/users.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"

/* useradd(8) takes names of 32 characters. */
#define NAME_MAX_LEN 32u

struct user {
    uint32_t id, line; /* of the file */
    char name[NAME_MAX_LEN + 1];
};

struct users {
    char *path;
    uint64_t looked; /* when; 0: never */
    struct timespec changed;
    VEC(struct user) user; /* by id, then line */
};

struct users *users_new(const char *path)
{
    struct users *u = calloc(1, sizeof *u);
    if (!u || !(u->path = strdup(path)))
        return users_free(u);
    return u;
}

struct users *users_free(struct users *u)
{
    if (!u)
        return NULL;
    vec_release(&u->user);
    free(u->path);
    free(u);
    return NULL;
}

static int by_id(const void *a, const void *b)
{
    const struct user *x = a, *y = b;
    return order_of(x->id, y->id) ?: order_of(x->line, y->line);
}

static void read_all(struct users *u, FILE *file)
{
    vec_clear(&u->user);
    for (const struct passwd *p; u->user.n < USERS_MAX && (p = fgetpwent(file));) {
        struct user one = {.id = p->pw_uid, .line = u->user.n};
        if (!*p->pw_name || strlen(p->pw_name) > NAME_MAX_LEN || !bytes_is_utf8(bytes_str(p->pw_name)))
            continue;
        strcpy(one.name, p->pw_name);
        if (vec_append(&u->user, one) < 0)
            break; /* who is not in it has no name */
    }
    if (u->user.n)
        qsort(u->user.p, u->user.n, sizeof *u->user.p, by_id);
}

static void refresh(struct users *u)
{
    struct stat st;
    FILE *file = fopen(u->path, "re");
    bool is_there = file && fstat(fileno(file), &st) == 0;
    if (is_there && !clock_is_same(st.st_ctim, u->changed)) {
        u->changed = st.st_ctim;
        read_all(u, file);
    }
    if (file)
        (void)fclose(file);
}

struct bytes users_name(struct users *u, uint32_t id, uint64_t now)
{
    if (u->looked == 0 || now - u->looked >= USERS_AGAIN_NS) {
        u->looked = now;
        refresh(u);
    }
    uint32_t low = 0, high = u->user.n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (u->user.p[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < u->user.n && u->user.p[low].id == id ? bytes_str(u->user.p[low].name) : BYTES_LIT("");
}
