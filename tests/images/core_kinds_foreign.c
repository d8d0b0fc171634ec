#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __powerpc64__
register void *thread_pointer __asm__("r13");  /* gcc 12 has no builtin for it here */
#define THREAD_POINTER thread_pointer
#else
#define THREAD_POINTER __builtin_thread_pointer()
#endif
static pthread_barrier_t barrier;
static void *run(void *unused) {
    char here;
    printf("sp_first %p\ntp_first %p\n", (void *)&here, THREAD_POINTER);
    pthread_barrier_wait(&barrier);
    for (;;) pause();
}
int main(void) {
    char here, *block = malloc(1000);
    pthread_t thread;
    memset(block, 'm', 1000);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, run, NULL);
    pthread_barrier_wait(&barrier);
    printf("block %p\nsp_main %p\ntp_main %p\nready 0\n", block, (void *)&here, THREAD_POINTER);
    fflush(stdout);
    for (;;) pause();
}
