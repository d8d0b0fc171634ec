#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct nodeQQQQ { struct nodeQQQQ *nextQQQQ; char *textQQQQ; long numbers[6]; };
struct lostQQQQ { struct lostQQQQ *otherQQQQ; long numbers[20]; };
struct nodeQQQQ *globalQQQQ;
struct nodeQQQQ *tableQQQQ[64];
__thread struct nodeQQQQ *threadQQQQ;
static struct nodeQQQQ *makeQQQQ(struct nodeQQQQ *next) {
    struct nodeQQQQ *made = calloc(1, sizeof *made);
    made->nextQQQQ = next;
    made->textQQQQ = strdup("text of the program's QQQQ, which is long enough");
    return made;
}
static void *workQQQQ(void *unused) {
    pthread_setname_np(pthread_self(), "thrQQQQ");
    for (int i = 0; i < 300; i++)
        threadQQQQ = makeQQQQ(threadQQQQ);
    for (int i = 0; i < 200; i++)
        ((struct lostQQQQ *)calloc(1, sizeof(struct lostQQQQ)))->numbers[3] = i + 12345678901;
    puts("ready");
    fflush(stdout);
    pause();
    return unused;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 500; i++)
        globalQQQQ = makeQQQQ(globalQQQQ);
    for (int i = 0; i < 64; i++)
        tableQQQQ[i] = makeQQQQ(NULL);
    pthread_create(&thread, NULL, workQQQQ, NULL);
    pthread_join(thread, NULL);
}
