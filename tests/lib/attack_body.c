/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/attack_kind.h"
#include "tests/lib/attack_profile.h"

#define BOMB_BYTES (256u << 20)

/* Of the kinds that send them; also a bomb, made once. */
static struct wire *files;
static uint32_t n_files;
static uint64_t next_file;

static void die(const char *what)
{
    fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void files_new(size_t n)
{
    files = calloc(n, sizeof *files);
    if (!files)
        die("memory");
    n_files = (uint32_t)n;
}

void attack_body_prepare(const struct attack_kind *kind)
{
    files_new(1);
    kind->make(files);
}

void attack_body_load(char **paths, int n)
{
    files_new((size_t)n);
    for (int i = 0; i < n; i++) {
        FILE *f = fopen(paths[i], "rb");
        if (!f)
            die(paths[i]);
        static char piece[65536];
        for (size_t got; (got = fread(piece, 1, sizeof piece, f)) > 0;)
            wire_put(&files[i], piece, got);
        fclose(f);
    }
}

void attack_body_release(void)
{
    for (uint32_t i = 0; i < n_files; i++)
        wire_release(&files[i]);
    free(files);
    files = NULL;
    n_files = 0;
}

static void add_bomb_head(struct wire *w, const char *coding, size_t n)
{
    wire_format(w, ATTACK_POST_HEAD "Content-Encoding: %s\r\nContent-Length: %zu\r\n\r\n", coding, n);
}

static void make_gzip(struct wire *w)
{
    const size_t plain_n = BOMB_BYTES;
    uint8_t *plain = calloc(1, plain_n), *packed = malloc(plain_n / 100 + 1000);
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    if (!plain || !packed || !c)
        die("memory");
    size_t n = libdeflate_gzip_compress(c, plain, plain_n, packed, plain_n / 100 + 1000);
    add_bomb_head(w, "gzip", n);
    wire_put(w, packed, n);
    libdeflate_free_compressor(c);
    free(plain);
    free(packed);
}

/* RFC 8878 §3.1.1: a frame without size of blocks that repeat one byte 128 KiB times, four bytes each. */
static void make_zstd(struct wire *w)
{
    static const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58}; /* window: 2 MiB */
    const uint32_t block = 128u << 10;
    struct wire body = {0};
    wire_put(&body, head, sizeof head);
    for (size_t at = 0; at < BOMB_BYTES; at += block) {
        uint32_t h = (at + block >= BOMB_BYTES) | 1u << 1 | block << 3;
        uint8_t bytes[4] = {(uint8_t)h, (uint8_t)(h >> 8), (uint8_t)(h >> 16), 0};
        wire_put(&body, bytes, sizeof bytes);
    }
    add_bomb_head(w, "zstd", body.n);
    wire_put(w, body.p, body.n);
    wire_release(&body);
}

static bool more_bomb(struct attack_peer *p)
{
    wire_put(&p->out, files->p, files->n);
    return true;
}

static void make_colliding(struct wire *w)
{
    struct wire body = {0};
    attack_profile_colliding(&body);
    wire_format(w, ATTACK_POST_HEAD "Content-Length: %zu\r\n\r\n", body.n);
    wire_put(w, body.p, body.n);
    wire_release(&body);
}

/* One file a time on one connection: the next when the answer is there is not waited for, but the socket
 * is. */
static bool more_file(struct attack_peer *p)
{
    const struct wire *f = &files[next_file++ % n_files];
    wire_format(&p->out, ATTACK_POST_HEAD "Content-Length: %zu\r\n\r\n", f->n);
    wire_put(&p->out, f->p, f->n);
    return true;
}

/* clang-format off */
const struct attack_kind attack_body[] = {
    {"gzip-bomb", "256 MiB of zeros in 256 KB of gzip", "decompression bomb, CVE-2003-1564 and kin", "413", NULL, more_bomb, 0, 0, make_gzip},
    {"zstd-bomb", "256 MiB of zeros in 8 KB of zstd", "RFC 8878 §7", "413", NULL, more_bomb, 0, 0, make_zstd},
    {"colliding-names", "12288 names that share a hash unless it is keyed well", "hash flooding, CVE-2011-4815 and kin", "200 each", NULL, more_bomb, 0, 0, make_colliding},
    {"files", "the files named, by HTTP/1, without waiting", "hostile content: tests/lib/attack_content.py", "200, 400 or 413, 503 each", NULL, more_file, 0, ATTACK_FILES},
};
/* clang-format on */

const size_t attack_body_n = sizeof attack_body / sizeof *attack_body;
