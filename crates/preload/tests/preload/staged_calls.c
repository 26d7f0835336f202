/* Calls of programs whose files are staged. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void told(const char *what, int answer) { printf("%s: %s\n", what, answer < 0 ? strerror(errno) : "done"); }

static int made(const char *name, const char *text) {
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) return -1;
    return close(fd);
}

static int added(const char *name, const char *text) {
    int fd = open(name, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) return -1;
    return close(fd);
}

/* Files are made; whoever reads the output does something to their names, and they are changed after a line of input. */
static int names(void) {
    if (made("one", "first") != 0 || made("moving", "image") != 0) return 1;
    /* Open for writing: the launcher leaves both alone. */
    int kept[] = {open("one", O_WRONLY), open("moving", O_WRONLY)};
    puts("made");
    fflush(stdout);
    getchar();
    told("rename", rename("one", "two"));
    puts("now");
    fflush(stdout);
    getchar();
    told("write", added("moving", "MORE"));
    close(kept[0]);
    close(kept[1]);
    return 0;
}

/* Names with a staged file in the place of a folder, and of none at all. */
static int below(void) {
    const char *paths[] = {"one/", "one//", "one/x", "one/x/y", "one/..", "link/x", "link/", "sub/one/x", "none/x", "none/", "sub/none", "missing/x"};
    struct stat s;
    char text[16];
    mkdir("sub", 0755);
    if (made("one", "first") != 0 || made("sub/one", "second") != 0 || symlink("one", "link") != 0 || symlink("none", "missing") != 0) return 1;
    /* Open for writing: the launcher leaves both alone. */
    open("one", O_WRONLY), open("sub/one", O_WRONLY);
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        puts(paths[i]);
        told("open", open(paths[i], O_RDONLY));
        told("write", open(paths[i], O_WRONLY));
        told("make", open(paths[i], O_WRONLY | O_CREAT | O_EXCL, 0600));
        told("openat", openat(AT_FDCWD, paths[i], O_RDONLY));
        told("fopen", fopen(paths[i], "r") == NULL ? -1 : 0);
        told("stat", stat(paths[i], &s));
        told("lstat", lstat(paths[i], &s));
        told("fstatat", fstatat(AT_FDCWD, paths[i], &s, 0));
        told("access", access(paths[i], F_OK));
        told("readlink", readlink(paths[i], text, sizeof text));
        told("chmod", chmod(paths[i], 0600));
        told("truncate", truncate(paths[i], 0));
        told("unlink", unlink(paths[i]));
        told("remove", remove(paths[i]));
        told("rmdir", rmdir(paths[i]));
        told("rename from", rename(paths[i], "other"));
        told("rename to", rename("sub/one", paths[i]));
        told("symlink", symlink("x", paths[i]));
        remove(paths[i]);
    }
    return 0;
}

static volatile int is_over;
static char bytes[2 << 20];

static void *writes(void *unused) {
    int fd = open("/dev/null", O_WRONLY);
    while (!is_over) write(fd, bytes, sizeof bytes);
    close(fd);
    return unused;
}

/* Variables are set while other threads open their first file and write. */
static int variables(void) {
    pthread_t threads[2];
    char name[64];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, writes, NULL);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "VARIABLE_%d", i);
        setenv(name, "x", 1);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    puts("set");
    return 0;
}

static int handler_file;

static void handler(int number) {
    (void)number;
    write(handler_file, "in the handler\n", 15);
}

/* Prints how many bytes of its own stack a handler needs that writes to a file. */
static int handlers(void) {
    enum { STACK = 256 << 10 };
    unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t own = {.ss_sp = stack, .ss_size = STACK};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    handler_file = open("log", O_CREAT | O_APPEND | O_WRONLY, 0644);
    /* The loader looks for the function at its first call, and uses much of the stack. */
    write(STDOUT_FILENO, "", 0);
    memset(stack, 0xa5, STACK);
    sigaltstack(&own, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    int left = 0;
    while (stack[left] == 0xa5) left++;
    printf("%d\n", STACK - left);
    return 0;
}

int main(int count, char **words) {
    if (count != 3 || chdir(words[2]) != 0) return 2;
    if (strcmp(words[1], "names") == 0) return names();
    if (strcmp(words[1], "below") == 0) return below();
    if (strcmp(words[1], "variables") == 0) return variables();
    return handlers();
}
