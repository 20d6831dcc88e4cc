/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix socket addresses as gRPC writes them (its doc/naming.md), and listening on one. For proto/io; what is
 * one, anybody may ask.
 */
#ifndef PROTO_IO_UNIX_ADDRESS_H
#define PROTO_IO_UNIX_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "proto/base/error.h"

struct unix_address {
    struct sockaddr_un sa;
    socklen_t len; /* an abstract name is as long as it is, without a NUL at its end (unix(7)) */
};

/* The socket's file, to know it again. */
struct unix_file {
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "": abstract, no file */
    dev_t device;
    ino_t inode;
};

/* Whether it begins like one: "unix:" or "unix-abstract:". */
bool unix_address_is(const char *address);

/* "unix:/path", "unix:path", "unix:///path"; "unix:@name" and "unix-abstract:name" for the abstract name
 * space (unix(7)). 0; -EINVAL, -ENAMETOOLONG: *e says what. */
int unix_address_parse(struct unix_address *ret, const char *address, struct error *e);

/* Binds and listens. A file that a process left behind (nobody answers there) is replaced; the new one has
 * the permissions `mode` before anybody can connect. Returns the descriptor, *ret_file for unix_file_remove;
 * -EADDRINUSE: somebody listens there, or what is there is no socket; another -errno. */
int unix_address_listen(const struct unix_address *a, mode_t mode, int backlog, struct unix_file *ret_file);

/* Removes the file, if it is still the one that was made. */
void unix_file_remove(const struct unix_file *f);

#endif
