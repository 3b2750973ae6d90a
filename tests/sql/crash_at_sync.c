/* Preloaded into a server (LD_PRELOAD): ends it at a sync of its binary log, which no engine is told of.
 *
 * FROND_CRASH_POINT=name:n, as for the points in the plugin; of these names:
 *
 *   before_binlog_sync   at the n-th sync, before it: what was written is there
 *   lost_binlog          the same, and what was written since the sync before is lost, as in a power failure
 *   after_binlog_sync    at the n-th sync, after it: no engine has committed yet
 *
 * The server holds its lock of the binary log over the write and the sync, so nothing is appended meanwhile.
 */

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The file that was synced last, and its length then. */
static ino_t file;
static off_t synced;
static long calls;

/* binlog.000001, not its index or state. */
static int is_binlog(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    const char *name = strstr(path, "/binlog.");
    return name && strspn(name + 8, "0123456789") == strlen(name + 8);
}

static void die(void) { kill(getpid(), SIGKILL); }

int fdatasync(int fd)
{
    const char *point = getenv("FROND_CRASH_POINT");
    const char *colon = point ? strrchr(point, ':') : NULL;
    struct stat now;
    if (!colon || !strstr(point, "_binlog") || !is_binlog(fd) || fstat(fd, &now))
        return (int)syscall(SYS_fdatasync, fd);
    /* Only syncs of a file that was synced before count: a new file could lose its head. */
    const int here = file == now.st_ino && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == atol(colon + 1);
    if (here && !strncmp(point, "lost_binlog:", 12) && ftruncate(fd, synced))
        abort();
    if (here && strncmp(point, "after_", 6))
        die();
    const int status = (int)syscall(SYS_fdatasync, fd);
    if (here)
        die();
    file = now.st_ino;
    synced = now.st_size;
    return status;
}
