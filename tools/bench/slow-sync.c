/* Preloaded into a server on tmpfs: while the file SLOW_SYNC exists, every sync takes at least 1 ms, as on a disk of that
   speed. Otherwise it does nothing, as tmpfs itself. */
#include <stdlib.h>
#include <unistd.h>

int fsync(int fd) { return fd < 0 ? -1 : access(getenv("SLOW_SYNC"), F_OK) == 0 ? usleep(1000) : 0; }

int fdatasync(int fd) { return fsync(fd); }
