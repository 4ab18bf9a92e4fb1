/* Preloaded into servers with SQLite: a sync takes 1 ms while the file SLOW_SYNC exists, what the disk takes while
   REAL_SYNC exists, and otherwise no time. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int fd) {
  if (access(getenv("SLOW_SYNC"), F_OK) == 0) return usleep(1000);
  return access(getenv("REAL_SYNC"), F_OK) == 0 ? syscall(SYS_fdatasync, fd) : 0;
}

int fsync(int fd) { return fdatasync(fd); }
