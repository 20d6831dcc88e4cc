/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/coding dep_crypt dep_lz4 dep_openssl dep_rdkafka dep_sqlite3 dep_yaml */
#include "proto/base/library/library.h"

#include <crypt.h>
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <libdeflate.h>
#include <librdkafka/rdkafka.h>
#include <lz4frame.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <snappy-c.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yaml.h>
#include <zstd.h>

#include "tests/lib/unit.h"

/* Of each library, one of its functions. */
static bool crypt_works(void)
{
    return crypt_checksalt("$6$salt$") != CRYPT_SALT_INVALID && crypt_checksalt("%") == CRYPT_SALT_INVALID;
}

static bool deflate_works(void)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    const bool made = d != NULL;
    libdeflate_free_decompressor(d);
    return made;
}

static bool isal_works(void)
{
    static struct isal_zstream z;
    isal_deflate_init(&z);
    z.end_of_stream = 1;
    uint8_t out[64];
    z.next_out = out;
    z.avail_out = sizeof out;
    return isal_deflate(&z) == COMP_OK && z.avail_out < sizeof out;
}

static bool lz4_works(void)
{
    return LZ4F_isError((size_t)-1) && !LZ4F_isError(0);
}

static bool openssl_works(void)
{
    static const char secret[] = "secret";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    return TLS_client_method() && EVP_Digest(secret, sizeof secret, digest, &n, EVP_sha1(), NULL) && n == 20;
}

static bool rdkafka_works(void)
{
    return rd_kafka_version() > 0x01000000;
}

static bool snappy_works(void)
{
    char packed[64];
    size_t n = sizeof packed;
    return snappy_compress("aaaaaaaaaaaaaaaa", 16, packed, &n) == SNAPPY_OK;
}

static bool sqlite3_works(void)
{
    sqlite3 *db;
    const int rc = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL);
    return rc == SQLITE_OK && sqlite3_close(db) == SQLITE_OK;
}

static bool yaml_works(void)
{
    yaml_parser_t parser;
    const bool made = yaml_parser_initialize(&parser);
    yaml_parser_delete(&parser);
    return made;
}

static bool zstd_works(void)
{
    return !ZSTD_isError(ZSTD_compressBound(100));
}

static const struct {
    struct library *library;
    bool (*works)(void);
} all[] = {
    {&library_crypt, crypt_works},   {&library_deflate, deflate_works}, {&library_isal, isal_works},
    {&library_lz4, lz4_works},       {&library_openssl, openssl_works}, {&library_rdkafka, rdkafka_works},
    {&library_snappy, snappy_works}, {&library_sqlite3, sqlite3_works}, {&library_yaml, yaml_works},
    {&library_zstd, zstd_works},
};

static bool is_mapped(const char *name)
{
    char line[4096];
    bool found = false;
    FILE *f = unit_made(fopen("/proc/self/maps", "re"));
    while (fgets(line, sizeof line, f))
        found = found || strstr(line, name);
    fclose(f);
    return found;
}

UNIT(a_library_is_there_when_it_was_loaded_and_not_before)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct error e;
        ck_assert_ptr_nonnull(all[i].library);
        ck_assert_int_eq(library_load(all[i].library, &e), 0);
        ck_assert_int_eq(library_load(all[i].library, &e), 0);
        ck_assert_msg(all[i].works(), "%s", all[i].library->soname);
    }
}

UNIT(none_is_there_at_the_start)
{
    ck_assert(is_mapped("/libc."));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ck_assert_msg(!is_mapped(all[i].library->soname), "%s", all[i].library->soname);
    ck_assert_int_eq(library_load(&library_snappy, NULL), 0);
    ck_assert(is_mapped(library_snappy.soname));
}

UNIT(a_call_before_that_ends_the_process)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        sqlite3_works();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

UNIT(one_that_is_not_installed_is_named)
{
    struct library none = {.soname = "libprofgate-has-none.so.1", .names = ""};
    struct error e;
    ck_assert_int_eq(library_load(&none, &e), -ELIBACC);
    ck_assert_ptr_nonnull(strstr(e.text, "libprofgate-has-none.so.1: cannot open"));
}

UNIT(one_that_lacks_a_function_is_not_used_at_all)
{
    void *slots[2] = {NULL, NULL};
    struct library old = {
        .soname = "libsnappy.so.1", .names = "snappy_compress\0snappy_of_tomorrow\0", .slots = slots};
    struct error e;
    ck_assert_int_eq(library_load(&old, &e), -ELIBACC);
    ck_assert_str_eq(e.text, "libsnappy.so.1 has no snappy_of_tomorrow");
    ck_assert(!slots[0] && !slots[1]);
}
