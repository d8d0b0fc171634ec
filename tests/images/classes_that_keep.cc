// Statements that keep buffers, on sessions of which there are few. Prints what the statements and their buffers have.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

class Statement {
public:
    explicit Statement(size_t bytes) : text_(static_cast<char *>(malloc(bytes))) { memset(text_, 0x81, bytes); }
    virtual ~Statement() { free(text_); }
    size_t bytes() { return malloc_usable_size(text_) + malloc_usable_size(this) + 2 * sizeof(size_t); }

private:
    char *text_;
};

class Session {
public:
    virtual ~Session() {}
    Statement *statements[100];
};

static Session *sessions[20];

int main() {
    size_t bytes = 0;
    for (Session *&session : sessions) {
        session = new Session;
        for (int i = 0; i < 100; i++) {
            session->statements[i] = new Statement(600 + i);
            bytes += session->statements[i]->bytes();
        }
    }
    // a neighbour that nothing is to be told of
    static char *config = static_cast<char *>(malloc(100000));
    memset(config, 0x82, 100000);
    printf("%zu\n", bytes);
    fflush(stdout);
    pause();
}
