/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "proto/io/signal.h"

#define ENTER    "\x1b[?1049h\x1b[?25l\x1b[2J" /* alternate screen, no cursor */
#define LEAVE    "\x1b[?25h\x1b[?1049l"
#define READ_MAX 256u

struct terminal {
    void (*pressed)(void *user, uint32_t key);
    void *user;
    struct termios before;
    struct io_signal *resized;
    int keys; /* the terminal once more: libuv makes what it watches non-blocking, and standard output is to
                 block */
    uv_poll_t poll;
    struct buffer shown;
};

static const struct {
    const char *sequence;
    enum terminal_key key;
} sequences[] = {{"[A", TERMINAL_UP},       {"[B", TERMINAL_DOWN},      {"[C", TERMINAL_RIGHT},
                 {"[D", TERMINAL_LEFT},     {"OA", TERMINAL_UP},        {"OB", TERMINAL_DOWN},
                 {"OC", TERMINAL_RIGHT},    {"OD", TERMINAL_LEFT},      {"[H", TERMINAL_HOME},
                 {"[F", TERMINAL_END},      {"[1~", TERMINAL_HOME},     {"[4~", TERMINAL_END},
                 {"[5~", TERMINAL_PAGE_UP}, {"[6~", TERMINAL_PAGE_DOWN}};

/* The next key off the front of what was typed. What begins with an escape and is none we know is swallowed
 * to its end (ECMA-48: parameters, then a byte from @ to ~); an escape with nothing behind it is the key. 0:
 * none. */
static uint32_t next_key(struct bytes *in)
{
    const uint8_t first = in->p[0];
    size_t n = 1;
    uint32_t key = first == '\r' || first == '\n' ? TERMINAL_ENTER
                   : first == 0x7f || first == 8  ? TERMINAL_BACKSPACE
                   : first == '\t'                ? TERMINAL_TAB
                   : first == 0x1b                ? TERMINAL_ESCAPE
                   : first < 0x20                 ? 0
                                                  : first;
    if (first == 0x1b && in->n > 1 && (in->p[1] == '[' || in->p[1] == 'O')) {
        for (n = 2; n < in->n && (in->p[n] < '@' || in->p[n] > '~');)
            n++;
        n += n < in->n;
        key = 0;
        for (size_t i = 0; i < ARRAY_LEN(sequences); i++)
            if (bytes_eq(bytes_of(in->p + 1, n - 1), bytes_str(sequences[i].sequence)))
                key = sequences[i].key;
    } else if (first >= 0x80) {
        n = bytes_utf8_length(*in);
        key = 0;
        for (size_t i = 0; i < n; i++)
            key = key << 8 | in->p[i];
        n = n ? n : 1;
    }
    *in = bytes_of(in->p + n, in->n - n);
    return key;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct terminal *t = poll->data;
    uint8_t typed[READ_MAX];
    const ssize_t n = status < 0 ? -1 : read(t->keys, typed, sizeof typed);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        uv_poll_stop(poll);
        t->pressed(t->user, TERMINAL_GONE);
        return;
    }
    for (struct bytes in = bytes_of(typed, (size_t)n); in.n > 0;) {
        const uint32_t key = next_key(&in);
        if (key)
            t->pressed(t->user, key);
    }
}

static void on_resized(void *user, int signum)
{
    struct terminal *t = user;
    t->shown.n = 0;
    fputs("\x1b[2J", stdout);
    t->pressed(t->user, TERMINAL_RESIZED);
}

struct terminal *terminal_new(struct io_loop *loop, void (*pressed)(void *user, uint32_t key), void *user)
{
    struct termios raw;
    const char *name = ttyname(STDIN_FILENO);
    struct terminal *t = name && tcgetattr(STDIN_FILENO, &raw) == 0 ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    *t = (struct terminal){.pressed = pressed,
                           .user = user,
                           .before = raw,
                           .keys = open(name, O_RDONLY | O_NOCTTY | O_CLOEXEC),
                           .poll.data = t};
    t->resized = io_signal_new(loop, SIGWINCH, on_resized, t);
    if (!t->resized || t->keys < 0 || uv_poll_init(io_loop_uv(loop), &t->poll, t->keys) < 0) {
        io_signal_free(t->resized);
        if (t->keys >= 0)
            close(t->keys);
        free(t);
        return NULL;
    }
    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO); /* signals remain: Ctrl-C ends it as ever */
    raw.c_cc[VSUSP] = raw.c_cc[VMIN] = 0;
    raw.c_cc[VMIN] = 1;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs(ENTER, stdout);
    uv_poll_start(&t->poll, UV_READABLE, on_readable);
    return t;
}

static void on_closed(uv_handle_t *handle)
{
    struct terminal *t = handle->data;
    close(t->keys);
    buffer_release(&t->shown);
    free(t);
}

struct terminal *terminal_free(struct terminal *t)
{
    if (!t)
        return NULL;
    fputs(LEAVE, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
    io_signal_free(t->resized);
    uv_close((uv_handle_t *)&t->poll, on_closed);
    return NULL;
}

void terminal_size(uint32_t *ret_columns, uint32_t *ret_rows)
{
    struct winsize size;
    const bool knows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *ret_columns = knows ? size.ws_col : 80;
    *ret_rows = knows ? size.ws_row : 24;
}

static struct bytes next_line(struct bytes *rest)
{
    const uint8_t *end = rest->n > 0 ? memchr(rest->p, '\n', rest->n) : NULL;
    const size_t n = end ? (size_t)(end - rest->p) : rest->n;
    struct bytes line = bytes_of(rest->p, n);
    *rest = bytes_of(rest->p + n + (end != NULL), rest->n - n - (end != NULL));
    return line;
}

int terminal_show(struct terminal *t, struct bytes lines)
{
    struct bytes old = buffer_bytes(&t->shown), rest = lines;
    for (uint32_t row = 1; rest.n > 0 || old.n > 0; row++) {
        const struct bytes line = next_line(&rest), was = next_line(&old);
        if (t->shown.n > 0 && bytes_eq(line, was))
            continue;
        printf("\x1b[%u;1H", row);
        fwrite(line.n > 0 ? (const char *)line.p : "", 1, line.n, stdout);
        fputs("\x1b[K", stdout);
    }
    fflush(stdout);
    t->shown.n = 0;
    return buffer_add_bytes(&t->shown, lines);
}

struct bytes terminal_shown(const struct terminal *t)
{
    return buffer_bytes(&t->shown);
}
