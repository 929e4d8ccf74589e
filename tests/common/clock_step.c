/* Adds an offset in ms, read from the file that DQ_CLOCK_OFFSET names, to the wall clock of the
 * process that preloads this. The monotonic clocks are left alone. The second number in the file
 * says for how many ms a thread is held up before it reads the wall clock by clock_gettime. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *name = getenv("DQ_CLOCK_OFFSET");
    int fd = name ? open(name, O_RDONLY) : -1;
    if (fd < 0) return;
    void *page = mmap(0, 2 * sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) offset = page;
    close(fd);
}

/* Valkey 9 opens modules with RTLD_DEEPBIND, past what is preloaded. */
void *dlopen(const char *file, int flags) {
    static void *(*real)(const char *, int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    return real(file, flags & ~RTLD_DEEPBIND);
}

static int shown(clockid_t clock, struct timespec *time) {
    long done = syscall(SYS_clock_gettime, clock, time);
    if (done == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long ns = time->tv_nsec + (*offset % 1000) * 1000000LL;
        time->tv_sec += *offset / 1000;
        while (ns < 0) { ns += 1000000000LL; time->tv_sec--; }
        while (ns >= 1000000000LL) { ns -= 1000000000LL; time->tv_sec++; }
        time->tv_nsec = ns;
    }
    return (int)done;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (offset && clock == CLOCK_REALTIME && offset[1] > 0) usleep(offset[1] * 1000);
    return shown(clock, time);
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int done = shown(CLOCK_REALTIME, &now);
    tv->tv_sec = now.tv_sec;
    tv->tv_usec = now.tv_nsec / 1000;
    return done;
}

time_t time(time_t *out) {
    struct timespec now;
    shown(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
