/* Reads a file by every name that the library exports for that, and compares each answer with that of the bare system call, on the file itself
   or on a second copy of its bytes that lies elsewhere: every_read FOLDER NAME TWIN MADE */
#include "every.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>

/* What the version is called that programs of before 2.33 pass. */
#ifdef __x86_64__
enum { STAT_VERSION = 1 };
#else
enum { STAT_VERSION = 0 };
#endif

int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off_t, size_t);

static const char *folder, *name, *twin, *made;
static char path[4000], linked[4096], missing[4096], below[4096];
static int at;
static off_t size;
static unsigned char got[1 << 22], wanted[1 << 22];
static const unsigned char *bytes;

/* Openers, for reading. */
static int by_open(const char *path, int flags) { int (*call)(const char *, int, ...) = open; return call(path, flags, 0); }
static int by_open64(const char *path, int flags) { int (*call)(const char *, int, ...) = open64; return call(path, flags, 0); }
static int by_openat(const char *path, int flags) { int (*call)(int, const char *, int, ...) = openat; return call(AT_FDCWD, path, flags, 0); }
static int by_openat64(const char *path, int flags) { int (*call)(int, const char *, int, ...) = openat64; return call(AT_FDCWD, path, flags, 0); }
static int by_openat_2(const char *path, int flags) { return __openat_2(at, path, flags); }
static int by_openat64_2(const char *path, int flags) { return __openat64_2(at, path, flags); }
static int number(FILE *stream) { return stream ? fileno(stream) : -1; }
static const char *mode(int flags) { return flags & O_CLOEXEC ? "re" : "r"; }
static int by_fopen(const char *path, int flags) { return number(fopen(path, mode(flags))); }
static int by_fopen64(const char *path, int flags) { return number(fopen64(path, mode(flags))); }
static int by_freopen(const char *path, int flags) { return number(freopen(path, mode(flags), fopen("/dev/null", "r"))); }
static int by_freopen64(const char *path, int flags) { return number(freopen64(path, mode(flags), fopen("/dev/null", "r"))); }

static const struct { const char *name; int (*open)(const char *, int); int is_stream; } openers[] = {
    {"open", by_open}, {"open64", by_open64}, {"openat", by_openat}, {"openat64", by_openat64}, {"__open_2", __open_2},
    {"__open64_2", __open64_2}, {"__openat_2", by_openat_2}, {"__openat64_2", by_openat64_2}, {"fopen", by_fopen, 1},
    {"fopen64", by_fopen64, 1}, {"freopen", by_freopen, 1}, {"freopen64", by_freopen64, 1},
};

static void open_by_each(void) {
    for (size_t index = 0; index < sizeof openers / sizeof *openers; index++) {
        const char *called = openers[index].name;
        int fd = openers[index].open(path, O_RDONLY | O_CLOEXEC), bare = bare_open(path, O_RDONLY | O_CLOEXEC);
        struct stat s, kernel = bare_stat(path, 0);
        SAME(called, "position", lseek(fd, 0, SEEK_CUR), syscall(SYS_lseek, bare, 0, SEEK_CUR));
        must(called, "bytes", pread(fd, got, sizeof got, 0) == size && memcmp(got, bytes, size) == 0);
        must(called, "fstat", fstat(fd, &s) == 0 && is_same_stat(&s, &kernel));
        SAME(called, "F_GETFL", fcntl(fd, F_GETFL), syscall(SYS_fcntl, bare, F_GETFL));
        SAME(called, "F_GETFD", fcntl(fd, F_GETFD), syscall(SYS_fcntl, bare, F_GETFD));
        close(fd), bare_close(bare);
        SAME(called, "closed", fcntl(fd, F_GETFD), syscall(SYS_fcntl, bare, F_GETFD));
        SAME(called, "of no file", openers[index].open(missing, O_RDONLY), syscall(SYS_openat, AT_FDCWD, missing, O_RDONLY));
        SAME(called, "below a file", openers[index].open(below, O_RDONLY), syscall(SYS_openat, AT_FDCWD, below, O_RDONLY));
        if (openers[index].is_stream) continue;
        SAME(called, "of a link", openers[index].open(linked, O_RDONLY | O_NOFOLLOW),
             syscall(SYS_openat, AT_FDCWD, linked, O_RDONLY | O_NOFOLLOW));
        SAME(called, "of a file as a folder", openers[index].open(path, O_RDONLY | O_DIRECTORY),
             syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
        fd = openers[index].open(linked, O_RDONLY);
        must(called, "bytes by a link", read(fd, got, 1000) == 1000 && memcmp(got, bytes, 1000) == 0);
        close(fd);
    }
}

/* Readers: those at a place, and those at the position, which is then set first. */
static int seeks;
static struct iovec *split(void *into, size_t len) {
    static struct iovec parts[3];
    parts[0] = (struct iovec){into, len / 3}, parts[1] = (struct iovec){into, 0};
    parts[2] = (struct iovec){(char *)into + len / 3, len - len / 3};
    return parts;
}
static void seek(int fd, off_t at) { (seeks++ % 2 ? lseek : lseek64)(fd, at, SEEK_SET); }
static ssize_t by_read(int fd, void *into, size_t len, off_t at) { ssize_t (*call)(int, void *, size_t) = read; seek(fd, at); return call(fd, into, len); }
static ssize_t by_read_chk(int fd, void *into, size_t len, off_t at) { seek(fd, at); return __read_chk(fd, into, len, sizeof got); }
static ssize_t by_readv(int fd, void *into, size_t len, off_t at) { seek(fd, at); return readv(fd, split(into, len), 3); }
static ssize_t by_pread(int fd, void *into, size_t len, off_t at) { ssize_t (*call)(int, void *, size_t, off_t) = pread; return call(fd, into, len, at); }
static ssize_t by_pread64(int fd, void *into, size_t len, off_t at) { ssize_t (*call)(int, void *, size_t, off_t) = pread64; return call(fd, into, len, at); }
static ssize_t by_pread_chk(int fd, void *into, size_t len, off_t at) { return __pread_chk(fd, into, len, at, sizeof got); }
static ssize_t by_pread64_chk(int fd, void *into, size_t len, off_t at) { return __pread64_chk(fd, into, len, at, sizeof got); }
static ssize_t by_preadv(int fd, void *into, size_t len, off_t at) { return preadv(fd, split(into, len), 3, at); }
static ssize_t by_preadv64(int fd, void *into, size_t len, off_t at) { return preadv64(fd, split(into, len), 3, at); }
static ssize_t by_preadv2(int fd, void *into, size_t len, off_t at) { return preadv2(fd, split(into, len), 3, at, 0); }
static ssize_t by_preadv64v2(int fd, void *into, size_t len, off_t at) { return preadv64v2(fd, split(into, len), 3, at, 0); }

static const struct { const char *name; ssize_t (*read)(int, void *, size_t, off_t); int is_placed; } readers[] = {
    {"read", by_read}, {"__read_chk", by_read_chk}, {"readv", by_readv}, {"pread", by_pread, 1}, {"pread64", by_pread64, 1},
    {"__pread_chk", by_pread_chk, 1}, {"__pread64_chk", by_pread64_chk, 1}, {"preadv", by_preadv, 1}, {"preadv64", by_preadv64, 1},
    {"preadv2", by_preadv2, 1}, {"preadv64v2", by_preadv64v2, 1},
};

static void read_by_each(void) {
    const struct { off_t at; size_t len; } ranges[] = {
        {0, 1}, {5, 100000}, {(1 << 20) - 3, 70001}, {0, size}, {0, size + 5}, {size - 7, 4096}, {size, 10}, {size + 99, 10}, {4321, 0},
    };
    for (size_t index = 0; index < sizeof readers / sizeof *readers; index++) {
        const char *called = readers[index].name;
        int fd = open(path, O_RDONLY), bare = bare_open(twin, O_RDONLY);
        lseek(fd, 777, SEEK_SET), syscall(SYS_lseek, bare, 777, SEEK_SET);
        for (size_t range = 0; range < sizeof ranges / sizeof *ranges; range++) {
            off_t at = ranges[range].at;
            memset(got, 0xee, sizeof got), memset(wanted, 0xee, sizeof wanted);
            if (!readers[index].is_placed) syscall(SYS_lseek, bare, at, SEEK_SET);
            SAME(called, "length", readers[index].read(fd, got, ranges[range].len, at),
                 readers[index].is_placed ? syscall(SYS_pread64, bare, wanted, ranges[range].len, at)
                                          : syscall(SYS_read, bare, wanted, ranges[range].len));
            must(called, "bytes", memcmp(got, wanted, sizeof got) == 0);
            SAME(called, "position", lseek64(fd, 0, SEEK_CUR), syscall(SYS_lseek, bare, 0, SEEK_CUR));
        }
        SAME(called, "to nowhere", readers[index].read(fd, NULL, 10, 0), syscall(SYS_pread64, bare, NULL, 10, 0));
        SAME(called, "of no descriptor", readers[index].read(-1, got, 10, 0), syscall(SYS_read, -1, wanted, 10));
        // For these -1 stands for the position.
        if (readers[index].is_placed && strstr(called, "v2") == NULL)
            SAME(called, "before the start", readers[index].read(fd, got, 10, -1), syscall(SYS_pread64, bare, wanted, 10L, -1L));
        close(fd), bare_close(bare);
    }
}

/* What vectored calls refuse, and places that a position can be set to. */
static void refused(void) {
    int fd = open(path, O_RDONLY), bare = bare_open(twin, O_RDONLY);
    static struct iovec parts[1025] = {{got, 10}, {got + 10, 10}};
    volatile int less = -1;
    SAME("readv", "of -1 parts", readv(fd, parts, less), syscall(SYS_readv, bare, parts, -1));
    SAME("preadv", "of 1025 parts", preadv(fd, parts, 1025, 0), syscall(SYS_preadv, bare, parts, 1025, 0, 0));
    SAME("preadv64", "of no parts", preadv64(fd, parts, 0, 0), syscall(SYS_preadv, bare, parts, 0, 0, 0));
    SAME("preadv2", "with odd flags", preadv2(fd, parts, 2, 0, 1 << 30), syscall(SYS_preadv2, bare, parts, 2L, 0L, 0L, 1L << 30));
    SAME("preadv64v2", "with odd flags", preadv64v2(fd, parts, 2, 0, 1 << 30), syscall(SYS_preadv2, bare, parts, 2L, 0L, 0L, 1L << 30));
    SAME("preadv2", "at the position", preadv2(fd, parts, 2, -1, 0), syscall(SYS_preadv2, bare, parts, 2L, -1L, -1L, 0L));
    SAME("preadv64v2", "at the position", preadv64v2(fd, parts, 2, -1, 0), syscall(SYS_preadv2, bare, parts, 2L, -1L, -1L, 0L));
    const struct { off_t offset; int from; } places[] = {
        {100, SEEK_SET}, {23, SEEK_CUR}, {-50, SEEK_END}, {50, SEEK_END}, {-1, SEEK_SET}, {0, 99}, {5, SEEK_DATA}, {5, SEEK_HOLE}, {size, SEEK_DATA},
    };
    for (size_t index = 0; index < sizeof places / sizeof *places; index++) {
        SAME("lseek", "anywhere", lseek(fd, places[index].offset, places[index].from),
             syscall(SYS_lseek, bare, places[index].offset, places[index].from));
        SAME("lseek64", "anywhere", lseek64(fd, places[index].offset, places[index].from),
             syscall(SYS_lseek, bare, places[index].offset, places[index].from));
    }
    for (int advice = 0; advice < 8; advice++) {
        SAME("posix_fadvise", "", posix_fadvise(fd, 0, 0, advice), syscall(SYS_fadvise64, bare, 0, 0, advice) ? errno : 0);
        SAME("posix_fadvise64", "", posix_fadvise64(fd, 0, 0, advice), syscall(SYS_fadvise64, bare, 0, 0, advice) ? errno : 0);
    }
    close(fd), bare_close(bare);
}

static void maps(void) {
    void *(*const calls[])(void *, size_t, int, int, int, off_t) = {mmap, mmap64};
    const char *names[] = {"mmap", "mmap64"};
    for (int index = 0; index < 2; index++) {
        int fd = open(path, O_RDONLY);
        unsigned char *all = calls[index](NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        must(names[index], "bytes", all != MAP_FAILED && memcmp(all, bytes, size) == 0);
        unsigned char *part = calls[index](NULL, 5000, PROT_READ, MAP_SHARED, fd, 8192);
        must(names[index], "bytes of a part", part != MAP_FAILED && memcmp(part, bytes + 8192, 5000) == 0);
        SAME(names[index], "for writing", calls[index](NULL, size, PROT_WRITE, MAP_SHARED, fd, 0),
             syscall(SYS_mmap, NULL, size, PROT_WRITE, MAP_SHARED, bare_open(twin, O_RDONLY), 0L));
        SAME(names[index], "of nothing", calls[index](NULL, 0, PROT_READ, MAP_SHARED, fd, 0), syscall(SYS_mmap, NULL, 0L, PROT_READ, MAP_SHARED, fd, 0L));
        must("mprotect", "", mprotect(all, 4096, PROT_READ | PROT_WRITE) == 0 && (all[0] ^= 1, all[0] != bytes[0]));
        SAME("pkey_mprotect", "without a key", pkey_mprotect(all, 4096, PROT_READ, -1), 0);
        SAME("mprotect", "of a shared map", mprotect(part, 4096, PROT_READ | PROT_WRITE), (errno = EACCES, -1));
        SAME("pkey_mprotect", "of a shared map", pkey_mprotect(part, 4096, PROT_READ | PROT_WRITE, -1), (errno = EACCES, -1));
        all = mremap(all, size, 1 << 21, MREMAP_MAYMOVE);
        must("mremap", "bytes", all != MAP_FAILED && memcmp(all + 1, bytes + 1, (1 << 21) - 1) == 0);
        close(fd);
        must("munmap", "", munmap(all, 1 << 21) == 0 && munmap(part, 5000) == 0);
        SAME("munmap", "of nothing", munmap(part, 0), syscall(SYS_munmap, part, 0));
    }
}

/* Copies into another file by `call`, from a place and from the position on. */
typedef ssize_t copier(int to, int from, off_t *place, size_t len);
static void copy(const char *called, copier *call, copier *bare) {
    int fd = open(path, O_RDONLY), to = bare_open(made, O_RDWR | O_CREAT | O_TRUNC);
    off_t place = 1000, end = 400000;
    while (place < end && call(to, fd, &place, end - place) > 0) {}
    must(called, "place", place == end && lseek(fd, 0, SEEK_CUR) == 0);
    must(called, "bytes", syscall(SYS_pread64, to, got, sizeof got, 0) == end - 1000 && memcmp(got, bytes + 1000, end - 1000) == 0);
    lseek(fd, size - 5000, SEEK_SET), syscall(SYS_ftruncate, to, 0), syscall(SYS_lseek, to, 0, SEEK_SET);
    while (call(to, fd, NULL, 4000) > 0) {}
    must(called, "position", lseek(fd, 0, SEEK_CUR) == size);
    must(called, "last bytes", syscall(SYS_pread64, to, got, sizeof got, 0) == 5000 && memcmp(got, bytes + size - 5000, 5000) == 0);
    int plain = bare_open(twin, O_RDONLY);
    place = -1;
    SAME(called, "before the start", call(to, fd, &place, 10), bare(to, plain, &place, 10));
    place = size + 5;
    SAME(called, "past the end", call(to, fd, &place, 10), bare(to, plain, &place, 10));
    SAME(called, "to no descriptor", call(-1, fd, NULL, 10), bare(-1, plain, NULL, 10));
    SAME(called, "to one for reading", call(plain, fd, NULL, 10), bare(plain, plain, NULL, 10));
    close(fd), bare_close(to), bare_close(plain);
}
static ssize_t by_copy_file_range(int to, int from, off_t *place, size_t len) { return copy_file_range(from, place, to, NULL, len, 0); }
static ssize_t bare_copy(int to, int from, off_t *place, size_t len) { return syscall(SYS_copy_file_range, from, place, to, NULL, len, 0L); }
static ssize_t bare_send(int to, int from, off_t *place, size_t len) { return syscall(SYS_sendfile, to, from, place, len); }

/* Functions that headers have other names for, or no declaration. */
static int (*stat_by(const char *called))() {
    int (*call)() = (int (*)())dlsym(RTLD_DEFAULT, called);
    must(called, "address", call != NULL);
    return call;
}

/* A C library of a new system may have no names of before 2.33. */
static int is_there(const char *called) {
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return library == NULL || dlsym(library, called) != NULL;
}

static void stats(int fd) {
    struct stat s, kernel = bare_stat(path, 0), link = bare_stat(linked, AT_SYMLINK_NOFOLLOW);
#define STAT(called, wanted, ...) \
    if (is_there(called)) memset(&s, 0, sizeof s), must(called, #__VA_ARGS__, stat_by(called)(__VA_ARGS__) == 0 && is_same_stat(&s, &wanted))
#define STAT_BOTH(called, wanted, ...) STAT(called, wanted, __VA_ARGS__); STAT(called "64", wanted, __VA_ARGS__)
    STAT_BOTH("fstat", kernel, fd, &s);
    STAT_BOTH("__fxstat", kernel, STAT_VERSION, fd, &s);
    STAT_BOTH("fstatat", kernel, fd, "", &s, AT_EMPTY_PATH);
    STAT_BOTH("fstatat", kernel, at, name, &s, 0);
    STAT_BOTH("fstatat", link, AT_FDCWD, linked, &s, AT_SYMLINK_NOFOLLOW);
    STAT_BOTH("__fxstatat", kernel, STAT_VERSION, fd, "", &s, AT_EMPTY_PATH);
    STAT_BOTH("__fxstatat", link, STAT_VERSION, AT_FDCWD, linked, &s, AT_SYMLINK_NOFOLLOW);
    STAT_BOTH("stat", kernel, linked, &s);
    STAT_BOTH("lstat", link, linked, &s);
    STAT_BOTH("__xstat", kernel, STAT_VERSION, linked, &s);
    STAT_BOTH("__lxstat", link, STAT_VERSION, linked, &s);
    const char *fails[] = {"stat", "stat64", "lstat", "lstat64"}, *versions[] = {"__xstat", "__xstat64", "__lxstat", "__lxstat64"};
    for (int index = 0; index < 4; index++) {
        SAME(fails[index], "of no file", stat_by(fails[index])(missing, &s), (errno = ENOENT, -1));
        if (is_there(versions[index])) SAME(versions[index], "below a file", stat_by(versions[index])(STAT_VERSION, below, &s), (errno = ENOTDIR, -1));
    }
    struct statx x, bare;
    for (int round = 0; round < 2; round++) {
        memset(&x, 0, sizeof x), memset(&bare, 0, sizeof bare);
        SAME("statx", "", round ? statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &x) : statx(at, name, 0, STATX_ALL, &x),
             syscall(SYS_statx, AT_FDCWD, path, 0, STATX_ALL, &bare));
        bare.stx_atime = x.stx_atime;
        must("statx", "structure", memcmp(&x, &bare, sizeof x) == 0);
    }
}

/* The file system that the file lies on; how much of it is free changes. */
static void file_systems(int fd) {
    struct statfs f, kernel;
    struct statvfs v;
    syscall(SYS_statfs, path, &kernel);
#define FS(called, of)                                                                                                    \
    must(called, "file system", stat_by(called)(of, &f) == 0 && f.f_type == kernel.f_type && f.f_blocks == kernel.f_blocks \
         && memcmp(&f.f_fsid, &kernel.f_fsid, sizeof f.f_fsid) == 0)
#define VFS(called, of)                                                                                                  \
    must(called, "file system", stat_by(called)(of, &v) == 0 && v.f_blocks == kernel.f_blocks && v.f_bsize == kernel.f_bsize \
         && v.f_namemax == kernel.f_namelen)
    FS("fstatfs", fd); FS("fstatfs64", fd); FS("statfs", path); FS("statfs64", path);
    VFS("fstatvfs", fd); VFS("fstatvfs64", fd); VFS("statvfs", path); VFS("statvfs64", path);
    SAME("statfs", "of no file", statfs(missing, &f), syscall(SYS_statfs, missing, &kernel));
}

static void names(int fd) {
    const char *mark = "user.forebay";
    char resolved[4096], *canonical;
    // Once: it makes the file one that has just changed.
    if (syscall(SYS_getxattr, path, mark, NULL, 0L) < 0) syscall(SYS_setxattr, path, mark, "marked", 6L, 0L);
#define ATTRIBUTE(called, call, bare)                                                            \
    memset(got, 0, 256), memset(wanted, 0, 256);                                                 \
    SAME(called, "length", call, bare);                                                          \
    must(called, "bytes", memcmp(got, wanted, 256) == 0)
    ATTRIBUTE("fgetxattr", fgetxattr(fd, mark, got, 256), syscall(SYS_getxattr, path, mark, wanted, 256));
    ATTRIBUTE("getxattr", getxattr(linked, mark, got, 256), syscall(SYS_getxattr, path, mark, wanted, 256));
    ATTRIBUTE("lgetxattr", lgetxattr(linked, mark, got, 256), syscall(SYS_lgetxattr, linked, mark, wanted, 256));
    ATTRIBUTE("flistxattr", flistxattr(fd, (char *)got, 256), syscall(SYS_listxattr, path, wanted, 256));
    ATTRIBUTE("listxattr", listxattr(linked, (char *)got, 256), syscall(SYS_listxattr, path, wanted, 256));
    ATTRIBUTE("llistxattr", llistxattr(linked, (char *)got, 256), syscall(SYS_llistxattr, linked, wanted, 256));
    ATTRIBUTE("readlink", readlink(linked, (char *)got, 256), syscall(SYS_readlinkat, AT_FDCWD, linked, wanted, 256));
    ATTRIBUTE("readlinkat", readlinkat(at, name, (char *)got, 256), syscall(SYS_readlinkat, AT_FDCWD, path, wanted, 256));
    for (int mode = 0; mode < 8; mode++) {
        SAME("access", "", access(path, mode), syscall(SYS_faccessat, AT_FDCWD, path, mode));
        SAME("eaccess", "", eaccess(path, mode), syscall(SYS_faccessat, AT_FDCWD, path, mode));
        SAME("euidaccess", "", euidaccess(path, mode), syscall(SYS_faccessat, AT_FDCWD, path, mode));
        SAME("faccessat", "", faccessat(at, name, mode, 0), syscall(SYS_faccessat, AT_FDCWD, path, mode));
    }
    SAME("access", "of no file", access(missing, R_OK), syscall(SYS_faccessat, AT_FDCWD, missing, R_OK));
    char *(*volatile resolve)(const char *, char *) = realpath;
    must("realpath", "", resolve(linked, resolved) != NULL && strcmp(resolved, path) == 0);
    must("canonicalize_file_name", "", (canonical = canonicalize_file_name(linked)) != NULL && strcmp(canonical, path) == 0);
    SAME("realpath", "of no file", resolve(missing, resolved) == NULL ? -1 : 0, (errno = ENOENT, -1));
    free(canonical);
}

static int seen;
static int visit(const char *visited, const struct stat *s, int kind, struct FTW *where) {
    struct stat kernel = bare_stat(path, 0);
    if (strcmp(visited, path) == 0 && kind == FTW_F) seen += is_same_stat(s, &kernel);
    return 0;
}

static void listings(void) {
    struct dirent **names = NULL, *entry;
    glob_t found;
    char *const roots[] = {(char *)folder, NULL};
    DIR *opened[] = {opendir(folder), fdopendir(open(folder, O_RDONLY | O_DIRECTORY))};
    for (int index = 0; index < 2; index++, seen = 0) {
        while ((entry = readdir(opened[index])) != NULL) seen += strcmp(entry->d_name, name) == 0;
        must(index ? "fdopendir" : "opendir", "names", seen == 1);
        closedir(opened[index]);
    }
    int count = scandir(folder, &names, NULL, alphasort);
    must("scandir", "names", count >= 4 && strcmp(names[2]->d_name, name) == 0);
    must("scandir64", "names", scandir64(folder, (struct dirent64 ***)&names, NULL, alphasort64) == count && strcmp(names[2]->d_name, name) == 0);
    must("glob", "names", glob(path, 0, NULL, &found) == 0 && found.gl_pathc == 1 && strcmp(found.gl_pathv[0], path) == 0);
    must("glob64", "names", glob64(path, 0, NULL, (glob64_t *)&found) == 0 && found.gl_pathc == 1 && strcmp(found.gl_pathv[0], path) == 0);
    must("nftw", "names", nftw(folder, visit, 8, FTW_PHYS) == 0 && seen == 1);
    must("nftw64", "names", nftw64(folder, (__nftw64_func_t)visit, 8, FTW_PHYS) == 0 && seen == 2);
    FTS *tree = fts_open(roots, FTS_PHYSICAL, NULL);
    struct stat kernel = bare_stat(path, 0);
    for (FTSENT *part; tree != NULL && (part = fts_read(tree)) != NULL;)
        seen += strcmp(part->fts_path, path) == 0 && is_same_stat(part->fts_statp, &kernel);
    must("fts_open", "names", seen == 3);
    fts_close(tree);
}

/* Duplicates share the position; the first of them that is locked is the origin. */
static void duplicates(void) {
    int fd = open(path, O_RDONLY), made[5], bare;
    made[0] = dup(fd), made[1] = dup2(fd, 90), made[2] = dup3(fd, 91, O_CLOEXEC);
    made[3] = fcntl(fd, F_DUPFD, 92), made[4] = fcntl64(fd, F_DUPFD_CLOEXEC, 93);
    const char *called[] = {"dup", "dup2", "dup3", "fcntl", "fcntl64"};
    for (int index = 0; index < 5; index++) {
        lseek(fd, 100 * index, SEEK_SET);
        must(called[index], "bytes", read(made[index], got, 50000) == 50000 && memcmp(got, bytes + 100 * index, 50000) == 0);
        must(called[index], "position", lseek(fd, 0, SEEK_CUR) == 100 * index + 50000);
        must(called[index], "flag for exec", fcntl64(made[index], F_GETFD) == (index == 2 || index == 4 ? FD_CLOEXEC : 0));
    }
    SAME("fcntl64", "F_GETFL", fcntl64(fd, F_GETFL), syscall(SYS_fcntl, bare = bare_open(path, O_RDONLY), F_GETFL));
    SAME("dup2", "onto -1", dup2(fd, -1), (errno = EBADF, -1));
    SAME("dup3", "onto itself", dup3(fd, fd, 0), (errno = EINVAL, -1));
    close_range(90, 91, 0), closefrom(92);
    for (int number = 90; number < 94; number++) SAME("closefrom", "", read(number, got, 1), (errno = EBADF, -1));
    close(made[0]), close(fd);
    for (int round = 0; round < 4; round++) {
        struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET}, asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        fd = open(path, O_RDONLY), lseek(fd, 5000, SEEK_SET);
        if (round == 0) SAME("flock", "", flock(fd, LOCK_SH), 0);
        if (round == 0) SAME("flock", "of another", syscall(SYS_flock, bare, LOCK_EX | LOCK_NB), (errno = EWOULDBLOCK, -1));
        if (round == 1) SAME("lockf", "to test", lockf(fd, F_TEST, 0), 0);
        if (round == 2) SAME("lockf64", "of what is not written", lockf64(fd, F_TLOCK, 0), (errno = EBADF, -1));
        if (round == 3) SAME("fcntl64", "F_OFD_SETLK", fcntl64(fd, F_OFD_SETLK, &range), 0);
        if (round == 3) must("fcntl64", "lock", syscall(SYS_fcntl, bare, F_OFD_GETLK, &asked) == 0 && asked.l_type == F_RDLCK);
        must("a lock", "bytes after it", read(fd, got, 60000) == 60000 && memcmp(got, bytes + 5000, 60000) == 0);
        must("a lock", "bytes of a place after it", pread64(fd, got, 60000, 9) == 60000 && memcmp(got, bytes + 9, 60000) == 0);
        close(fd);
    }
    bare_close(bare);
}

/* Descriptors that another process gets, folders that are entered, and questions about the number. */
static void handed(void) {
    int pair[2], left = 0, bare_left = 0, bare = bare_open(twin, O_RDONLY);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int round = 0; round < 2; round++) {
        int fd = open(path, O_RDONLY), received;
        char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 'x';
        struct iovec part = {&byte, 1};
        struct mmsghdr message = {{.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control}, 0};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message.msg_hdr);
        struct stat s, kernel = bare_stat(path, 0);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
        lseek(fd, 12345, SEEK_SET);
        SAME("ioctl", "FIONREAD", ioctl(fd, FIONREAD, &left), (syscall(SYS_lseek, bare, 12345, SEEK_SET), syscall(SYS_ioctl, bare, FIONREAD, &bare_left)));
        must("ioctl", "bytes left", left == bare_left);
        must("ioctl", "FIOCLEX", ioctl(fd, FIOCLEX) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
        if (round) SAME("sendmmsg", "", sendmmsg(pair[0], &message, 1, 0), 1);
        else SAME("sendmsg", "", sendmsg(pair[0], &message.msg_hdr, 0), 1);
        syscall(SYS_recvmsg, pair[1], &message.msg_hdr, 0);
        memcpy(&received, CMSG_DATA(header), sizeof received);
        must("sendmsg", "file", syscall(SYS_fstat, received, &s) == 0 && is_same_stat(&s, &kernel));
        must("sendmsg", "bytes", syscall(SYS_read, received, got, 3000) == 3000 && memcmp(got, bytes + 12345, 3000) == 0);
        must("sendmsg", "position", lseek(fd, 0, SEEK_CUR) == 15345 && read(fd, got, 3000) == 3000 && memcmp(got, bytes + 15345, 3000) == 0);
        close(fd), close(received);
        SAME("fchdir", "", round ? chdir(folder) : fchdir(at), 0);
        fd = open(name, O_RDONLY);
        must("fchdir", "bytes", pread(fd, got, 3000, 7) == 3000 && memcmp(got, bytes + 7, 3000) == 0);
        close(fd), chdir("/");
    }
    SAME("chdir", "into a file", chdir(path), (errno = ENOTDIR, -1));
    close(pair[0]), close(pair[1]), bare_close(bare);
}

int main(int count, char **arguments) {
    folder = arguments[1], name = arguments[2], twin = arguments[3], made = arguments[4];
    snprintf(path, sizeof path, "%s/%s", folder, name), snprintf(linked, sizeof linked, "%s/link", folder);
    snprintf(missing, sizeof missing, "%s/none", folder), snprintf(below, sizeof below, "%s/x", path);
    int bare = bare_open(twin, O_RDONLY), fd = open(path, O_RDONLY);
    at = open(folder, O_RDONLY | O_DIRECTORY), size = bare_stat(twin, 0).st_size;
    bytes = (unsigned char *)syscall(SYS_mmap, NULL, size, PROT_READ, MAP_PRIVATE, bare, 0L);
    stats(fd), file_systems(fd), names(fd), listings();
    open_by_each(), read_by_each(), refused(), maps(), duplicates(), handed();
    copy("sendfile", sendfile, bare_send), copy("sendfile64", sendfile64, bare_send);
    copy("copy_file_range", by_copy_file_range, bare_copy);
    FILE *stream = fopen(path, "r");
    must("fopen", "bytes", fread(got, 1, 200000, stream) == 200000 && memcmp(got, bytes, 200000) == 0);
    SAME("fclose", "", fclose(stream), 0);
    stats(fd);
    return ended();
}
