/* A program with an allocator of its own, which unmaps memory while it has its lock, as several do. One thread frees memory for ever, another has maps
   of a file replaced. */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONG = 128 << 10, HEADER = 32 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char pool[256 << 20];
static size_t used;
static volatile long frees;

/* Before each block: its length, and whether it is mapped. */
static void *place(char *at, size_t len, size_t is_mapped) {
    ((size_t *)(at + HEADER))[-2] = len, ((size_t *)(at + HEADER))[-1] = is_mapped;
    return at + HEADER;
}

static void *allocated(size_t align, size_t len) {
    void *answer;
    size_t all = (len + HEADER + 31) & ~(size_t)31;
    pthread_mutex_lock(&lock);
    if (all >= LONG && align <= HEADER) {
        answer = place(mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), all, 1);
    } else {
        size_t start = ((size_t)pool + used + HEADER + align - 1) / align * align - HEADER;
        used = start + all - (size_t)pool;
        answer = place((char *)start, all, 0);
    }
    pthread_mutex_unlock(&lock);
    return answer;
}

void *malloc(size_t len) { return allocated(32, len); }
void *memalign(size_t align, size_t len) { return allocated(align < 32 ? 32 : align, len); }
void *aligned_alloc(size_t align, size_t len) { return memalign(align, len); }
int posix_memalign(void **into, size_t align, size_t len) { return *into = memalign(align, len), 0; }

void free(void *block) {
    if (block == NULL || ((size_t *)block)[-1] == 0) return;
    pthread_mutex_lock(&lock);
    munmap((char *)block - HEADER, ((size_t *)block)[-2]);
    pthread_mutex_unlock(&lock);
}

void *calloc(size_t count, size_t len) { return memset(malloc(count * len), 0, count * len); }

void *realloc(void *block, size_t len) {
    void *fresh = malloc(len);
    if (block != NULL) {
        size_t before = ((size_t *)block)[-2] - HEADER;
        memcpy(fresh, block, before < len ? before : len), free(block);
    }
    return fresh;
}

static void *free_for_ever(void *unused) {
    for (;;) free(malloc(2 * LONG)), frees++;
    return unused;
}

static volatile const char *map_of(const char *path) {
    int fd = open(path, O_RDONLY);
    volatile const char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return at;
}

int main(int count, char **paths) {
    pthread_t threads[2];
    volatile const char *map = map_of(paths[1]);
    for (int index = 0; index < 2; index++) pthread_create(&threads[index], NULL, free_for_ever, NULL);
    usleep(100000);
    for (int turn = 0; turn < 200; turn++) {
        close(open(paths[1], O_RDWR));
        map = map_of(paths[1]);
    }
    const char *answer = map[0] != 0 && frees > 100 ? "went on\n" : "stood still\n";
    write(1, answer, strlen(answer));
    _exit(0);
}
