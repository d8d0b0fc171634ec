#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int parked;
static void *work(void *where) {
    size_t how = (size_t)where, size = how << 20, tid = syscall(SYS_gettid);
    char *block = malloc(size), *volatile here;
    memset(block, 'x', size);
    printf("%zu %zu\n", tid, size);
    here = how & 1 ? block : NULL;
    if (!(how & 2)) block = NULL;
    __asm__ volatile("xor %%esi, %%esi\n xor %%edi, %%edi\n xor %%edx, %%edx\n xor %%r8d, %%r8d\n"
                     "xor %%r9d, %%r9d\n xor %%r10d, %%r10d\n xor %%r12d, %%r12d\n xor %%r13d, %%r13d\n"
                     "xor %%r14d, %%r14d\n xor %%r15d, %%r15d\n"
                     "incl parked(%%rip)\n 1: mov $34, %%eax\n syscall\n jmp 1b"
                     : : "b"(block), "m"(here)
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                       "memory");
    return where;
}
int main(void) {
    pthread_t thread;
    for (size_t how = 1; how < 4; how++) {
        if (pthread_create(&thread, NULL, work, (void *)how)) return 1;
        while (parked < (int)how) usleep(1000);
    }
    puts("ready");
    fflush(stdout);
    pause();
}
