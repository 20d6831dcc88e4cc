/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/unix_address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/io/channel.h"
#include "proto/io/connector.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

#define PATIENCE unit_patience(5 * (uint64_t)NSEC_PER_SEC)

/* A folder of the test's own, and a socket's path in it. */
struct place {
    char folder[UNIT_PATH_MAX], path[UNIT_PATH_MAX + 2], address[UNIT_PATH_MAX + 16];
};

static struct place place_make(void)
{
    struct place p;
    unit_new_folder(p.folder);
    snprintf(p.path, sizeof p.path, "%s/s", p.folder);
    snprintf(p.address, sizeof p.address, "unix://%s", p.path);
    return p;
}

static void place_remove(const struct place *p)
{
    unlink(p->path);
    rmdir(p->folder);
}

struct served {
    struct io_loop *loop;
    int accepted, connected, error;
    char peer[IO_CHANNEL_ADDRESS_MAX];
};

static void on_accept(void *user, struct io_channel *c)
{
    struct served *s = user;
    s->accepted++;
    snprintf(s->peer, sizeof s->peer, "%s", io_channel_peer(c));
    io_channel_close(c);
}

static void on_connected(void *user, struct io_channel *c, int error, const char *message)
{
    struct served *s = user;
    s->connected++;
    s->error = error;
    io_channel_close(c);
}

static int connect_by_hand(const char *address)
{
    struct unix_address a;
    ck_assert_int_eq(unix_address_parse(&a, address, NULL), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&a.sa, a.len), 0);
    return fd;
}

static void run_until(struct io_loop *loop, const int *count, int wanted)
{
    unit_until(*count >= wanted, io_loop_run_once(loop, NSEC_PER_SEC / 10));
}

UNIT(addresses_are_those_of_grpc)
{
    static const struct {
        const char *address, *path;
        int result;
    } cases[] = {
        {"unix:/run/a.sock", "/run/a.sock", 0},
        {"unix:///run/a.sock", "/run/a.sock", 0},
        {"unix:a.sock", "a.sock", 0},
        {"unix:@name", "\0name", 0},
        {"unix-abstract:name", "\0name", 0},
        {"unix:", NULL, -EINVAL},
        {"unix:@", NULL, -EINVAL},
        {"unix://host/path", NULL, -EINVAL},
        {"unix-abstract:", NULL, -EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct unix_address a;
        struct error e;
        int r = unix_address_parse(&a, cases[i].address, &e);
        ck_assert_msg(r == cases[i].result, "%s", cases[i].address);
        ck_assert(unix_address_is(cases[i].address) && io_address_is_unix(cases[i].address));
        if (r < 0) {
            ck_assert_ptr_nonnull(strstr(e.text, cases[i].address));
            continue;
        }
        size_t n = cases[i].path[0] ? strlen(cases[i].path) : 5;
        ck_assert_mem_eq(a.sa.sun_path, cases[i].path, n);
        ck_assert_uint_eq(a.len, sizeof a.sa.sun_family + n + (cases[i].path[0] ? 1 : 0));
    }
    char longest[200] = "unix:/";
    memset(longest + 6, 'x', 106);
    struct unix_address a;
    ck_assert_int_eq(unix_address_parse(&a, longest, NULL), 0); /* 107 bytes and a NUL (unix(7)) */
    strcat(longest, "x");
    ck_assert_int_eq(unix_address_parse(&a, longest, NULL), -ENAMETOOLONG);
    ck_assert(!unix_address_is("localhost:1"));
    char host[64];
    uint16_t port = 1;
    ck_assert_int_eq(io_address_parse("unix:///run/a.sock", host, sizeof host, &port, NULL), 0);
    ck_assert_str_eq(host, "unix:///run/a.sock");
    ck_assert_uint_eq(port, 0);
}

UNIT(peers_connect_and_are_known_by_their_user)
{
    cleanup(place_remove) struct place p = place_make();
    struct served s = {.loop = unit_made(io_loop_new())};
    ck_assert_ptr_nonnull(s.loop);
    struct io_listener *l;
    struct error e;
    struct stat st;
    char expected[32], host[UNIT_PATH_MAX + 8];
    ck_assert_int_eq(io_listener_new(&l, s.loop, p.address, IO_PORT_ALONE, &e), 0);
    ck_assert_int_eq(lstat(p.path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, IO_UNIX_MODE);
    ck_assert_uint_eq(io_listener_port(l), 0);
    ck_assert_int_eq(io_listener_start(l, on_accept, &s, &e), 0);
    snprintf(host, sizeof host, "unix:%s", p.path);
    ck_assert_ptr_nonnull(io_connect(s.loop, host, 0, PATIENCE, on_connected, &s));
    run_until(s.loop, &s.accepted, 1);
    run_until(s.loop, &s.connected, 1);
    ck_assert_int_eq(s.error, 0);
    snprintf(expected, sizeof expected, "unix:uid=%u", getuid());
    ck_assert_str_eq(s.peer, expected);
    io_listener_free(l);
    ck_assert_int_lt(lstat(p.path, &st), 0); /* removed */
    io_loop_free(s.loop);
}

UNIT(a_leftover_is_replaced_and_what_lives_is_not)
{
    cleanup(place_remove) struct place p = place_make();
    struct served s = {.loop = unit_made(io_loop_new())};
    ck_assert_ptr_nonnull(s.loop);
    struct unix_address a;
    struct io_listener *l, *second;
    struct error e;
    struct stat st;
    /* Somebody's who did not clean up. */
    ck_assert_int_eq(unix_address_parse(&a, p.address, NULL), 0);
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(dead, (const struct sockaddr *)&a.sa, a.len), 0);
    close(dead);
    ck_assert_int_eq(io_listener_new_unix(&l, s.loop, p.address, 0600, &e), 0);
    ck_assert_int_eq(lstat(p.path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    /* Not started yet, and alive all the same. */
    ck_assert_int_eq(io_listener_new(&second, s.loop, p.address, IO_PORT_ALONE, &e), -EADDRINUSE);
    ck_assert_ptr_nonnull(strstr(e.text, "another process listens there"));
    /* A file of another process is not ours to remove. */
    ck_assert_int_eq(unlink(p.path), 0);
    int file = open(p.path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(file, 0);
    io_listener_free(l);
    ck_assert_int_eq(lstat(p.path, &st), 0);
    /* Nor is a file that is no socket. */
    ck_assert_int_eq(io_listener_new(&second, s.loop, p.address, IO_PORT_ALONE, &e), -EADDRINUSE);
    ck_assert_int_eq(lstat(p.path, &st), 0);
    close(file);
    ck_assert_int_eq(io_listener_new(&second, s.loop, "unix:/no/such/folder/s", IO_PORT_ALONE, &e), -ENOENT);
    io_loop_free(s.loop);
}

UNIT(abstract_names_need_no_file)
{
    struct served s = {.loop = unit_made(io_loop_new())};
    ck_assert_ptr_nonnull(s.loop);
    struct io_listener *l, *second;
    struct error e;
    char address[64];
    snprintf(address, sizeof address, "unix-abstract:pg_unix_%d", (int)getpid());
    ck_assert_int_eq(io_listener_new(&l, s.loop, address, IO_PORT_ALONE, &e), 0);
    ck_assert_int_eq(io_listener_start(l, on_accept, &s, &e), 0);
    ck_assert_int_eq(io_listener_new(&second, s.loop, address, IO_PORT_ALONE, &e), -EADDRINUSE);
    int fd = connect_by_hand(address);
    run_until(s.loop, &s.accepted, 1);
    close(fd);
    io_listener_free(l);
    io_loop_free(s.loop);
}

UNIT(loops_share_one_socket)
{
    cleanup(place_remove) struct place p = place_make();
    struct served s[2] = {{.loop = unit_made(io_loop_new())}, {.loop = unit_made(io_loop_new())}};
    ck_assert(s[0].loop && s[1].loop);
    struct io_listener *l[2];
    struct error e;
    ck_assert_int_eq(io_listener_new(&l[0], s[0].loop, p.address, IO_PORT_FIRST, &e), 0);
    ck_assert_int_eq(io_listener_share(&l[1], s[1].loop, l[0], &e), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(io_listener_start(l[i], on_accept, &s[i], &e), 0);
    for (int i = 0; i < 2; i++) { /* whoever looks takes it */
        int fd = connect_by_hand(p.address);
        run_until(s[i].loop, &s[i].accepted, 1);
        close(fd);
    }
    io_listener_free(l[0]);
    io_loop_free(s[0].loop);
    io_listener_free(l[1]);
    io_loop_free(s[1].loop);
}
