/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_sqlite3 */
#include "proto/sqlite/result.h"

#include <errno.h>
#include <sqlite3.h>

#include "tests/lib/unit.h"

#define DAMAGED 7

UNIT(what_became_of_a_call)
{
    static const struct {
        int rc, want;
    } cases[] = {
        {SQLITE_OK, 0},
        {SQLITE_ROW, 0},
        {SQLITE_DONE, 0},
        {SQLITE_CORRUPT, DAMAGED},
        {SQLITE_CORRUPT_INDEX, DAMAGED},
        {SQLITE_NOTADB, DAMAGED},
        {SQLITE_ERROR, DAMAGED},
        {SQLITE_FULL, -ENOSPC},
        {SQLITE_NOMEM, -ENOMEM},
        {SQLITE_IOERR_NOMEM, -EIO},
        {SQLITE_READONLY_DBMOVED, -EROFS},
        {SQLITE_BUSY_SNAPSHOT, -EBUSY},
        {SQLITE_CANTOPEN, -EACCES},
        {SQLITE_IOERR_FSYNC, -EIO},
        {SQLITE_PERM, -EIO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(sqlite_result(NULL, cases[i].rc, DAMAGED) == cases[i].want, "%d: %d", cases[i].rc,
                      sqlite_result(NULL, cases[i].rc, DAMAGED));
}

UNIT(the_systems_own_word_is_kept)
{
    struct sqlite3 *db = NULL;
    int rc = sqlite3_open_v2("/nowhere/at/all.sqlite", &db, SQLITE_OPEN_READWRITE, NULL);
    ck_assert_int_eq(sqlite_result(db, rc, DAMAGED), -ENOENT);
    sqlite3_close(db);
}
