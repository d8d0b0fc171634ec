#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <unistd.h>
struct Server { char *body; };
Server *server;
static void *forever(void *) { for (;;) pause(); }
int main() {
    server = new Server{(char *)malloc(1 << 20)};
    memset(server->body, 'x', 1 << 20);
    pthread_t started;
    pthread_create(&started, nullptr, forever, server);
    pthread_create(&started, nullptr, forever, calloc(1, 3000));
    std::thread([](Server *given) { forever(given); }, server).detach();
    volatile char over[8192];
    for (size_t i = 0; i < sizeof over; i++) over[i] = 0;
    usleep(300000);
    puts("ready");
    fflush(stdout);
    pause();
}
