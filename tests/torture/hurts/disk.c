/* A disk that can be full, and that knows what of each file is safe. DQ_DISK names a folder: while the first byte of its
 * file `full` is not 0, nothing more goes into any file but the log; and whenever a file was synced, a file of the
 * folder that is named after its inode says how long it was when that began, and when that was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char folder[4000];
static volatile unsigned char *full;
static unsigned char was_full;

__attribute__((constructor)) static void find_folder(void) {
    char path[4096];
    const char *name = getenv("DQ_DISK");
    if (!name) return;
    /* The server writes over its environment. */
    snprintf(folder, sizeof folder, "%s", name);
    snprintf(path, sizeof path, "%s/full", folder);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return;
    void *page = mmap(0, 1, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) full = page;
    close(fd);
}

static int is_file(int fd, struct stat *about) {
    return fd > STDERR_FILENO && fstat(fd, about) == 0 && S_ISREG(about->st_mode);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    struct stat about;
    unsigned char now = full ? *full : 0;
    if (now && count > 0 && is_file(fd, &about)) {
        /* What came first found some room. */
        if (was_full || count < 2) {
            errno = ENOSPC;
            return -1;
        }
        count /= 2;
    }
    was_full = now;
    return syscall(SYS_write, fd, bytes, count);
}

size_t fwrite(const void *restrict bytes, size_t size, size_t count, FILE *restrict file) {
    static size_t (*real)(const void *, size_t, size_t, FILE *);
    struct stat about;
    if (full && *full && is_file(fileno(file), &about)) {
        errno = ENOSPC;
        return 0;
    }
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fwrite");
    return real(bytes, size, count, file);
}

static int64_t now_us(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static int sync_with(long call, int fd) {
    struct stat about;
    int known = folder[0] && is_file(fd, &about);
    int64_t note[2] = {known ? about.st_size : 0, now_us()};
    int done = (int)syscall(call, fd);
    if (done == 0 && known) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%ju", folder, (uintmax_t)about.st_ino);
        int out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (out >= 0) {
            syscall(SYS_pwrite64, out, note, sizeof note, 0);
            close(out);
        }
    }
    return done;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }

int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }
