/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/fetch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"

#define ID_MAX   64u
#define URLS_MAX 4096u
/* How long the thread may take to end: a transfer asks once a second whether it is to go on. */
#define FAREWELL_NS (3 * (uint64_t)NSEC_PER_SEC)

/* The functions of libdebuginfod.so.1 used (debuginfod_find_debuginfo(3)), looked up by name. */
struct library {
    void *(*begin)(void);
    void (*end)(void *client);
    int (*find)(void *client, const unsigned char *id, int n, char **path);
    void (*set_progress)(void *client, int (*fn)(void *client, long a, long b));
};

enum state { WANTED, HERE, NOWHERE };

struct file {
    uint8_t id[ID_MAX];
    uint32_t id_n;
    enum state state;
    char *path;
    uint32_t user; /* whose program it was wanted for first */
    uint64_t used;
};

struct fetch {
    struct library library;
    void (*begin)(void);
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    atomic_bool stopping;
    /* Under the lock. */
    struct file file[FETCH_FILES_MAX];
    uint32_t n, served; /* the user who was asked for last */
    uint64_t turn;
};

static int load(struct library *l, struct error *e)
{
    void *so = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return error_set(
            e, -ENOENT,
            "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 cannot be loaded (%s): apt-get install "
            "libdebuginfod1",
            dlerror());
    struct {
        const char *name;
        void **to;
    } wanted[] = {{"debuginfod_begin", (void **)&l->begin},
                  {"debuginfod_end", (void **)&l->end},
                  {"debuginfod_find_debuginfo", (void **)&l->find},
                  {"debuginfod_set_progressfn", (void **)&l->set_progress}};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (!(*wanted[i].to = dlsym(so, wanted[i].name)))
            return error_set(e, -ENOENT, "libdebuginfod.so.1 has no %s", wanted[i].name);
    return 0; /* it stays loaded: its libraries do not expect to be unloaded */
}

/* The library's callback is told its client only, and there is one thread that asks. */
static struct fetch *asking;

static int on_progress(void *client, long a, long b)
{
    return asking->stopping; /* not 0: give up */
}

/* Which of two is asked for first: that of a user who was not asked for just now. */
static bool is_sooner(const struct fetch *f, uint32_t a, uint32_t b)
{
    return f->file[a].user != f->served && f->file[b].user == f->served;
}

/* The next file to ask for, waited for; UINT32_MAX: stop. */
static uint32_t next(struct fetch *f, struct file *ret)
{
    uint32_t found = UINT32_MAX;
    pthread_mutex_lock(&f->lock);
    while (!f->stopping && found == UINT32_MAX) {
        for (uint32_t i = 0; i < f->n; i++)
            if (f->file[i].state == WANTED && (found == UINT32_MAX || is_sooner(f, i, found)))
                found = i;
        if (found == UINT32_MAX)
            pthread_cond_wait(&f->wanted, &f->lock);
    }
    if (found != UINT32_MAX) {
        *ret = f->file[found];
        f->served = ret->user;
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

static void *run(void *argument)
{
    struct fetch *f = argument;
    if (f->begin)
        f->begin();
    void *client = f->library.begin();
    if (!client)
        return NULL;
    f->library.set_progress(client, on_progress);
    struct file file;
    for (uint32_t i; (i = next(f, &file)) != UINT32_MAX;) {
        char *path = NULL;
        int fd = f->library.find(client, file.id, (int)file.id_n, &path);
        if (fd >= 0)
            close(fd);
        pthread_mutex_lock(&f->lock);
        f->file[i].state = fd >= 0 && path ? HERE : NOWHERE;
        f->file[i].path = fd >= 0 ? take_ptr(path) : NULL;
        pthread_mutex_unlock(&f->lock);
        free(path);
    }
    f->library.end(client);
    return NULL;
}

/* Appends what is in a file, its white space as single blanks. The new length; room: it does not fit. */
static size_t append_file(const char *path, char *to, size_t n, size_t room)
{
    char text[URLS_MAX];
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
    for (ssize_t i = 0; i < got && n < room; i++) {
        bool is_blank = memchr(" \t\r\n", text[i], 4) != NULL;
        if (!is_blank || (n > 0 && to[n - 1] != ' '))
            to[n++] = is_blank ? ' ' : text[i];
    }
    if (n > 0 && n < room && to[n - 1] != ' ')
        to[n++] = ' ';
    return n;
}

void fetch_urls(const char *folder, char *to, size_t room)
{
    char pattern[PATH_MAX];
    glob_t found;
    size_t n = 0;
    snprintf(pattern, sizeof pattern, "%s/*.urls", folder);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            n = append_file(found.gl_pathv[i], to, n, room);
        globfree(&found);
    }
    n = n == room ? 0 : n; /* half an address is none */
    to[n - (n > 0)] = 0;
}

int fetch_new(struct fetch **ret, void (*begin)(void), struct error *e)
{
    char urls[URLS_MAX];
    const char *said = getenv("DEBUGINFOD_URLS");
    *ret = NULL;
    if (!said) {
        fetch_urls(FETCH_FOLDER, urls, sizeof urls);
        setenv("DEBUGINFOD_URLS", urls, 0);
    }
    if (!*(said ? said : urls))
        return 1;
    struct fetch *f = calloc(1, sizeof *f);
    if (!f)
        return error_set(e, -ENOMEM, "out of memory");
    f->begin = begin;
    setenv("DEBUGINFOD_MAXSIZE", FETCH_MAXSIZE, 0);
    setenv("DEBUGINFOD_MAXTIME", FETCH_MAXTIME, 0);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wanted, NULL);
    int r = load(&f->library, e);
    asking = f;
    if (r == 0 && (r = thread_begin(&f->thread, NULL, "debuginfod", run, f)) < 0)
        r = error_set(e, r, "no thread can be made for debuginfod");
    if (r < 0) {
        free(f);
        return r;
    }
    *ret = f;
    return 0;
}

struct fetch *fetch_free(struct fetch *f)
{
    if (!f)
        return NULL;
    pthread_mutex_lock(&f->lock);
    f->stopping = true;
    pthread_cond_signal(&f->wanted);
    pthread_mutex_unlock(&f->lock);
    if (!thread_join_until(f->thread, NULL, clock_monotonic() + FAREWELL_NS))
        return f;
    for (uint32_t i = 0; i < f->n; i++)
        free(f->file[i].path);
    pthread_cond_destroy(&f->wanted);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return NULL;
}

/* A place for another file, whose answer nobody asked for lately; FETCH_FILES_MAX: there is none. */
static uint32_t place_for(struct fetch *f, uint32_t user)
{
    uint32_t n_waiting = 0, oldest = FETCH_FILES_MAX;
    for (uint32_t i = 0; i < f->n; i++) {
        n_waiting += f->file[i].state == WANTED && f->file[i].user == user;
        if (f->file[i].state != WANTED &&
            (oldest == FETCH_FILES_MAX || f->file[i].used < f->file[oldest].used))
            oldest = i;
    }
    if (n_waiting >= FETCH_WAITING_MAX)
        return FETCH_FILES_MAX;
    if (f->n < FETCH_FILES_MAX)
        return f->n++;
    if (oldest != FETCH_FILES_MAX)
        free(f->file[oldest].path);
    return oldest;
}

int fetch_open(struct fetch *f, uint32_t user, struct bytes build_id, int *ret_fd)
{
    if (!f || build_id.n == 0 || build_id.n > ID_MAX)
        return FETCH_NOWHERE;
    int r = FETCH_LATER;
    pthread_mutex_lock(&f->lock);
    uint32_t i = 0;
    while (i < f->n && !bytes_eq(bytes_of(f->file[i].id, f->file[i].id_n), build_id))
        i++;
    if (i < f->n)
        f->file[i].used = ++f->turn;
    if (i == f->n) {
        i = place_for(f, user);
        if (i < FETCH_FILES_MAX) {
            f->file[i] =
                (struct file){.id_n = (uint32_t)build_id.n, .state = WANTED, .user = user, .used = ++f->turn};
            memcpy(f->file[i].id, build_id.p, build_id.n);
            pthread_cond_signal(&f->wanted);
        }
    } else if (f->file[i].state == NOWHERE) {
        r = FETCH_NOWHERE;
    } else if (f->file[i].state == HERE) {
        int fd = open(f->file[i].path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        r = fd < 0 ? FETCH_NOWHERE : 0;
        if (fd >= 0)
            *ret_fd = fd;
    }
    pthread_mutex_unlock(&f->lock);
    return r;
}
