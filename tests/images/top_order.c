#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    static char *blocks[COUNT];
    struct mallinfo2 info;
    size_t i;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (i = 0; i < COUNT; i++) memset(blocks[i] = malloc(BYTES), 1, BYTES);
    for (i = 0; i < COUNT; i += 2) free(blocks[i]);
    info = mallinfo2();
    printf("arena %zx\nfree %zx\nfast %zx\nready 0\n", info.arena, info.fordblks, info.fsmblks);
    pause();
    return 0;
}
