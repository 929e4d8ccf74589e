/* A disk whose syncs take long. DQ_SLOW_SYNC names a file with three numbers of 64 bits: for how many ms each sync of an
 * append-only file waits before it begins; how long that file was when the last sync that was completed began, in bytes;
 * and when that was, in us of the monotonic clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *page;

__attribute__((constructor)) static void map_page(void) {
    const char *name = getenv("DQ_SLOW_SYNC");
    int fd = name ? open(name, O_RDWR) : -1;
    if (fd < 0) return;
    void *mapped = mmap(0, 3 * sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) page = mapped;
    close(fd);
}

static int is_append_only_file(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, ".incr.aof") != 0;
}

static int sync_with(long call, int fd) {
    struct stat about;
    struct timespec now;
    int known = page && is_append_only_file(fd) && fstat(fd, &about) == 0;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    if (known) usleep(page[0] * 1000);
    int done = (int)syscall(call, fd);
    if (known && done == 0) {
        page[1] = about.st_size;
        page[2] = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
    }
    return done;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }

int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }
