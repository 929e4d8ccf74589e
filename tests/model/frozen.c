/* Stops the clocks that a module of the server reads: the boot clock and the wall clock stand where the file that
 * DQ_FROZEN_CLOCK names says: the boot time in us, and by how many us the wall clock is ahead of it. So one write moves
 * both. The server itself, and the monotonic clock, go on.
 *
 * Threads other than the first see the boot clock go on from where it stands: they only sleep to a moment and then call
 * the first, which finds nothing to be due that is not. A module's thread sleeps 1 ms at the longest, so that it sees soon
 * that the clock was moved. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long long *clocks;
static char *module_start, *module_end;

__attribute__((constructor)) static void map_clocks(void) {
    const char *name = getenv("DQ_FROZEN_CLOCK");
    int fd = name ? open(name, O_RDONLY) : -1;
    if (fd < 0) return;
    void *page = mmap(0, 2 * sizeof *clocks, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) clocks = page;
    close(fd);
}

static int note_range(struct dl_phdr_info *info, size_t size, void *base) {
    (void)size;
    if ((ElfW(Addr))base != info->dlpi_addr) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        char *start = (char *)info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD) continue;
        if (!module_start || start < module_start) module_start = start;
        if (start + part->p_memsz > module_end) module_end = start + part->p_memsz;
    }
    return 1;
}

/* Valkey 9 opens modules with RTLD_DEEPBIND, past what is preloaded. */
void *dlopen(const char *file, int flags) {
    static void *(*real)(const char *, int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    void *handle = real(file, flags & ~RTLD_DEEPBIND);
    struct link_map *map = 0;
    if (handle && file && dlsym(handle, "RedisModule_OnLoad")
        && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
        module_start = module_end = 0;
        dl_iterate_phdr(note_range, (void *)map->l_addr);
    }
    return handle;
}

static int is_module(void *caller) {
    return (char *)caller >= module_start && (char *)caller < module_end;
}

static long long real_us(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* The frozen boot clock, and what has passed since this thread first saw it there. */
static long long going_on(void) {
    static __thread long long seen, seen_at;
    long long boot = clocks[0];
    if (boot != seen) {
        seen = boot;
        seen_at = real_us();
    }
    return boot + real_us() - seen_at;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!clocks || (clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME) || !is_module(__builtin_return_address(0)))
        return (int)syscall(SYS_clock_gettime, clock, time);
    long long us = clock == CLOCK_REALTIME ? clocks[0] + clocks[1] : syscall(SYS_gettid) == getpid() ? clocks[0] : going_on();
    time->tv_sec = us / 1000000;
    time->tv_nsec = us % 1000000 * 1000;
    return 0;
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    struct timespec soon;
    int waits = number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && a[3];
    if (waits && clocks && is_module(__builtin_return_address(0))) {
        real(SYS_clock_gettime, CLOCK_MONOTONIC, &soon);
        soon.tv_nsec += 1000000;
        if (soon.tv_nsec >= 1000000000) { soon.tv_nsec -= 1000000000; soon.tv_sec++; }
        const struct timespec *asked = (const struct timespec *)a[3];
        int sooner = asked->tv_sec < soon.tv_sec || (asked->tv_sec == soon.tv_sec && asked->tv_nsec < soon.tv_nsec);
        if (!sooner) a[3] = (long)&soon;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
