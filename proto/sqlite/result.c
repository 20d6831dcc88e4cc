/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/sqlite/result.h"

#include <errno.h>
#include <sqlite3.h>

int sqlite_result(struct sqlite3 *db, int rc, int damaged)
{
    const int os = db ? sqlite3_system_errno(db) : 0;
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return 0;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
    case SQLITE_ERROR: return damaged; /* ERROR: a table of that name that has other columns */
    case SQLITE_FULL: return -ENOSPC;
    case SQLITE_NOMEM: return -ENOMEM;
    case SQLITE_READONLY: return -EROFS;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return -EBUSY;
    case SQLITE_CANTOPEN: return os > 0 ? -os : -EACCES;
    default: return os > 0 ? -os : -EIO;
    }
}
