#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* every other block is freed, too large for thread caches and fastbins: the rest keep them apart; few enough
 * that a look at hundreds of processes follows them all */
static pthread_barrier_t filled;
char *volatile mapped;
static void *fill(void *size) {
    static __thread char *blocks[120];
    size_t i, bytes = (size_t)size;
    for (i = 0; i < 120; i++) memset(blocks[i] = malloc(bytes), 1, bytes);
    for (i = 0; i < 120; i += 2) free(blocks[i]);
    return NULL;
}
static void *work(void *size) {
    fill(size);
    pthread_barrier_wait(&filled);
    pause();
    return NULL;
}
int main(void) {
    pthread_t thread;
    struct mallinfo2 info;
    setvbuf(stdout, NULL, _IONBF, 0);
    memset(mapped = malloc(300000), 1, 300000);
    fill((void *)2500);
    pthread_barrier_init(&filled, NULL, 2);
    pthread_create(&thread, NULL, work, (void *)12000);
    pthread_barrier_wait(&filled);
    info = mallinfo2();
    printf("arena %zx\nfree %zx\nfast %zx\nmapped %zx\nmapped_bytes %zx\nready 0\n", info.arena,
           info.fordblks, info.fsmblks, info.hblks, info.hblkhd);
    pause();
    return 0;
}
