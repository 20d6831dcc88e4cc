/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/procs/facts.h"

#include <ctype.h>
#include <errno.h>

#include "proto/base/macros.h"
#include "proto/base/quantity.h"

/* Takes what is in front of *rest up to a byte, which is left behind. */
static struct bytes take(struct bytes *rest, uint8_t end)
{
    const uint8_t *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    struct bytes front = bytes_of(rest->p, at ? (size_t)(at - rest->p) : rest->n);
    *rest = bytes_from(*rest, front.n + (at != NULL));
    return front;
}

static bool is_hex(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static size_t hex_run(struct bytes s)
{
    size_t n = 0;
    while (n < s.n && is_hex(s.p[n]))
        n++;
    return n;
}

/* An id that is all of `s`, or of what is behind its last '-' ("docker-<id>", "cri-containerd-<id>"). */
static struct bytes id_in(struct bytes s)
{
    if (hex_run(s) == 64 && s.n == 64)
        return s;
    if (hex_run(s) == 32 && s.n > 33 && s.n <= 33 + 20 && s.p[32] == '-') {
        uint64_t number;
        if (quantity_u64(bytes_of(s.p + 33, s.n - 33), &number) == 0)
            return s;
    }
    struct bytes last = bytes_after_last(s, '-');
    return last.n == 64 && hex_run(last) == 64 ? last : bytes_of(NULL, 0);
}

static struct bytes parent_of(struct bytes path)
{
    struct bytes last = bytes_after_last(path, '/');
    return last.n < path.n ? bytes_of(path.p, path.n - last.n - 1) : bytes_of(path.p, 0);
}

static struct bytes id_in_path(struct bytes path)
{
    /* The id may have one element of lower-case letters behind it: "…/<id>/init", "…/<id>.scope/container".
     */
    for (int level = 0; level < 2; level++) {
        struct bytes last = bytes_after_last(path, '/');
        static const char scope[] = ".scope";
        if (last.n > 6 && memcmp(last.p + last.n - 6, scope, 6) == 0)
            last.n -= 6;
        struct bytes id = id_in(last);
        if (id.p)
            return id;
        for (size_t i = 0; i < last.n; i++)
            if (last.p[i] < 'a' || last.p[i] > 'z')
                return bytes_of(NULL, 0);
        path = parent_of(path);
    }
    return bytes_of(NULL, 0);
}

struct bytes facts_container_id(struct bytes cgroup)
{
    while (cgroup.n > 0) {
        struct bytes id = id_in_path(take(&cgroup, '\n'));
        if (id.p)
            return id;
    }
    return bytes_of(NULL, 0);
}

struct bytes facts_variable(struct bytes environment, const char *name)
{
    size_t name_n = strlen(name);
    while (environment.n > 0) {
        struct bytes one = take(&environment, 0);
        if (one.n > name_n && one.p[name_n] == '=' && memcmp(one.p, name, name_n) == 0)
            return bytes_from(one, name_n + 1);
    }
    return bytes_of(NULL, 0);
}

int facts_start_ticks(struct bytes stat, uint64_t *ret)
{
    /* The name in parentheses may hold anything, parentheses and blanks too: fields count from the last ')'.
     */
    struct bytes rest = bytes_after_last(stat, ')');
    if (rest.n == stat.n)
        return -EINVAL;
    for (int field = 3; rest.n > 0; field++) {
        while (rest.n > 0 && rest.p[0] == ' ')
            rest = bytes_from(rest, 1);
        struct bytes word = take(&rest, ' ');
        if (field == 22)
            return quantity_u64(word, ret) == 0 ? 0 : -EINVAL;
    }
    return -EINVAL;
}

bool facts_status(struct bytes status, const char *label, uint32_t *ret)
{
    size_t n = strlen(label);
    while (status.n > 0 && memchr(status.p, '\n', status.n)) { /* else it is cut */
        struct bytes line = take(&status, '\n');
        if (line.n <= n || memcmp(line.p, label, n) != 0 || line.p[n] != ':')
            continue;
        struct bytes rest = bytes_trim(bytes_from(line, n + 1));
        uint64_t number;
        if (quantity_u64(take(&rest, '\t'), &number) < 0 || number > UINT32_MAX)
            return false;
        *ret = (uint32_t)number;
        return true;
    }
    return false;
}

uint32_t facts_namespace_pid(struct bytes status)
{
    static const char label[] = "\nNSpid:";
    const uint8_t *at = status.n ? memmem(status.p, status.n, label, sizeof label - 1) : NULL;
    if (!at)
        return 0;
    uint64_t pid;
    struct bytes rest = bytes_from(status, (size_t)(at - status.p) + sizeof label - 1);
    if (!memchr(rest.p, '\n', rest.n))
        return 0;
    struct bytes last = bytes_after_last(take(&rest, '\n'), '\t');
    return quantity_u64(last, &pid) == 0 && pid <= UINT32_MAX ? (uint32_t)pid : 0;
}

bool facts_is_linker(struct bytes path)
{
    struct bytes name = bytes_after_last(path, '/');
    return bytes_starts(name, "ld-linux") || bytes_starts(name, "ld-musl-") || bytes_starts(name, "ld.so") ||
           bytes_starts(name, "ld64.so");
}

/* The word in front of *rest, which moves behind its NUL; .p NULL: there is no more. */
static struct bytes next_word(struct bytes *rest)
{
    return rest->n && memchr(rest->p, 0, rest->n) ? take(rest, 0) : bytes_of(NULL, 0);
}

/* How far the value of a secret may be from the word which says that it is one. */
#define SECRET_NAME_MAX 128u

/* A word which says that a value is nobody's business. */
struct secret_word {
    const char *text;
    bool is_whole; /* it is one where it is no part of another word ("pass" of "bypass") */
    bool is_last;  /* and nothing but its value follows: "--key=", not "--key-file=" */
};

static const struct secret_word secret_words[] = {
    {.text = "password"},    {.text = "passwd"},     {.text = "passphrase"}, {.text = "secret"},
    {.text = "token"},       {.text = "credential"}, {.text = "apikey"},     {.text = "api-key"},
    {.text = "api_key"},     {.text = "access-key"}, {.text = "access_key"}, {.text = "private-key"},
    {.text = "private_key"}, {.text = "cookie"},     {.text = "pwd"},        {.text = "authorization"},
    {.text = "bearer"},      {.text = "jwt"},        {"pass", true, false},  {"key", true, true},
    {"auth", true, true},
};

/* Whether `name` has the word at `at`. */
static bool has_word(struct bytes name, size_t at, const struct secret_word *word)
{
    size_t n = strlen(word->text);
    if (name.n - at < n || strncasecmp((const char *)name.p + at, word->text, n) != 0)
        return false;
    struct bytes rest = bytes_from(name, at + n);
    if (word->is_whole && ((at > 0 && isalpha(name.p[at - 1])) || (rest.n > 0 && isalpha(rest.p[0]))))
        return false;
    return !word->is_last || rest.n == 0 || memchr("=: \"'", rest.p[0], 5);
}

/* What follows the first word of `name` which says that a value is nobody's business; .p NULL: none does. */
static struct bytes behind_secret(struct bytes name)
{
    for (size_t at = 0; at < name.n; at++)
        for (size_t i = 0; strchr("aAbBcCjJkKpPsStT", name.p[at]) && i < ARRAY_LEN(secret_words); i++)
            if (has_word(name, at, &secret_words[i]))
                return bytes_from(name, at + strlen(secret_words[i].text));
    return bytes_of(NULL, 0);
}

static bool is_secret(struct bytes name)
{
    return behind_secret(name).p != NULL;
}

/* Within an argument (a URL's query, a connection string, what a shell is told): where the value of a secret
 * begins, which goes on to the argument's end; 0: nowhere. */
static size_t find_secret(struct bytes word)
{
    static const char between[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.\"' ";
    for (struct bytes rest = behind_secret(word); rest.p; rest = behind_secret(rest)) {
        size_t n = 0;
        while (n < rest.n && n < SECRET_NAME_MAX && strchr(between, rest.p[n]) && rest.p[n])
            n++;
        bool is_text = n > 0 && strchr("\"' ", rest.p[n - 1]),
             is_yaml = n + 1 < rest.n && rest.p[n + 1] == ' ';
        if (n < rest.n && (rest.p[n] == '=' || (rest.p[n] == ':' && (is_text || is_yaml))))
            return (size_t)(rest.p + n + 1 - word.p);
    }
    return 0;
}

/* A line that is being written; what finds no room is left out. */
struct line {
    char *to;
    size_t n, room;
};

static void put(struct line *l, struct bytes text)
{
    while (text.n > 0) {
        size_t n = bytes_utf8_length(text);
        if (l->room - l->n < (n ? n : 1)) {
            l->room = l->n; /* and nothing behind it, either */
            return;
        }
        memcpy(l->to + l->n, n ? (const char *)text.p : "?", n ? n : 1);
        l->n += n ? n : 1;
        text = bytes_from(text, n ? n : 1);
    }
}

/* "scheme://user:password@host": where the password begins, and how long it is. False: there is none. */
static bool find_password(struct bytes word, size_t *ret_at, size_t *ret_n)
{
    const uint8_t *scheme = memmem(word.p, word.n, "://", 3);
    if (!scheme)
        return false;
    size_t at = (size_t)(scheme - word.p) + 3;
    const uint8_t *slash = memchr(word.p + at, '/', word.n - at);
    size_t n = slash ? (size_t)(slash - word.p) - at : word.n - at;
    const uint8_t *host = memrchr(word.p + at, '@', n);
    const uint8_t *colon = host ? memchr(word.p + at, ':', (size_t)(host - word.p) - at) : NULL;
    if (!colon)
        return false;
    *ret_at = (size_t)(colon - word.p) + 1;
    *ret_n = (size_t)(host - colon) - 1;
    return true;
}

/* One argument. Whether the next one is the secret that this one names. */
static bool put_argument(struct line *l, struct bytes word)
{
    size_t name_n = 0, at, n, secret = find_secret(bytes_of(word.p, min_of(word.n, l->room)));
    while (name_n < word.n && word.p[name_n] != '=' && word.p[name_n] != ':')
        name_n++;
    bool names_one = is_secret(bytes_of(word.p, min_of(name_n, l->room)));
    if (names_one && name_n < word.n) {
        put(l, bytes_of(word.p, name_n + 1));
        put(l, BYTES_LIT("***"));
    } else {
        struct bytes said = secret ? bytes_of(word.p, secret) : word;
        while (find_password(said, &at, &n)) {
            put(l, bytes_of(said.p, at));
            put(l, BYTES_LIT("***"));
            said = bytes_from(said, at + n);
        }
        put(l, said);
        if (secret)
            put(l, BYTES_LIT("***"));
    }
    return names_one && name_n == word.n && bytes_starts(word, "-");
}

/* Options of one letter whose value is a secret ("-pSECRET", "-p SECRET"), by what their programs' names
 * begin with: elsewhere the same letter is a port, a path or a pid. */
static const struct {
    const char *program;
    char letter;
} secret_letters[] = {
    {"mysql", 'p'}, {"mariadb", 'p'}, {"mongo", 'p'}, {"sshpass", 'p'},   {"7z", 'p'},        {"zip", 'P'},
    {"unzip", 'P'}, {"curl", 'u'},    {"ldap", 'w'},  {"redis-cli", 'a'}, {"smbclient", 'U'},
};

/* The letter of a program; 0: it has none. Whoever runs it (env, docker, sudo) is given its words. */
static char secret_letter(struct bytes program)
{
    struct bytes name = bytes_after_last(program, '/');
    for (size_t i = 0; i < ARRAY_LEN(secret_letters); i++)
        if (bytes_starts(name, secret_letters[i].program))
            return secret_letters[i].letter;
    return 0;
}

/* A word of a command line in which `letter` stands for a secret. Whether the next one is a secret. */
static bool put_word(struct line *l, struct bytes word, char letter)
{
    bool is_letter = letter && word.n >= 2 && word.p[0] == '-' && word.p[1] == (uint8_t)letter;
    if (!is_letter)
        return put_argument(l, word);
    put(l, bytes_of(word.p, 2));
    if (word.n > 2)
        put(l, BYTES_LIT("***"));
    return word.n == 2;
}

size_t facts_command_line(struct bytes command_line, char *to, size_t room)
{
    struct line l = {to, 0, room};
    bool is_next_secret = false;
    char letter = 0;
    while (command_line.n > 0 && command_line.p[command_line.n - 1] == 0)
        command_line.n--;
    for (bool is_first = true; command_line.n > 0 && l.n < l.room; is_first = false) {
        struct bytes word = take(&command_line, 0);
        if (!is_first)
            put(&l, BYTES_LIT(" "));
        if (is_next_secret && !bytes_starts(word, "-")) {
            put(&l, BYTES_LIT("***"));
            is_next_secret = false;
        } else {
            is_next_secret = put_word(&l, word, letter);
            letter = letter ? letter : secret_letter(word);
        }
    }
    return l.n;
}

struct bytes facts_linked_program(struct bytes command_line)
{
    static const char *const with_value[] = {
        "--library-path",
        "--glibc-hwcaps-prepend",
        "--glibc-hwcaps-mask",
        "--inhibit-rpath",
        "--audit",
        "--preload",
        "--argv0",
    };
    (void)next_word(&command_line); /* its own name */
    for (struct bytes word; (word = next_word(&command_line)).p;) {
        if (!bytes_starts(word, "--"))
            return word;
        for (size_t i = 0; i < ARRAY_LEN(with_value); i++)
            if (bytes_is(word, with_value[i]))
                (void)next_word(&command_line);
    }
    return bytes_of(NULL, 0);
}
