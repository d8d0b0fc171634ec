#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static char *area(const char *name) {
    char *m = mmap(0, 18 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    mprotect(m, 16 * 4096, PROT_READ | PROT_WRITE);
    madvise(m, 16 * 4096, MADV_NOHUGEPAGE);
    memset(m, 1, 8 * 4096);
    printf("%s %p\n", name, m);
    return m;
}
int main(void) {
    printf("guards %d\n", !madvise(area("guarded") + 6 * 4096, 4 * 4096, 102 /* MADV_GUARD_INSTALL */));
    char *watched = area("watched");
    int done = 0;
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {UFFD_API, 1 << 13 /* UFFD_FEATURE_WP_UNPOPULATED */, 0};
    struct uffdio_register all = {{(long)watched, 16 * 4096}, UFFDIO_REGISTER_MODE_WP, 0};
    struct uffdio_writeprotect some = {{(long)watched + 6 * 4096, 4 * 4096}, UFFDIO_WRITEPROTECT_MODE_WP};
    if (fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &all))
        done = !ioctl(fd, UFFDIO_WRITEPROTECT, &some);
    printf("watching %d\nready 0\n", done); fflush(stdout);
    for (;;) pause();
}
