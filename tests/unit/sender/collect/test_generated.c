/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "sender/collect/generated.h"

/* This very process has the map. */
static char path[64];
static struct procs *procs;
static struct process self;
static struct ledger ledger;
static struct generated g;

static void begin(void)
{
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    procs = unit_made(procs_new("/proc"));
    self = (struct process){.pid = (uint32_t)getpid(), .namespace_pid = (uint32_t)getpid(), .serial = 7};
    ledger_init(&ledger, LEDGER_SAVED);
}

static void end(void)
{
    unlink(path);
    generated_release(&g);
    procs_free(procs);
}

static void write_map(const char *mode, const char *text)
{
    FILE *f = unit_made(fopen(path, mode));
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

/* What one window cost. */
static int64_t window(uint64_t address)
{
    struct allowance *user = ledger_of(&ledger, self.user, NSEC_PER_SEC);
    int64_t before = user->left;
    generated_note(&g, &self, address);
    generated_settle(&g, procs, &ledger, NSEC_PER_SEC);
    return before - user->left;
}

UNIT(a_map_that_has_not_changed_is_not_read_again)
{
    begin();
    write_map("w", "1000 10 first\n2000 10 second\n");
    int64_t reading = window(0x1001);
    ck_assert(bytes_is(generated_name(&g, &self, 0x1001), "first"));
    generated_next(&g);
    ck_assert_int_lt(window(0x1001), reading);
    ck_assert(bytes_is(generated_name(&g, &self, 0x1001), "first"));
    generated_next(&g);
    ck_assert_int_ge(window(0x2001), reading); /* an address that is new */
    ck_assert(bytes_is(generated_name(&g, &self, 0x2001), "second"));
    generated_next(&g);
    usleep(20000); /* change times are those of ticks */
    write_map("a", "1000 10 moved\n");
    (void)window(0x1001);
    ck_assert(bytes_is(generated_name(&g, &self, 0x1001), "moved"));
    end();
}

UNIT(what_has_no_allowance_has_no_name_until_it_has)
{
    begin();
    write_map("w", "1000 10 first\n");
    struct allowance *user = ledger_of(&ledger, self.user, NSEC_PER_SEC);
    int64_t had = user->left;
    user->left = 3000; /* enough to begin */
    (void)window(0x1001);
    ck_assert_ptr_null(generated_name(&g, &self, 0x1001).p);
    generated_next(&g);
    user->left = had;
    (void)window(0x1001);
    ck_assert(bytes_is(generated_name(&g, &self, 0x1001), "first"));
    end();
}

UNIT(many_large_maps_cost_one_user_s_share)
{
    static char line[1 << 16];
    begin();
    for (size_t i = 0; i < sizeof line - 1; i += 16)
        memcpy(line + i, "1000 10 again..\n", 16);
    line[sizeof line - 1] = 0;
    for (int i = 0; i < 256; i++)
        write_map(i ? "a" : "w", line);
    int64_t all = 0;
    for (int i = 0; i < 48; i++) { /* processes of one user, each with a map of 16 MiB */
        struct process other = self;
        other.serial = 100u + (unsigned)i;
        struct allowance *user = ledger_of(&ledger, self.user, NSEC_PER_SEC);
        int64_t before = user->left;
        generated_note(&g, &other, 0x1001);
        generated_settle(&g, procs, &ledger, NSEC_PER_SEC);
        all += before - user->left;
        generated_next(&g);
    }
    ck_assert_int_ge(all, LEDGER_SAVED * 9 / 10); /* there always is some for one more */
    ck_assert_int_le(all, LEDGER_SAVED + (1 << 20));
    ck_assert(!allowance_is_spent(ledger_of(&ledger, self.user + 1, NSEC_PER_SEC)));
    ck_assert_uint_lt(g.text_n, 4096);
    end();
}
